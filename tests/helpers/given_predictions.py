"""Predictions for the data sets of ``cleaning_files``, a review of all flagged labels, and the corrected labels."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from permll.cleaning.review_decisions import Decisions
from permll.cleaning.source import load_source
from permll.data.loading import load
from permll.findings import Findings
from permll.review.session import ReviewSession
from permll.training.run import Run
from tests.helpers.mislabeled_data import CLASSES


def row_of(id: str) -> int:
    """Return the row of a sample of ``cleaning_files``: its id, or the name of its image."""
    return int(Path(id).stem)


def true_class(id: str) -> int:
    """Return the true class of a sample of ``cleaning_files``."""
    return row_of(id) % len(CLASSES)


def probabilities(ids: Iterable[str], seed: int = 0) -> np.ndarray[Any, Any]:
    """Return (N, 3) predictions of a good classifier."""
    true = np.array([true_class(id) for id in ids])
    noise = np.random.default_rng(seed).dirichlet(np.ones(len(CLASSES)), len(true))
    return 0.9 * np.eye(len(CLASSES))[true] + 0.1 * noise


def accept_flagged(folder: Path) -> set[int]:
    """Accept all proposals of a run through the API of the review; return the rows of the samples."""
    findings = Findings.load(folder)
    session = ReviewSession(findings, load_source(Run(folder)), Decisions(folder))
    rows = np.flatnonzero(findings.has_proposal).tolist()
    for row in rows:
        session.decide(row, "accept", "", "Ada", last_entry=0)
    return {row_of(findings.ids[row]) for row in rows}


def wrong_rows(path: Path, **options: Any) -> set[int]:
    """Return the rows of the samples in a file or folder whose labels are not their true classes."""
    data = load(path, **options)
    labels = zip(data.ids, data.labels.tolist(), strict=True)
    return {row_of(id) for id, k in labels if data.classes[k] != CLASSES[true_class(id)]}
