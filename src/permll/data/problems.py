"""How bad input is named: everything that is wrong at once, the first ten by name."""

import difflib
from collections.abc import Iterable, Sequence

SHOWN = 10


def listed(names: Sequence[object], what: str) -> str:
    """Return ``names`` as a phrase: how many there are, and the first ten of them.

    Examples:
        >>> listed(["a.png"], "image")
        '1 image (a.png)'
        >>> listed(range(12), "row")
        '12 rows (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)'
    """
    first = ", ".join(str(name) for name in names[:SHOWN])
    more = ", ..." if len(names) > SHOWN else ""
    plural = what if len(names) == 1 else f"{what}s" if not what.endswith("s") else f"{what}es"
    return f"{len(names):,} {plural} ({first}{more})"


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ", did you mean X?" with the nearest of ``words``, or nothing if none is near.

    Examples:
        >>> nearest("lable", ["id", "label"])
        ', did you mean label?'
    """
    words = list(words)
    near = difflib.get_close_matches(word, words, n=1) or difflib.get_close_matches(word.lower(), words, n=1)
    return f", did you mean {near[0]}?" if near else ""
