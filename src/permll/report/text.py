"""A record of noise as text for the terminal."""

from typing import TYPE_CHECKING

from permll.noise.class_names import class_names
from permll.noise.corruption import Corruption
from permll.noise.summary import ClassShare, by_class, summary

if TYPE_CHECKING:
    from rich.table import Table

WRITTEN = 20  # up to so many classes are shown one by one
LONGEST = 24  # so many signs of a class's name are shown


def facts(record: Corruption) -> "Table":
    """Return what there is to say in a line each."""
    from rich.table import Table
    from rich.text import Text

    about = summary(record)
    asked = "-" if about["nominal"] is None else f"{100 * about['nominal']:.2f} %"
    table = Table(box=None, show_header=False)
    for what, value in (
        ("noise", printable(str(about["name"]))),
        ("seed", "-" if record.seed is None else str(record.seed)),
        ("samples", f"{about['samples']:,} of {record.num_classes} classes"),
        ("nominal rate", asked),
        ("realised rate", f"{100 * record.rate:.2f} % ({about['wrong']:,} wrong)"),
        ("hash", record.hash),
    ):
        table.add_row(what, Text(value))
    return table


def class_table(record: Corruption) -> "Table":
    """Return what became of each class: of all up to 20, otherwise of the ten with the largest wrong share."""
    from rich.table import Table
    from rich.text import Text

    shares, names = by_class(record), _names(record)
    title = ""
    if len(shares) > WRITTEN:
        shares = sorted(shares, key=lambda share: -(share.rate or 0))[:10]
        title = f"the ten of {record.num_classes} classes with most wrong labels"
    table = Table(title=title, title_justify="left")
    table.add_column("class")
    for name in ("samples", "wrong", "%", "given"):
        table.add_column(name, justify="right")
    table.add_column("mostly taken for")
    for share in shares:
        rate = "-" if share.rate is None else f"{100 * share.rate:.1f}"
        counts = (f"{share.samples:,}", f"{share.wrong:,}", rate, f"{share.given:,}")
        table.add_row(Text(names[share.label]), *counts, Text(_taken_for(share, names)))
    return table


def matrix_text(record: Corruption) -> str:
    """Return the realised transition in per cent, row by true class, column by given label; nothing for c > 20.

    Examples:
        >>> import numpy as np
        >>> print(matrix_text(Corruption(np.array([0, 0, 1]), np.array([0, 1, 1]), 2, 0, {})))
        given as, %
                0   1
            0  50  50
            1   · 100
    """
    if record.num_classes > WRITTEN:
        return ""
    from rich.cells import cell_len  # some scripts take two columns a sign

    names = _names(record)
    width = max(5, *map(cell_len, names))
    head = " " * width + "".join(f"{label:4}" for label in range(record.num_classes))
    rows = [
        " " * (width - cell_len(name)) + name + "".join(f"{_percent(share):>4}" for share in row)
        for name, row in zip(names, record.matrix.tolist(), strict=True)
    ]
    return "\n".join(["given as, %", head, *rows])


def printable(text: str) -> str:
    r"""Return ``text`` without what could steer a terminal: a record may come from anywhere.

    Examples:
        >>> printable("sym\x1b[31m")
        'sym[31m'
    """
    return "".join(sign for sign in text if sign.isprintable())


def shorten(name: str) -> str:
    """Return a class's name as it is shown: printable, and no longer than 24 signs.

    Examples:
        >>> shorten("Tinca tinca, also known as tench")
        'Tinca tinca, also known…'
    """
    name = printable(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    Examples:
        >>> pluralize(1, "label"), pluralize(1200, "class", "classes")
        ('1 label', '1,200 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _names(record: Corruption) -> list[str]:
    return [shorten(name) for name in class_names(record) or map(str, range(record.num_classes))]


def _taken_for(share: ClassShare, names: list[str]) -> str:
    """Say which class most wrong labels name; where several share the first place, none is picked out."""
    if share.taken_for is not None:
        return names[share.taken_for]
    if share.alike == 0:
        return "-"
    return "all alike" if share.alike == len(names) - 1 else f"{share.alike} classes alike"


def _percent(share: float) -> str:
    return "·" if share == 0 else "<1" if share < 0.005 else f"{100 * share:.0f}"
