"""What classes are called: from labels in words to numbers, and the names that go into a record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from permll.data.datasets import class_names as names
from permll.noise.corruption import Corruption

CLASSES = "classes"  # where a record keeps the names, in its ``noise``

_PUBLISHED: dict[str, tuple[tuple[str, ...], ...]] = {
    "cifar10": (names.CIFAR10,),
    "cifar100": (names.CIFAR100_FINE, names.CIFAR100_COARSE),
    "fashion_mnist": (names.FASHION_MNIST,),
}


class Numbered(NamedTuple):
    """Labels as numbers, and what the numbers stand for."""

    labels: NDArray[Any]
    classes: tuple[str, ...] | None  # None where the labels were numbers all along


def number_labels(values: NDArray[Any], classes: Sequence[str] | None = None) -> Numbered:
    """Return labels (N,) as class numbers; words are numbered as in ``permll.data``: sorted, or by their place.

    Args:
        values: whole numbers, or words.
        classes: the names in the order of their numbers, where that is known.

    Examples:
        >>> import numpy as np
        >>> number_labels(np.array(["dog", "cat", "dog"]))
        Numbered(labels=array([1, 0, 1]), classes=('cat', 'dog'))
        >>> number_labels(np.array([1, 0]))
        Numbered(labels=array([1, 0]), classes=None)
    """
    if classes is None and not is_text(values):
        return Numbered(values, None)
    from permll.data.labels import encode_labels  # brings torch, which numbers can do without

    labels, found = encode_labels(values, classes)
    return Numbered(labels.numpy(), found)


def is_text(values: NDArray[Any]) -> bool:
    """Return whether labels are words, or True and False, which must be numbered first."""
    return values.dtype.kind in "USOb"


def published_names(data_set: str | None, num_classes: int | None = None) -> tuple[str, ...] | None:
    """Return the classes of a published data set in the order of their labels, if it has that many.

    Examples:
        >>> published_names("cifar100", 20)[0], published_names("cifar10", 9)
        ('aquatic_mammals', None)
    """
    known = _PUBLISHED.get(data_set or "", ())
    return next((found for found in known if num_classes in (None, len(found))), None)


def class_names(record: Corruption) -> tuple[str, ...] | None:
    """Return the names of the classes, if the record holds them or says which published data set it is for.

    Examples:
        >>> import numpy as np
        >>> class_names(Corruption(np.array([0]), np.array([9]), 10, 0, {"data_set": "cifar10"}))[9]
        'truck'
        >>> class_names(Corruption(np.array([0]), np.array([1]), 2, 0, {"classes": ["cat", "dog"]}))
        ('cat', 'dog')
    """
    own = record.noise.get(CLASSES)
    if isinstance(own, list | tuple) and len(own) == record.num_classes:
        return tuple(map(str, own))
    return published_names(str(record.noise.get("data_set")), record.num_classes)


def name_record(record: Corruption, classes: Sequence[str] | None) -> Corruption:
    """Return the record with the names of its classes, unless it has some or there are none."""
    if classes is None or CLASSES in record.noise:
        return record
    return replace(record, noise={**record.noise, CLASSES: list(classes)})
