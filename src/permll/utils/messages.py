"""Parts of error messages: lists of names, suggestions for misspelled ones, and reasons."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

MAX_NAMES = 10
MAX_NAME_LENGTH = 80


def format_list(names: Sequence[object], noun: str) -> str:
    """Return the number of ``names`` and the first ten of them, each cut to 80 characters.

    Examples:
        >>> format_list(["a.png"], "image")
        '1 image (a.png)'
        >>> format_list(range(12), "row")
        '12 rows (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)'
    """
    first = ", ".join(_short(str(name)) for name in names[:MAX_NAMES])
    more = ", ..." if len(names) > MAX_NAMES else ""
    return f"{len(names):,} {noun if len(names) == 1 else _plural(noun)} ({first}{more})"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return ", did you mean X?" with the closest of ``words``, ignoring case; "" if none is close.

    Examples:
        >>> did_you_mean("lable", ["id", "label"])
        ', did you mean label?'
        >>> did_you_mean("species", ["ISLAND", "SPECIES"])
        ', did you mean SPECIES?'
    """
    folded = {known.casefold(): known for known in reversed(list(words))}
    close = difflib.get_close_matches(word.casefold(), list(folded), n=1)
    return f", did you mean {folded[close[0]]}?" if close else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that is not among the ``known`` ones.

    Examples:
        >>> unknown_name("optimizer", "adamv", ["sgd", "adamw"])
        "unknown optimizer 'adamv', did you mean adamw? Choose from sgd, adamw."
    """
    names = list(known)
    return f"unknown {kind} {name!r}{did_you_mean(name, names) or '.'} Choose from {', '.join(names)}."


class Problems:
    """Errors of several checks, raised together.

    Examples:
        >>> problems = Problems()
        >>> for name in ("a", "b"):
        ...     with problems.collect():
        ...         raise ValueError(f"{name} is wrong.")
        >>> problems.raise_all()
        Traceback (most recent call last):
        ...
        ValueError: 2 problems:
          a is wrong.
          b is wrong.
    """

    def __init__(self, errors: "Iterable[ValueError | FileNotFoundError]" = ()) -> None:
        self.errors = list(errors)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add the error that is raised in the block, if any."""
        try:
            yield
        except (ValueError, FileNotFoundError) as error:
            self.errors.append(error)

    def raise_all(self) -> None:
        """Raise the errors, if there are any: a single one as it is, several as a list."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ValueError("\n  ".join([f"{len(self.errors)} problems:", *map(str, self.errors)]))


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, by name and from a clone.

    Examples:
        >>> install_hint("table")
        "pip install 'permll[table]', or in a clone: pip install '.[table]'"
    """
    return f"pip install 'permll[{extra}]', or in a clone: pip install '.[{extra}]'"


def first_line(error: Exception) -> str:
    r"""Return the first line of an error's message without its period, or its type.

    Examples:
        >>> first_line(ValueError("Wrong size.\nMore."))
        'Wrong size'
    """
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def _short(name: str) -> str:
    if not name.isprintable():
        name = repr(name)[1:-1]  # a line break in a name would break the sentence
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 3]}..."


def _plural(noun: str) -> str:
    if noun.endswith("s"):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
