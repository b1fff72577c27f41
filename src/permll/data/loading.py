"""``load``: the one door to data, built-in sets by name and a user's own by path or object."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permll.data.dataset import LabeledData
from permll.utils.messages import did_you_mean


def load(source: Any, *, root: Path | str | None = None, split: str | None = None, **options: Any) -> LabeledData:
    """Return a data set.

    Args:
        source: the name of a built-in set (``permll data list``), or a user's own data: a folder of images, a CSV,
            TSV, Parquet, ``.npz``, ``.npy`` or ``.safetensors`` file, arrays, a data frame, a Hugging Face or a
            map-style PyTorch data set. A path that happens to be a set's name is written ``./name``.
        root: where the files of built-in sets are; default ``$PERMLL_DATA``, else ``~/.cache/permll/data``.
        split: which part. Of a built-in set, default ``"train"``. Of a user's own: a sub-folder, or a split of a
            Hugging Face ``DatasetDict``; default all of it.
        options: of a built-in set (CIFAR-100: ``labels="coarse"``), or how to read one's own data: see
            ``permll.data.readers.read``.

    Examples:
        >>> load("digits", split="test")
        Data(digits test: 450 samples, 10 classes, Images of 1 x 8 x 8)
        >>> load([[0.1, 2.0], [0.3, 1.0], [0.2, 4.0], [0.9, 3.0]], labels=["cat", "dog", "cat", "dog"]).classes
        ('cat', 'dog')
    """
    if isinstance(source, str) and _is_a_name(source):
        from permll.data.registry import data_root, find

        info = find(source)
        here = Path(source)
        if here.exists() and here.resolve() != (data_root(root) / source).resolve():
            warnings.warn(f"{source} is read as the built-in set; what is here is ./{source}.", stacklevel=2)
        return info.load(data_root(root), split or "train", **options)
    if root is not None:
        raise ValueError(f"root is where built-in data sets are, but {source!r} names none of them: give a whole path.")
    from permll.data.readers.read import read

    return read(source if split is None else _part(source, split), **options)


def _part(source: Any, split: str) -> Any:
    """Return the part of a user's data that is called ``split``."""
    if isinstance(source, Mapping):
        if split not in source:
            raise ValueError(
                f"there is no split {split!r}{did_you_mean(split, source) or '.'} There are {', '.join(source)}."
            )
        return source[split]
    if isinstance(source, str | Path) and Path(source).expanduser().is_dir():
        folder = Path(source).expanduser()
        if not (folder / split).is_dir():
            there = [below.name for below in folder.iterdir() if below.is_dir()]
            raise FileNotFoundError(f"there is no folder {folder / split}{did_you_mean(split, there) or '.'}")
        return folder / split
    raise ValueError(f"{split=} has no meaning here: only a folder of folders or a DatasetDict has parts by name.")


def _is_a_name(source: str) -> bool:
    """Return whether to look in the registry: a bare word that is a set's name or no file either."""
    from permll.data.registry import SETS

    bare = not any(mark in source for mark in (os.sep, "/", ".", "~"))
    return bare and (source in SETS or not Path(source).exists())
