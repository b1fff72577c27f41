"""``Corruption``: the record of noisy labels, stored as one .npz file."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.utils.files import atomic_write
from permll.utils.messages import did_you_mean, format_list
from permll.utils.validation import check_class_labels

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Corruption:
    """Noisy labels with the clean labels and a description of the noise.

    Args:
        clean: clean labels (N,).
        noisy: noisy labels (N,).
        num_classes: c.
        seed: random seed; None if nothing was drawn, as for labels from human annotators.
        noise: description of the noise: its name, rate, ...
    """

    clean: Labels
    noisy: Labels
    num_classes: int
    seed: int | None
    noise: dict[str, Any]

    def __repr__(self) -> str:
        size = f"{100 * self.rate:.2f} % of {len(self.clean):,} labels wrong, {self.num_classes} classes"
        return f"Corruption({self.noise.get('name', 'unnamed')!r}, {size}, seed {self.seed}, hash {self.hash})"

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Mask (N,) of the samples whose noisy label differs from the clean one."""
        return self.clean != self.noisy

    @property
    def rate(self) -> float:
        """Realized noise rate: the fraction of wrong labels."""
        return float(self.changed.mean())

    @property
    def counts(self) -> NDArray[np.int64]:
        """Confusion matrix (c, c) of counts: rows are clean labels, columns noisy labels."""
        c = self.num_classes
        return np.bincount(self.clean * c + self.noisy, minlength=c * c).reshape(c, c)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Realized transition matrix (c, c): ``counts`` with normalized rows; zero rows for empty classes."""
        counts = self.counts
        return counts / np.maximum(counts.sum(1, keepdims=True), 1)

    @property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the noisy labels as little-endian int64."""
        return hashlib.sha256(self.noisy.astype("<i8").tobytes()).hexdigest()[:16]

    def labels_for(self, clean: ArrayLike) -> Labels:
        """Return the noisy labels after checking that the record belongs to these ``clean`` labels (N,).

        Examples:
            >>> record = Corruption(np.array([0, 1, 1]), np.array([0, 0, 1]), 2, 0, {})
            >>> record.labels_for([0, 1, 1])
            array([0, 0, 1])
            >>> record.labels_for([0, 1, 0])
            Traceback (most recent call last):
            ValueError: the record was made for other clean labels, which differ at 1 position (2): make a new record.
        """
        labels = read_labels(clean, self.num_classes)
        if len(labels) != len(self.clean):
            raise ValueError(
                f"the record was made for {len(self.clean):,} labels, but there are {len(labels):,}: make a new record."
            )
        differ = np.flatnonzero(labels != self.clean)
        if len(differ):
            positions = format_list(differ.tolist(), "position")
            raise ValueError(
                f"the record was made for other clean labels, which differ at {positions}: make a new record."
            )
        return self.noisy.copy()

    def save(self, path: Path | str) -> Path:
        """Write the record atomically as one .npz file and return its path."""
        path = Path(path)
        about = {"num_classes": self.num_classes, "seed": self.seed, "noise": self.noise, "hash": self.hash}
        dtype = np.min_scalar_type(self.num_classes - 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            clean, noisy = self.clean.astype(dtype), self.noisy.astype(dtype)
            np.savez_compressed(file, about=np.array(json.dumps(about)), clean=clean, noisy=noisy)
        return path

    @classmethod
    def load(cls, path: Path | str) -> "Corruption":
        """Read a record without unpickling, and check its labels against its hash."""
        path = require_file(path, "noise record")
        about, arrays = _read_npz(path)
        try:
            clean, noisy = (read_labels(arrays[key], about["num_classes"]) for key in ("clean", "noisy"))
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if len(clean) != len(noisy):
            raise ValueError(f"{path} is damaged: {len(clean)} clean labels, but {len(noisy)} noisy labels.")
        record = cls(clean, noisy, about["num_classes"], about["seed"], about["noise"])
        if record.hash != about["hash"]:
            raise ValueError(f"{path} is damaged: its labels have hash {record.hash}, not {about['hash']}.")
        return record


def read_labels(labels: ArrayLike, num_classes: int) -> Labels:
    """Return labels (N,) as a new int64 array after checking that they lie in 0..c-1."""
    checked = np.array(labels)
    check_class_labels(checked, num_classes, hint=f"the noise is for {num_classes} classes")
    return checked.astype(np.int64)


def infer_num_classes(labels: NDArray[Any], option: str = "num_classes=") -> int:
    """Return the highest label + 1, at least 2.

    Labels that start at 1 raise an error: class 0 would have no clean samples, but noise would assign it.

    Args:
        labels: class numbers (N,).
        option: name of the caller's option for the number of classes, used in the error message.

    Examples:
        >>> infer_num_classes(np.array([0, 4, 2]))
        5
    """
    if labels.dtype.kind not in "iu" or labels.size == 0:
        return 2
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest > 0:
        raise ValueError(
            f"labels run from {lowest} to {highest}: number the classes from 0, or pass {option}{highest + 1} if "
            "class 0 exists."
        )
    return max(highest, 1) + 1


def require_file(path: Path | str, description: str) -> Path:
    """Return the path of an existing file; otherwise raise an error that suggests a similar file name.

    Examples:
        >>> require_file("somewhere/labels.txt", "label file")
        Traceback (most recent call last):
        FileNotFoundError: label file somewhere/labels.txt does not exist: check the path.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a {description}.")
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings) or ": check the path."
        raise FileNotFoundError(f"{description} {path} does not exist{hint}")
    return path


def _read_npz(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays of a record."""
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not a noise record: it is not a complete .npz file.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error or 'unexpected end of file'}.") from None
    _require_keys(arrays, {"about", "clean", "noisy"}, path)
    try:
        about = json.loads(str(arrays["about"]))
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise ValueError(f"{path} is not a noise record: its description is not a JSON object.")
    _require_keys(about, {"num_classes", "seed", "noise", "hash"}, path)
    if not (isinstance(about["num_classes"], int) and isinstance(about["noise"], dict)):
        raise ValueError(f"{path} is not a noise record: its description has wrong types.")
    return about, arrays


def _require_keys(keys: Iterable[str], required: set[str], path: Path) -> None:
    missing = required - set(keys)
    if missing:
        raise ValueError(f"{path} is not a noise record: it lacks {', '.join(sorted(missing))}.")
