"""Findings: what a training has to say about every label, the most suspect first."""

import csv
import io
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.utils.files import atomic_write_text

FINDINGS = "findings.csv"


class Finding(NamedTuple):
    """A training sample and its label.

    Args:
        id: of the sample.
        given: the label it came with.
        proposed: the label that the method believes; often the given one.
        belief: how far it believes the proposed one, in [0, 1].
        quality: how far it believes the given one, in [0, 1], low = suspect.
    """

    id: str
    given: str
    proposed: str
    belief: float
    quality: float


def write_findings(folder: Path, data: LabeledData, corrected: Tensor, quality: Tensor) -> None:
    """Write ``findings.csv`` into a run's folder.

    Args:
        folder: of the run.
        data: the training data with given labels.
        corrected: (N, c) what the method believes the labels to be.
        quality: (N,) how far it believes the given ones.
    """
    belief, proposed = (part.tolist() for part in corrected.max(-1))
    scores, given = quality.tolist(), data.labels.tolist()
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Finding._fields)
    for row in torch.argsort(quality, stable=True).tolist():
        names = data.ids[row], data.classes[given[row]], data.classes[proposed[row]]
        writer.writerow([*names, f"{belief[row]:.6g}", f"{scores[row]:.6g}"])
    atomic_write_text(folder / FINDINGS, file.getvalue())


def read_findings(folder: Path) -> list[Finding]:
    """Return the findings of a finished run, the most suspect first."""
    path = folder / FINDINGS
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no findings yet: permll train {folder} goes on with it.")
    with path.open(newline="") as file:
        return [
            Finding(row["id"], row["given"], row["proposed"], float(row["belief"]), float(row["quality"]))
            for row in csv.DictReader(file)
        ]
