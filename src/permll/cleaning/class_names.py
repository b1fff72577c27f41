"""Names of classes that a reviewer adds."""

import unicodedata
from collections.abc import Collection

MAX_CLASS_NAME = 100  # characters


def check_new_class(name: str, classes: Collection[str]) -> str:
    """Return the name of a new class without surrounding spaces; raise if it cannot be one beside ``classes``.

    If all classes are integers, so must be a new one: the label column or array may hold nothing else.

    Examples:
        >>> check_new_class(" owl ", ["cat", "dog"])
        'owl'
        >>> check_new_class("Cat", ["cat", "dog"])
        Traceback (most recent call last):
        ValueError: the class 'Cat' differs from 'cat' in case or form only: choose 'cat'.
    """
    name = unicodedata.normalize("NFC", name.strip())
    if not name or len(name) > MAX_CLASS_NAME or not name.isprintable():
        raise ValueError(f"the name of a new class must have 1 to {MAX_CLASS_NAME} printable characters.")
    similar = [known for known in classes if _fold(known) == _fold(name)]
    if similar:
        raise ValueError(f"the class {name!r} differs from {similar[0]!r} in case or form only: choose {similar[0]!r}.")
    if are_integers(classes) and not are_integers([name]):
        raise ValueError(f"the classes are integers, so a new one must be, too: {name!r} is not.")
    return name


def are_integers(classes: Collection[str]) -> bool:
    """Return whether every class name is an integer.

    Examples:
        >>> are_integers(["-1", "7"]), are_integers(["7", "cat"]), are_integers(["007"])
        (True, False, False)
    """
    return all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in classes)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
