"""Specifications of the tables: title, description and quantities."""

from typing import NamedTuple

from permll.report.tables.model import Quantity

ORACLE_MARK = "*"  # marks a choice that needs the test labels


class TableSpec(NamedTuple):
    """A table: its name on the command line, title, quantities, and the first words of its caption."""

    name: str
    title: str
    quantities: tuple[Quantity, ...]
    description: str
    in_paper: bool = False  # whether the paper has the same table


_LAST = Quantity("last", "last epoch", digits=2)

TABLE_SPECS: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        TableSpec("table1", "Table 1", (_LAST,), "Test accuracy after the last epoch in percent", True),
        TableSpec(
            "table2",
            "Table 2",
            (_LAST,),
            "Test accuracy after the last epoch in percent, with real label noise",
            True,
        ),
        TableSpec(
            "detection",
            "Detection of wrong labels",
            (
                Quantity("auroc", "AUROC"),
                Quantity("average_precision", "AP"),
                Quantity("f1", "F1"),
            ),
            "Detection of wrong labels by the quality score, in percent: area under the ROC curve, average precision, "
            "and F1 at the method's threshold",
        ),
        TableSpec(
            "correction",
            "Label correction",
            (
                Quantity("right_before", "right before", better=0),
                Quantity("right_after", "right after"),
                Quantity("correction_precision", "precision"),
                Quantity("correction_recall", "recall"),
            ),
            "Training labels in percent: right as given, right after correction, precision of the changes, and recall "
            "of the wrong labels",
        ),
        TableSpec(
            "calibration",
            "Calibration",
            (
                Quantity("ece", "ECE, %", better=-1),
                Quantity("nll", "NLL", scale=1, digits=3, better=-1),
                Quantity("brier", "Brier", scale=1, digits=3, better=-1),
            ),
            "Calibration on the test data after the last epoch, low is good: expected calibration error in percent, "
            "negative log-likelihood, Brier score",
        ),
        TableSpec(
            "memorization",
            "Memorization",
            (Quantity("last_minus_best", f"last - best{ORACLE_MARK}", digits=2),),
            f"Test accuracy of the last epoch minus that of the best{ORACLE_MARK}, in points",
        ),
        TableSpec(
            "time",
            "Training time",
            (Quantity("relative_time", "time", scale=1, digits=2, better=0),),
            "Training time relative to the mean time of cross-entropy on the same data and noise",
        ),
        TableSpec("ranks", "Mean ranks", (_LAST,), "Mean rank by test accuracy after the last epoch, 1 is best"),
    )
}
