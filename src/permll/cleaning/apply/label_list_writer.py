"""Label lists: a CSV file with a key, the label and its history for every sample."""

import csv
from collections.abc import Iterable
from pathlib import Path

from permll.cleaning.apply.corrections import Correction
from permll.cleaning.apply.label_columns import LABEL, ORIGINAL, SOURCE
from permll.findings import Findings


def write_id_list(findings: Findings, corrections: Iterable[Correction], out: Path) -> None:
    """Write the labels of all samples by id, for data that are not in a file."""
    given = [findings.classes[k] for k in findings.given_labels.tolist()]
    rows = [(name, label, label, "given") for name, label in zip(findings.ids, given, strict=True)]
    for correction in corrections:
        rows[correction.row] = (correction.id, correction.after, correction.before, correction.source)
    write_label_list(out, "id", rows)


def write_label_list(out: Path, key: str, rows: Iterable[tuple[str, str, str, str]]) -> None:
    """Write rows of key, label, original label and label source.

    Args:
        out: the new file.
        key: name of the first column, ``id`` or ``path``.
        rows: in the order of the data.
    """
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((key, LABEL, ORIGINAL, SOURCE))
        writer.writerows(rows)
