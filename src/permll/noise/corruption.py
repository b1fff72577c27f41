"""``corrupt``: apply noise to clean labels, and keep the record of it in one small file."""

import hashlib
import json
import os
import random
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise._paths import existing
from permll.noise.models import Noise
from permll.utils.messages import format_list

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Corruption:
    """Noisy labels and where they come from. ``hash`` names the label vector; two runs on one vector share it."""

    clean: Labels
    noisy: Labels
    num_classes: int
    seed: int | None  # None where nothing was drawn: labels that people gave
    noise: dict[str, Any]

    def __repr__(self) -> str:
        what = f"{100 * self.rate:.2f} % of {len(self.clean):,} labels wrong, {self.num_classes} classes"
        return f"Corruption({self.noise.get('name', 'unnamed')!r}, {what}, seed {self.seed}, hash {self.hash})"

    @property
    def changed(self) -> NDArray[np.bool_]:
        """(N,) where the noisy label differs from the clean one."""
        return self.clean != self.noisy

    @property
    def rate(self) -> float:
        """The share of labels that are wrong: the realised rate, not the nominal one."""
        return float(self.changed.mean())

    @property
    def matrix(self) -> NDArray[np.float64]:
        """(c, c) the realised transition, row i the given labels of class i; a class without samples has a zero row."""
        counts = np.zeros((self.num_classes, self.num_classes))
        np.add.at(counts, (self.clean, self.noisy), 1)
        return counts / np.maximum(counts.sum(1, keepdims=True), 1)

    @property
    def hash(self) -> str:
        """The first 16 hex digits of the SHA-256 of the noisy labels as little-endian int64."""
        return hashlib.sha256(self.noisy.astype("<i8").tobytes()).hexdigest()[:16]

    def labels_for(self, clean: ArrayLike) -> Labels:
        """Return the noisy labels, once the record is known to be made for exactly these ``clean`` labels (N,).

        Examples:
            >>> record = Corruption(np.array([0, 1, 1]), np.array([0, 0, 1]), 2, 0, {})
            >>> record.labels_for([0, 1, 1])
            array([0, 0, 1])
            >>> record.labels_for([0, 1, 0])
            Traceback (most recent call last):
            ValueError: the noise was made for other labels: they differ at 1 position (2); make it for these.
        """
        found = read_labels(clean, self.num_classes)
        if len(found) != len(self.clean):
            raise ValueError(
                f"the noise was made for {len(self.clean):,} labels, but there are {len(found):,}; make it for these."
            )
        differ = np.flatnonzero(found != self.clean)
        if len(differ):
            where = format_list(differ.tolist(), "position")
            raise ValueError(f"the noise was made for other labels: they differ at {where}; make it for these.")
        return self.noisy.copy()

    def save(self, path: Path | str) -> Path:
        """Write the record as one .npz file, whole or not at all."""
        path = Path(path)
        about = {"num_classes": self.num_classes, "seed": self.seed, "noise": self.noise, "hash": self.hash}
        smallest = np.min_scalar_type(self.num_classes - 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")
        with partial.open("wb") as file:
            clean, noisy = self.clean.astype(smallest), self.noisy.astype(smallest)
            np.savez_compressed(file, about=np.array(json.dumps(about)), clean=clean, noisy=noisy)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        return path

    @classmethod
    def load(cls, path: Path | str) -> "Corruption":
        """Read a record; nothing in the file is executed, and its hash must fit its labels."""
        path = existing(path, "noise record")
        arrays = _read_npz(path)
        _demand(arrays, {"about", "clean", "noisy"}, path)
        about = _read_about(str(arrays["about"]), path)
        try:
            clean, noisy = (read_labels(arrays[key], about["num_classes"]) for key in ("clean", "noisy"))
        except ValueError as problem:
            raise ValueError(f"{path} is damaged: {problem}") from None
        if len(clean) != len(noisy):
            raise ValueError(f"{path} is damaged: {len(clean)} clean labels, {len(noisy)} noisy ones.")
        record = cls(clean, noisy, about["num_classes"], about["seed"], about["noise"])
        if record.hash != about["hash"]:
            raise ValueError(f"{path} is damaged: its labels hash to {record.hash}, its record says {about['hash']}.")
        return record


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file; any other file is refused, as is one that holds Python objects."""
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is no noise record: it is not a .npz file, or only a part of one.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, zlib.error, EOFError) as broken:
        raise ValueError(f"{path} is damaged: {broken or 'it ends too early'}.") from None


def _read_about(text: str, path: Path | str) -> dict[str, Any]:
    try:
        about = json.loads(text)
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise ValueError(f"{path} is no noise record: its description is no JSON object.")
    _demand(about, {"num_classes", "seed", "noise", "hash"}, path)
    if not (isinstance(about["num_classes"], int) and isinstance(about["noise"], dict)):
        raise ValueError(f"{path} is no noise record: its description is not one that save wrote.")
    return about


def _demand(found: Mapping[str, object], names: set[str], path: Path | str) -> None:
    missing = names - set(found)
    if missing:
        raise ValueError(f"{path} is no noise record: it lacks {', '.join(sorted(missing))}.")


def corrupt(labels: ArrayLike, noise: Noise, seed: int) -> Corruption:
    """Return the record of ``noise`` applied to clean ``labels`` (N,).

    Samples are picked, and flipped, by their clean class alone: no label is flipped twice. The result depends on
    labels, noise and seed, and on nothing else; global random state is neither read nor moved.

    Examples:
        >>> from permll.noise.models import symmetric
        >>> record = corrupt([0, 1, 2, 3] * 25, symmetric(4, 0.2, include_true=False, pick="exact"), seed=0)
        >>> record.rate
        0.2
    """
    clean = read_labels(labels, noise.num_classes)
    noisy = clean.copy()
    if noise.cycle:
        _deal(noisy, clean, noise, random.Random(seed))
    else:
        generator = np.random.default_rng(seed)
        picked = _pick(clean, noise, generator)
        noisy[picked] = draw_columns(noise.destinations[clean[picked]], generator)
    about = {
        "name": noise.name,
        "rate": noise.rate,
        "pick": noise.pick,
        "cycle": noise.cycle,
        "destinations": hashlib.sha256(noise.destinations.tobytes()).hexdigest()[:16],
    }
    return Corruption(clean, noisy, noise.num_classes, seed, about)


def read_labels(labels: ArrayLike, num_classes: int) -> Labels:
    """Return clean labels as a new int64 array (N,), every one of them in 0..c-1."""
    clean = np.array(labels)
    if clean.ndim != 1 or len(clean) == 0 or clean.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be whole numbers of shape (N,), N > 0; got {clean.dtype} of shape {clean.shape}."
        )
    clean = clean.astype(np.int64)
    outside = np.flatnonzero((clean < 0) | (clean >= num_classes))
    if len(outside):
        raise ValueError(
            f"{len(outside)} labels lie outside 0..{num_classes - 1}, the first is {clean[outside[0]]} at position "
            f"{outside[0]}: the noise is made for {num_classes} classes."
        )
    return clean


def _pick(clean: Labels, noise: Noise, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the positions of the picked samples."""
    if noise.pick == "coin":
        return np.flatnonzero(generator.random(len(clean)) < noise.rate)
    if noise.pick == "exact":
        return generator.permutation(len(clean))[: _share(noise.rate, len(clean))]
    members = [np.flatnonzero(clean == label) for label in range(noise.num_classes)]
    return np.concatenate([generator.permutation(own)[: _share(noise.rate, len(own))] for own in members])


def _share(rate: float, count: int) -> int:
    """Return rate * count, rounded down, but not because 0.6 * 5 is 2.9999999999999996 or the like.

    Examples:
        >>> _share(0.29, 100), int(0.29 * 100)
        (29, 28)
    """
    return int(rate * count + 1e-9)


def draw_columns(chances: NDArray[np.float64], generator: np.random.Generator) -> Labels:
    """Draw a column of each row of ``chances`` (N, c), in proportion to its entries."""
    edges = chances.cumsum(1)
    edges[:, -1] = np.inf  # whatever the sum is rounded to, the last column takes the rest
    return (generator.random(len(chances))[:, None] >= edges).sum(1)


def _deal(noisy: Labels, clean: Labels, noise: Noise, generator: random.Random) -> None:
    """Deal each class's picked samples the classes i - 1, i, i + 1, ... in turn.

    The draws are the paper's own: Python's generator, ``sample`` for one class after the other; its seed is 42.
    """
    for label in np.unique(clean).tolist():
        own = np.flatnonzero(clean == label)
        picked = generator.sample(range(len(own)), _share(noise.rate, len(own)))
        noisy[own[picked]] = (label - 1 + np.arange(len(picked))) % noise.num_classes
