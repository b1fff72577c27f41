"""What a record of noise comes to, as data: for a table, a picture or JSON."""

from typing import Any, NamedTuple

import numpy as np

from permll.data.datasets import class_names as names
from permll.noise.class_names import class_names
from permll.noise.corruption import Corruption
from permll.noise.maps import CIFAR100_SUPERCLASSES


class ClassShare(NamedTuple):
    """What became of one class."""

    label: int
    samples: int  # that are of this class in truth
    wrong: int  # of those, how many were given another label
    rate: float | None  # wrong / samples; None for a class without samples
    taken_for: int | None  # the wrong label that most of them got; None if none did, or no single one
    alike: int  # how many wrong labels share the first place: 1 if there is a single one
    given: int  # samples that carry this label after the noise


def by_class(record: Corruption) -> list[ClassShare]:
    """Return what became of each class, in order.

    Examples:
        >>> record = Corruption(np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]), 3, 0, {})
        >>> by_class(record)[0]
        ClassShare(label=0, samples=3, wrong=2, rate=0.6666666666666666, taken_for=1, alike=1, given=1)
    """
    counts = np.zeros((record.num_classes, record.num_classes), dtype=np.int64)
    np.add.at(counts, (record.clean, record.noisy), 1)
    samples, given = counts.sum(1).tolist(), counts.sum(0).tolist()
    np.fill_diagonal(counts, 0)
    shares = []
    for label, wrong in enumerate(counts.sum(1).tolist()):
        rate = wrong / samples[label] if samples[label] else None
        most = np.flatnonzero(counts[label] == counts[label].max()).tolist() if wrong else []
        taken_for = most[0] if len(most) == 1 else None
        shares.append(ClassShare(label, samples[label], wrong, rate, taken_for, len(most), given[label]))
    return shares


def superclass_groups(record: Corruption) -> dict[str, tuple[int, ...]] | None:
    """Return CIFAR-100's superclasses, by name, if the noise has to do with them: drawn apart it would not show."""
    about = str(record.noise.get("name"))
    if record.num_classes != 100 or not ("asym_superclasses" in about or about == "cifar100n:fine"):
        return None
    names_in_words = (name.replace("_", " ") for name in names.CIFAR100_COARSE)
    return dict(zip(names_in_words, CIFAR100_SUPERCLASSES, strict=True))


def summary(record: Corruption) -> dict[str, Any]:
    """Return all there is to say about a record, as JSON would hold it; ``nominal`` is the rate that was asked for."""
    called = class_names(record)
    return {
        "name": record.noise.get("name", "unnamed"),
        "seed": record.seed,
        "samples": len(record.clean),
        "classes": record.num_classes,
        "class_names": None if called is None else list(called),
        "nominal": record.noise.get("rate"),
        "rate": record.rate,
        "wrong": int(record.changed.sum()),
        "hash": record.hash,
        "by_class": [share._asdict() for share in by_class(record)],
        "noise": record.noise,
    }
