"""Labels by id, for data that are in no file of the user's: built-in sets, and data in memory."""

import csv
from collections.abc import Sequence
from pathlib import Path

from permll.cleaning.apply.corrections import GIVEN, Correction
from permll.cleaning.apply.label_values import LABEL
from permll.data.readers.feature_columns import APPLY_COLUMNS
from permll.findings import Findings

ID = "id"


def write_ids(findings: Findings, found: Sequence[Correction], out: Path) -> None:
    """Write id, label, what it was and where it is from, in the order of the data."""
    decided = {one.row: one for one in found}
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([ID, LABEL, *APPLY_COLUMNS])
        for row, (name, k) in enumerate(zip(findings.ids, findings.given_labels.tolist(), strict=True)):
            before = findings.classes[k]
            one = decided.get(row)
            writer.writerow([name, before, before, GIVEN] if one is None else [name, one.after, before, one.source])
