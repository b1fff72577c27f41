"""Class names of a noise record."""

from collections.abc import Sequence
from dataclasses import replace

from permll.data.datasets import class_names as names
from permll.noise.corruption import Corruption

CLASSES = "classes"  # key of the class names in ``Corruption.noise``

_PUBLISHED: dict[str, tuple[tuple[str, ...], ...]] = {
    "cifar10": (names.CIFAR10,),
    "cifar100": (names.CIFAR100_FINE, names.CIFAR100_COARSE),
    "fashion_mnist": (names.FASHION_MNIST,),
}


def published_class_names(data_set: str | None, num_classes: int | None = None) -> tuple[str, ...] | None:
    """Return the class names of a published data set in label order, or None if unknown.

    Examples:
        >>> published_class_names("cifar100", 20)[0], published_class_names("cifar10", 9)
        ('aquatic_mammals', None)
    """
    candidates = _PUBLISHED.get(data_set or "", ())
    return next((classes for classes in candidates if num_classes in (None, len(classes))), None)


def class_names(record: Corruption) -> tuple[str, ...] | None:
    """Return the class names stored in a record, or those of the published data set it names, or None.

    Examples:
        >>> import numpy as np
        >>> class_names(Corruption(np.array([0]), np.array([9]), 10, 0, {"data_set": "cifar10"}))[9]
        'truck'
        >>> class_names(Corruption(np.array([0]), np.array([1]), 2, 0, {"classes": ["cat", "dog"]}))
        ('cat', 'dog')
    """
    stored = record.noise.get(CLASSES)
    if isinstance(stored, list | tuple) and len(stored) == record.num_classes:
        return tuple(map(str, stored))
    return published_class_names(str(record.noise.get("data_set")), record.num_classes)


def with_class_names(record: Corruption, classes: Sequence[str] | None) -> Corruption:
    """Return the record with class names added, unless it has names already or ``classes`` is None."""
    if classes is None or CLASSES in record.noise:
        return record
    return replace(record, noise={**record.noise, CLASSES: list(classes)})
