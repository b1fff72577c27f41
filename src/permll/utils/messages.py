"""How bad input is named: everything that is wrong at once, the first ten by name."""

import difflib
from collections.abc import Iterable, Sequence

SHOWN = 10
_LONGEST = 80


def format_list(names: Sequence[object], what: str) -> str:
    """Return ``names`` as a phrase: how many there are, and the first ten of them, each cut to 80 signs.

    Examples:
        >>> format_list(["a.png"], "image")
        '1 image (a.png)'
        >>> format_list(range(12), "row")
        '12 rows (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)'
    """
    first = ", ".join(_short(str(name)) for name in names[:SHOWN])
    more = ", ..." if len(names) > SHOWN else ""
    return f"{len(names):,} {what if len(names) == 1 else _plural(what)} ({first}{more})"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return ", did you mean X?" with the nearest of ``words``, or nothing if none is near; case does not count.

    Examples:
        >>> did_you_mean("lable", ["id", "label"])
        ', did you mean label?'
        >>> did_you_mean("species", ["ISLAND", "SPECIES"])
        ', did you mean SPECIES?'
    """
    folded = {known.casefold(): known for known in reversed(list(words))}
    near = difflib.get_close_matches(word.casefold(), list(folded), n=1)
    return f", did you mean {folded[near[0]]}?" if near else ""


def _short(name: str) -> str:
    if not name.isprintable():
        name = repr(name)[1:-1]  # a line break in a name would break the sentence
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def _plural(what: str) -> str:
    if what.endswith("s"):
        return f"{what}es"
    return f"{what[:-1]}ies" if what.endswith("y") and what[-2:-1] not in "aeiou" else f"{what}s"
