"""Apply label noise: ``corrupt`` to label arrays, ``with_noise`` to data sets, ``compose`` to noisy labels."""

import hashlib
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise.class_maps import ClassMap
from permll.noise.class_names import CLASSES, with_class_names
from permll.noise.corruption import Corruption, Labels, infer_num_classes, read_labels
from permll.noise.presets import named_noise
from permll.noise.synthetic import Noise

if TYPE_CHECKING:
    from permll.data.dataset import LabeledData

_DATA_KEYS = ("data_set", CLASSES)  # keys of ``Corruption.noise`` that describe the data, not the noise


def corrupt(
    labels: ArrayLike,
    noise: str | Noise,
    seed: int,
    *,
    num_classes: int | None = None,
    data_set: str | None = None,
    class_map: ClassMap | None = None,
) -> Corruption:
    """Apply label noise to clean ``labels`` (N,).

    Samples are selected and flipped by their clean class, and no label is flipped twice. The result depends only on
    the arguments; global random state is neither read nor changed.

    Args:
        labels: clean labels, integers in 0..c-1.
        noise: a name such as ``"permll:sym:0.6"`` (see ``named_noise``), or a ``Noise``.
        seed: random seed.
        num_classes: c, for named noise. Default: highest label + 1.
        data_set: data set whose published class map ``asym`` uses, for named noise.
        class_map: class map of ``asym``, true class -> given class, for named noise.

    Examples:
        >>> corrupt([0, 1, 2, 3] * 25, "sym:0.2", seed=0).rate
        0.2
        >>> from permll.noise.synthetic import symmetric
        >>> corrupt([0, 1, 2, 3] * 25, symmetric(4, 0.2, include_true=False, pick="exact"), seed=0).rate
        0.2
        >>> corrupt([0, 1, 2], "asym:1", seed=0, class_map={0: 1}).noisy
        array([1, 1, 2])
    """
    if isinstance(noise, str):
        if num_classes is None:
            num_classes = infer_num_classes(np.asarray(labels))
        noise = named_noise(noise, num_classes, data_set=data_set, class_map=class_map, seed=seed)
    elif not isinstance(noise, Noise):
        raise TypeError(f"noise must be a name such as permll:sym:0.6, or a Noise; got {noise!r:.80}.")
    elif (num_classes, data_set, class_map) != (None, None, None):
        raise TypeError("num_classes, data_set and class_map apply only to named noise; a Noise defines its own.")
    clean = read_labels(labels, noise.num_classes)
    noisy = clean.copy()
    if noise.cycle:
        _assign_in_turn(noisy, clean, noise, random.Random(seed))
    else:
        generator = np.random.default_rng(seed)
        selected = _select(clean, noise, generator)
        noisy[selected] = sample_columns(noise.destinations[clean[selected]], generator)
    about = {
        "name": noise.name,
        "rate": noise.rate,
        "pick": noise.pick,
        "cycle": noise.cycle,
        "destinations": hashlib.sha256(noise.destinations.tobytes()).hexdigest()[:16],
    }
    return Corruption(clean, noisy, noise.num_classes, seed, about)


def with_noise(
    data: "LabeledData", noise: str | Path | Noise | Corruption, seed: int = 42
) -> "tuple[LabeledData, Corruption]":
    """Return the data with noisy labels, and the record of the noise.

    Args:
        data: data with clean labels; data that already carry noise raise an error.
        noise: a name (``"permll:sym:0.6"``; ``asym`` uses the class map of the data set), a ``Noise``, or a record for
            these clean labels, given as a ``Corruption`` or as the path of its file.
        seed: random seed; ignored for a record.

    Examples:
        >>> from permll.data import load
        >>> noisy, record = with_noise(load("digits"), "sym:0.4", seed=0)
        >>> noisy.metadata["noise"]["rate"], record.rate
        (0.4, 0.399...)
    """
    import torch

    if data.metadata.get("noise"):
        raise ValueError(
            f"the labels of {_data_name(data)} are noisy already: add noise to their record with "
            "permll.noise.compose(record, noise, seed), and pass the result to with_noise with the clean data."
        )
    record = with_class_names(_to_record(data, noise, seed), data.classes)
    noisy = torch.from_numpy(record.labels_for(data.labels.numpy()))
    return data.relabel(noisy).with_metadata(noise=record.noise, noise_hash=record.hash, noise_seed=record.seed), record


def compose(record: Corruption, noise: Noise, seed: int) -> Corruption:
    """Apply ``noise`` to the noisy labels of ``record``; the clean labels stay those of ``record``.

    A label may be flipped twice, possibly back to its clean class, so noise rates do not add up.

    Examples:
        >>> from permll.noise.synthetic import asymmetric
        >>> swap = asymmetric({0: 1, 1: 0}, 2, 1.0)
        >>> once = corrupt([0, 0, 1], swap, seed=0)
        >>> twice = compose(once, swap, seed=1)
        >>> once.rate, twice.rate, twice.noise["name"]
        (1.0, 0.0, 'asymmetric, then asymmetric')
    """
    if noise.num_classes != record.num_classes:
        raise ValueError(f"the record has {record.num_classes} classes, but the noise has {noise.num_classes}.")
    second = corrupt(record.noisy, noise, seed)
    steps = [*_steps(record), *_steps(second)]
    name = ", then ".join(str(step["name"]) for step in steps)
    about = {"name": name, "steps": steps, **{key: record.noise[key] for key in _DATA_KEYS if key in record.noise}}
    return Corruption(record.clean, second.noisy, record.num_classes, seed, about)


def sample_columns(probabilities: NDArray[np.float64], generator: np.random.Generator) -> Labels:
    """Sample one column index (N,) per row of ``probabilities`` (N, c)."""
    edges = probabilities.cumsum(1)
    edges[:, -1] = np.inf  # the last column absorbs rounding errors of the sum
    return (generator.random(len(probabilities))[:, None] >= edges).sum(1)


def _to_record(data: "LabeledData", noise: str | Path | Noise | Corruption, seed: int) -> Corruption:
    if isinstance(noise, Corruption):
        return noise
    if isinstance(noise, str) and (noise.endswith(".npz") or Path(noise).expanduser().is_file()):
        noise = Path(noise)
    if isinstance(noise, Path):
        return Corruption.load(noise)
    labels = data.labels.numpy()
    if isinstance(noise, str):
        return corrupt(labels, noise, seed, num_classes=data.num_classes, data_set=_data_name(data))
    if not isinstance(noise, Noise):
        raise TypeError(
            "noise must be a name such as permll:sym:0.6, a Noise, a Corruption or the path of its file; "
            f"got {noise!r:.80}."
        )
    return corrupt(labels, noise, seed)


def _data_name(data: "LabeledData") -> str:
    return str(data.metadata.get("name") or "this data set")


def _steps(record: Corruption) -> list[dict[str, Any]]:
    """Return the applied noises in order, each with its seed."""
    if "steps" in record.noise:
        return list(record.noise["steps"])
    about = {key: value for key, value in record.noise.items() if key not in _DATA_KEYS}
    return [{**about, "seed": record.seed}]


def _select(clean: Labels, noise: Noise, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the indices of the samples to flip."""
    if noise.pick == "coin":
        return np.flatnonzero(generator.random(len(clean)) < noise.rate)
    if noise.pick == "exact":
        return generator.permutation(len(clean))[: _num_selected(noise.rate, len(clean))]
    by_class = [np.flatnonzero(clean == label) for label in range(noise.num_classes)]
    return np.concatenate([generator.permutation(index)[: _num_selected(noise.rate, len(index))] for index in by_class])


def _num_selected(rate: float, count: int) -> int:
    """Return rate * count rounded down, without floating-point error.

    Examples:
        >>> _num_selected(0.29, 100), int(0.29 * 100)
        (29, 28)
    """
    return int(rate * count + 1e-9)


def _assign_in_turn(noisy: Labels, clean: Labels, noise: Noise, generator: random.Random) -> None:
    """Assign the classes i - 1, i, i + 1, ... in turn to the selected samples of each class i.

    The draws are those of the paper's code: ``sample`` of Python's generator for one class after the other, seed 42.
    """
    for label in np.unique(clean).tolist():
        index = np.flatnonzero(clean == label)
        selected = generator.sample(range(len(index)), _num_selected(noise.rate, len(index)))
        noisy[index[selected]] = (label - 1 + np.arange(len(selected))) % noise.num_classes
