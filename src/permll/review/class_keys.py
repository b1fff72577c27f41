"""Keys that choose a class: the same for every sample, and in every later review of the run."""

import string
from collections.abc import Sequence

KEYS = (*"1234567890", *string.ascii_uppercase)  # letters with Shift; small letters are other shortcuts


def class_key(index: int) -> str:
    """Return the key of a class by its index; "" for the classes beyond the last key.

    Examples:
        >>> [class_key(index) for index in (0, 9, 10, 35, 36)]
        ['1', '0', 'A', 'Z', '']
    """
    return KEYS[index] if index < len(KEYS) else ""


def assign_keys(classes: Sequence[str], added: Sequence[str]) -> dict[str, str]:
    """Return the key of every class that has one, by name: those of the data in their order, then added ones.

    Args:
        classes: class names of the data.
        added: classes that reviewers added, in the order in which they were added first.

    Examples:
        >>> assign_keys(["cat", "dog"], ["owl"])
        {'cat': '1', 'dog': '2', 'owl': '3'}
    """
    return dict(zip([*classes[: len(KEYS)], *added], KEYS, strict=False))
