"""Text for the terminal: summaries of label noise, and formatting of names and counts."""

from typing import TYPE_CHECKING

from permll.noise.class_names import class_names
from permll.noise.corruption import Corruption
from permll.noise.summary import ClassSummary, summarize_classes, summary

if TYPE_CHECKING:
    from rich.table import Table

MAX_CLASSES = 20  # classes listed one by one
MAX_ROWS = 10  # classes listed if there are more
MAX_NAME_LENGTH = 24


def facts(record: Corruption) -> "Table":
    """Return name, seed, size, rates and hash of a noise record as a table."""
    from rich.table import Table
    from rich.text import Text

    values = summary(record)
    nominal = "-" if values["nominal"] is None else f"{100 * values['nominal']:.2f} %"
    table = Table(box=None, show_header=False)
    for name, value in (
        ("noise", printable(str(values["name"]))),
        ("seed", "-" if record.seed is None else str(record.seed)),
        ("samples", f"{values['samples']:,} of {record.num_classes} classes"),
        ("nominal rate", nominal),
        ("realized rate", f"{100 * record.rate:.2f} % ({values['wrong']:,} wrong)"),
        ("hash", record.hash),
    ):
        table.add_row(name, Text(value))
    return table


def class_table(record: Corruption) -> "Table":
    """Return the noise of each class as a table; of more than 20 classes, the ten with the highest noise rates."""
    from rich.table import Table
    from rich.text import Text

    classes, names = summarize_classes(record), _names(record)
    title = ""
    if len(classes) > MAX_CLASSES:
        classes = sorted(classes, key=lambda one: -(one.rate or 0))[:MAX_ROWS]
        title = f"the ten of {record.num_classes} classes with the highest noise rates"
    table = Table(title=title, title_justify="left")
    table.add_column("class")
    for name in ("samples", "wrong", "%", "given"):
        table.add_column(name, justify="right")
    table.add_column("mostly labeled as")
    for one in classes:
        rate = "-" if one.rate is None else f"{100 * one.rate:.1f}"
        counts = (f"{one.samples:,}", f"{one.wrong:,}", rate, f"{one.given:,}")
        table.add_row(Text(names[one.label]), *counts, Text(_most_frequent_label(one, names)))
    return table


def matrix_text(record: Corruption) -> str:
    """Return the realized transition matrix in percent, a row per true class; "" for more than 20 classes.

    Examples:
        >>> import numpy as np
        >>> print(matrix_text(Corruption(np.array([0, 0, 1]), np.array([0, 1, 1]), 2, 0, {})))
        given as, %
                0   1
            0  50  50
            1   · 100
    """
    if record.num_classes > MAX_CLASSES:
        return ""
    from rich.cells import cell_len  # characters of some scripts are two columns wide

    names = _names(record)
    width = max(5, *map(cell_len, names))
    heading = " " * width + "".join(f"{label:4}" for label in range(record.num_classes))
    rows = [
        " " * (width - cell_len(name)) + name + "".join(f"{_percent(value):>4}" for value in row)
        for name, row in zip(names, record.matrix.tolist(), strict=True)
    ]
    return "\n".join(["given as, %", heading, *rows])


def printable(text: str) -> str:
    r"""Return ``text`` without control characters, which could steer a terminal.

    Examples:
        >>> printable("sym\x1b[31m")
        'sym[31m'
    """
    return "".join(char for char in text if char.isprintable())


def shorten(name: str) -> str:
    """Return a class name without control characters, cut to 24 characters.

    Examples:
        >>> shorten("Tinca tinca, also known as tench")
        'Tinca tinca, also known…'
    """
    name = printable(name)
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    Examples:
        >>> pluralize(1, "label"), pluralize(1200, "class", "classes")
        ('1 label', '1,200 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _names(record: Corruption) -> list[str]:
    return [shorten(name) for name in class_names(record) or map(str, range(record.num_classes))]


def _most_frequent_label(one: ClassSummary, names: list[str]) -> str:
    """Return the most frequent wrong label of a class; several that are equally frequent are not listed."""
    if one.confused_with is not None:
        return names[one.confused_with]
    if one.num_tied == 0:
        return "-"
    return "all alike" if one.num_tied == len(names) - 1 else f"{one.num_tied} classes alike"


def _percent(value: float) -> str:
    return "·" if value == 0 else "<1" if value < 0.005 else f"{100 * value:.0f}"
