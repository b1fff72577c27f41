"""Per-class statistics and a JSON summary of a noise record."""

from typing import Any, NamedTuple

import numpy as np

from permll.data.datasets import class_names as names
from permll.noise.class_maps import CIFAR100_SUPERCLASSES
from permll.noise.class_names import class_names
from permll.noise.corruption import Corruption


class ClassSummary(NamedTuple):
    """Label noise of one class."""

    label: int
    samples: int  # samples with this clean label
    wrong: int  # of those, samples with another noisy label
    rate: float | None  # wrong / samples; None for an empty class
    confused_with: int | None  # most frequent wrong label; None if there is none, or a tie
    num_tied: int  # number of wrong labels that are most frequent: 1 without a tie
    given: int  # samples with this noisy label


def summarize_classes(record: Corruption) -> list[ClassSummary]:
    """Return the statistics of each class in order.

    Examples:
        >>> record = Corruption(np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]), 3, 0, {})
        >>> summarize_classes(record)[0]
        ClassSummary(label=0, samples=3, wrong=2, rate=0.6666666666666666, confused_with=1, num_tied=1, given=1)
    """
    counts = record.counts
    samples, given = counts.sum(1).tolist(), counts.sum(0).tolist()
    np.fill_diagonal(counts, 0)
    summaries = []
    for label, wrong in enumerate(counts.sum(1).tolist()):
        rate = wrong / samples[label] if samples[label] else None
        top = np.flatnonzero(counts[label] == counts[label].max()).tolist() if wrong else []
        confused_with = top[0] if len(top) == 1 else None
        summaries.append(ClassSummary(label, samples[label], wrong, rate, confused_with, len(top), given[label]))
    return summaries


def superclass_groups(record: Corruption) -> dict[str, tuple[int, ...]] | None:
    """Return the superclasses of CIFAR-100 by name if the noise respects them, otherwise None."""
    noise_name = str(record.noise.get("name"))
    if record.num_classes != 100 or not ("asym_superclasses" in noise_name or noise_name == "cifar100n:fine"):
        return None
    titles = (name.replace("_", " ") for name in names.CIFAR100_COARSE)
    return dict(zip(titles, CIFAR100_SUPERCLASSES, strict=True))


def summary(record: Corruption) -> dict[str, Any]:
    """Return a summary for JSON; ``nominal`` is the rate in the noise's name, ``rate`` the realized one."""
    classes = class_names(record)
    return {
        "name": record.noise.get("name", "unnamed"),
        "seed": record.seed,
        "samples": len(record.clean),
        "classes": record.num_classes,
        "class_names": None if classes is None else list(classes),
        "nominal": record.noise.get("rate"),
        "rate": record.rate,
        "wrong": int(record.changed.sum()),
        "hash": record.hash,
        "by_class": [class_summary._asdict() for class_summary in summarize_classes(record)],
        "noise": record.noise,
    }
