"""Findings from the errors of labels, whatever predicted them: duplicates, neighbors, reasons, allowed changes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.cleaning.annotations import is_disputed
from permll.cleaning.automatic_changes import may_change
from permll.cleaning.similar_samples import conflicting_duplicates, nearest_rows
from permll.data.dataset import LabeledData
from permll.findings import DEFAULT_THRESHOLD, DISPUTED, REVIEWED, Findings
from permll.functional.label_errors import LabelErrors

NUM_NEIGHBORS = 8
MAX_ROWS_WITH_NEIGHBORS = 10_000  # the most suspect rows; more are hardly ever reviewed


def assemble_findings(
    data: LabeledData,
    errors: LabelErrors,
    log_p: Tensor,
    *,
    labels: Tensor | None = None,
    trusted: Tensor | None = None,
    features: Tensor | None = None,
    is_corrected: Tensor | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    metadata: Mapping[str, Any],
) -> Findings:
    """Return the findings of N samples.

    Args:
        data: N samples with the labels before any review.
        errors: of the labels.
        log_p: (N, c) logarithms of predicted probabilities.
        labels: (N,) labels that were learned from, after reviews; default those of the data.
        trusted: (N,) which labels a person reviewed; default those of the data.
        features: (N, d) vectors that determine similar samples; without them there are none.
        is_corrected: (N,) labels that a training corrected.
        threshold: a label is an issue if it is correct with at most this probability.
        metadata: facts about all labels.
    """
    nothing = torch.zeros(len(data), dtype=torch.bool)
    labels = data.labels if labels is None else labels
    trusted = data.trusted if trusted is None else trusted
    trusted = nothing if trusted is None else trusted
    is_refuted = trusted & (data.labels != labels)  # by a reviewer
    duplicates = conflicting_duplicates(data.inputs, labels)
    allowed = may_change(errors.posterior.argmax(1), labels, data.classes, duplicates)
    findings = Findings.from_posterior(
        data.ids,
        data.classes,
        data.labels,
        errors.posterior,
        label_quality=errors.quality.masked_fill(is_refuted, 0.0),
        conservative_confidence=errors.confidence * allowed,
        threshold=threshold,
        issues_have_proposals=False,
        duplicates=duplicates,
        metadata={**metadata, "transition": errors.transition.tolist()},
    )
    if features is not None:
        findings = replace(findings, neighbors=_nearest_neighbors(features, findings))
    corrected = nothing if is_corrected is None else is_corrected
    reasons = _reasons(corrected, log_p, labels, findings.neighbors, duplicates)
    reasons[(findings.label_quality <= DEFAULT_THRESHOLD) & (reasons == 0)] = 16
    if data.annotations is not None:
        reasons[is_disputed(data.annotations, labels).numpy()] |= DISPUTED
    reasons[trusted.numpy()] = REVIEWED
    return replace(findings, reasons=reasons)


def _nearest_neighbors(features: Tensor, findings: Findings) -> NDArray[np.int32]:
    """Return (N, m) the nearest rows of the most suspect ones; -1 for the others."""
    first = findings.order[:MAX_ROWS_WITH_NEIGHBORS].copy()
    nearest = nearest_rows(features, torch.from_numpy(first), NUM_NEIGHBORS)
    neighbors = np.full((len(findings), nearest.shape[1]), -1, np.int32)
    neighbors[first] = nearest.numpy()
    return neighbors


def _reasons(
    is_corrected: Tensor,
    log_p: Tensor,
    labels: Tensor,
    neighbors: NDArray[np.int32],
    duplicates: tuple[tuple[int, ...], ...],
) -> NDArray[np.uint8]:
    """Return the evidence against each label, as sums of the keys of ``REASONS``."""
    given = labels.numpy()
    reasons = is_corrected.numpy().astype(np.uint8)
    reasons |= 2 * (log_p.argmax(1) != labels).numpy().astype(np.uint8)
    if neighbors.shape[1]:
        same = (given[neighbors] == given[:, None]).mean(1)
        reasons |= 4 * ((same < 0.5) & (neighbors[:, 0] >= 0)).astype(np.uint8)
    for rows in duplicates:
        reasons[list(rows)] |= 8
    return reasons
