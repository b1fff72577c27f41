"""The tables there are: what each shows, of which quantities."""

from typing import NamedTuple

from permll.report.tables.model import Quantity

ORACLE = "*"  # marks what only an oracle can choose


class Kind(NamedTuple):
    """A table: its name on the command line, its title, what it shows, and the sentence that says so."""

    name: str
    title: str
    quantities: tuple[Quantity, ...]
    shown: str
    printed: bool = False  # the paper prints numbers of it


_LAST = Quantity("last", "last epoch", digits=2)

KINDS_OF_TABLES: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("table1", "Table 1", (_LAST,), "Test accuracy after the last epoch in per cent", True),
        Kind(
            "table2",
            "Table 2",
            (_LAST,),
            "Test accuracy after the last epoch in per cent, on labels with the errors that people made",
            True,
        ),
        Kind(
            "detection",
            "Wrong labels found",
            (
                Quantity("auroc", "AUROC"),
                Quantity("average_precision", "AP"),
                Quantity("f1", "F1"),
            ),
            "How well the quality score finds wrong labels, in per cent: area under the ROC curve, average precision, "
            "and F1 at the method's own threshold",
        ),
        Kind(
            "correction",
            "Labels corrected",
            (
                Quantity("right_before", "right before", better=0),
                Quantity("right_after", "right after"),
                Quantity("correction_precision", "precision"),
                Quantity("correction_recall", "recall"),
            ),
            "Training labels in per cent: right as given, right after correction, changes that are right (precision), "
            "and wrong labels put right (recall)",
        ),
        Kind(
            "calibration",
            "Calibration",
            (
                Quantity("ece", "ECE, %", better=-1),
                Quantity("nll", "NLL", scale=1, digits=3, better=-1),
                Quantity("brier", "Brier", scale=1, digits=3, better=-1),
            ),
            "Calibration on test data after the last epoch, low is good: expected calibration error in per cent, "
            "negative log-likelihood, Brier score",
        ),
        Kind(
            "memorisation",
            "Lost by learning labels by heart",
            (Quantity("last_minus_best", f"last - best{ORACLE}", digits=2),),
            f"Test accuracy of the last epoch minus that of the best{ORACLE}, in points: 0 is no loss",
        ),
        Kind(
            "time",
            "Time of training",
            (Quantity("relative_time", "time", scale=1, digits=2, better=0),),
            "Seconds of a whole training divided by the mean seconds of cross-entropy on the same data and noise",
        ),
        Kind("ranks", "Mean ranks", (_LAST,), "Mean rank by test accuracy after the last epoch, 1 is best"),
    )
}
