"""Noise upon noise: what depends on the sample first, say, and flips by class on top of it."""

from typing import Any

from permll.noise.class_names import CLASSES
from permll.noise.corruption import Corruption, corrupt
from permll.noise.models import Noise

_OF_THE_DATA = ("data_set", CLASSES)  # what a record says of the data, not of what was done to them


def then(record: Corruption, noise: Noise, seed: int) -> Corruption:
    """Return the record of ``noise`` applied to the noisy labels of ``record``.

    Samples are picked, and flipped, by their noisy labels; the clean ones stay those of ``record``. A label may be
    flipped twice and even come back, so rates do not add up: read the new record's.

    Examples:
        >>> from permll.noise.models import mapped
        >>> swap = mapped({0: 1, 1: 0}, 2, 1.0)
        >>> once = corrupt([0, 0, 1], swap, seed=0)
        >>> twice = then(once, swap, seed=1)
        >>> once.rate, twice.rate, twice.noise["name"]
        (1.0, 0.0, 'mapped, then mapped')
    """
    if noise.num_classes != record.num_classes:
        raise ValueError(f"the record has {record.num_classes} classes, the noise on top of it {noise.num_classes}.")
    second = corrupt(record.noisy, noise, seed)
    steps = [*_steps(record), *_steps(second)]
    name = ", then ".join(str(step["name"]) for step in steps)
    about = {"name": name, "steps": steps, **{key: record.noise[key] for key in _OF_THE_DATA if key in record.noise}}
    return Corruption(record.clean, second.noisy, record.num_classes, seed, about)


def _steps(record: Corruption) -> list[dict[str, Any]]:
    """Return what was done, in order, each with the seed it was done with."""
    if "steps" in record.noise:
        return list(record.noise["steps"])
    about = {key: value for key, value in record.noise.items() if key not in _OF_THE_DATA}
    return [{**about, "seed": record.seed}]
