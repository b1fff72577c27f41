"""What was asked of the door, and what a reader found behind it: the two records that every reader shares."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from permll.data.inputs import Inputs

Rare = Literal["refuse", "drop", "keep"]
_KEPT_NAMES = 1000  # of what was left out, in ``about``; the count is always whole


@dataclass(frozen=True)
class Asked:
    """The keywords of ``read``, as they were given."""

    label: str | None = None
    text: str | None = None
    image: str | None = None
    features: tuple[str, ...] | None = None
    id: str | None = None
    classes: Sequence[str] | None = None
    labels: Any = None
    ids: Sequence[str] | None = None
    no_label: object = None
    rare: Rare = "refuse"
    check: bool = True
    skip_unreadable: bool = False
    image_size: int | None = None

    def refuse(self, *names: str, what: str) -> None:
        """Say that a keyword has no meaning for ``what``, rather than ignore it."""
        given = [name for name in names if getattr(self, name) is not None]
        if given:
            raise ValueError(f"{given[0]}= has no meaning for {what}: leave it out.")

    def choose_one(self, *names: str) -> None:
        """Say that two of the keywords exclude each other, if two were given."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]}= and {given[1]}= exclude each other: give one of them.")


@dataclass(frozen=True, eq=False)
class Found:
    """Samples as a reader found them, before labels are numbered and anything is left out.

    Args:
        inputs: N samples.
        values: N labels in the source's own words, or None if it has none.
        ids: N names.
        about: what was understood, as JSON would hold it.
        names: where ``values`` are places in a list of names, those names.
        noun: what complaints call one sample.
    """

    inputs: Inputs
    values: Any
    ids: Sequence[str]
    about: dict[str, Any] = field(default_factory=dict)
    names: Sequence[str] | None = None
    noun: str = "row"


def leave_out(what: str, why: str, names: Sequence[object]) -> dict[str, Any]:
    """Return an entry of ``about["left_out"]``.

    Examples:
        >>> leave_out("column", "the same in every row", ["country"])
        {'what': 'column', 'why': 'the same in every row', 'count': 1, 'names': ['country']}
    """
    return {"what": what, "why": why, "count": len(names), "names": [str(name) for name in names[:_KEPT_NAMES]]}


def row_numbers(count: int) -> tuple[str, ...]:
    """Return the ids of samples that have no names: "0", "1", ..."""
    return tuple(map(str, range(count)))
