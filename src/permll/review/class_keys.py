"""Keys that choose a class: the same for every sample, and in every later review of the run."""

import string
from collections.abc import Iterable, Mapping, Sequence

KEYS = (*"1234567890", *string.ascii_uppercase)  # letters with Shift; small letters are other shortcuts


def assign_keys(classes: Sequence[str]) -> dict[str, str]:
    """Return the key of every class that has one, by name.

    A class whose name is a digit or a letter has this key. The others get the remaining keys in their order.

    Examples:
        >>> assign_keys(["cat", "dog"]), assign_keys(["0", "1", "ten"])
        ({'cat': '1', 'dog': '2'}, {'1': '1', '0': '0', 'ten': '2'})
    """
    names = {name.upper(): name for name in reversed(classes)}  # the first of names that differ in case only
    keys = {names[key]: key for key in KEYS if key in names}
    free = iter(key for key in KEYS if key not in names)
    return keys | dict(zip((name for name in classes if name not in keys), free, strict=False))


def add_keys(keys: Mapping[str, str], added: Iterable[str]) -> dict[str, str]:
    """Return ``keys`` with those of classes that reviewers added, in the order in which they were added first.

    Examples:
        >>> add_keys({"cat": "1", "dog": "2"}, ["owl", "2", "e"])
        {'cat': '1', 'dog': '2', 'owl': '3', '2': '4', 'e': 'E'}
    """
    result = dict(keys)
    for name in added:
        taken = set(result.values())
        free = [name.upper(), *KEYS] if name.upper() in KEYS else KEYS
        key = next((key for key in free if key not in taken), None)
        if key is not None:
            result[name] = key
    return result
