"""Names of classes that a reviewer adds."""

import difflib
import unicodedata
from collections.abc import Collection

MAX_CLASS_NAME = 100  # characters
MIN_SIMILARITY = 0.75  # of two names, from 0 to 1


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


def similar_classes(name: str, classes: Collection[str], limit: int = 3) -> list[str]:
    """Return the classes that a name may be a misspelling of, the most similar first.

    Numbers are not compared: 12 is not a misspelling of 112.

    Examples:
        >>> similar_classes("Trousers", ["Trouser", "Dress"]), similar_classes("ankle-boot", ["Ankle boot"])
        (['Trouser'], ['Ankle boot'])
        >>> similar_classes("owl", ["cat", "dog"]), similar_classes("12", ["112"])
        ([], [])
    """
    if are_integers([name]):
        return []
    letters = {known: _letters(known) for known in classes}
    close = difflib.get_close_matches(_letters(name), letters.values(), n=limit, cutoff=MIN_SIMILARITY)
    return list(dict.fromkeys(known for text in close for known in letters if letters[known] == text))[:limit]


def are_integers(classes: Collection[str]) -> bool:
    """Return whether every class name is an integer.

    Examples:
        >>> are_integers(["-1", "7"]), are_integers(["7", "cat"]), are_integers(["007"])
        (True, False, False)
    """
    return all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in classes)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _letters(name: str) -> str:
    """Return the letters and digits of a name; all of it if there are none."""
    folded = _fold(name)
    return "".join(letter for letter in folded if letter.isalnum()) or folded
