"""``load``: built-in datasets by name, and user data by path or object."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permll.data.dataset import LabeledData
from permll.data.decoding import ShrinkTo
from permll.utils.messages import did_you_mean


def load(
    source: Any,
    *,
    root: Path | str | None = None,
    split: str | None = None,
    shrink_to: ShrinkTo = None,
    **options: Any,
) -> LabeledData:
    """Load a dataset.

    Args:
        source: name of a built-in dataset (``permll data list``), or user data: a folder of images, a CSV, TSV,
            Parquet, ``.npz``, ``.npy`` or ``.safetensors`` file, arrays, a data frame, a Hugging Face dataset or a
            map-style PyTorch dataset. Write ``./name`` for a path that is also the name of a built-in dataset.
        root: folder of the built-in datasets; default ``$PERMLL_DATA``, else ``~/.cache/permll/data``.
        split: split of a built-in dataset, default ``"train"``; or of user data: a sub-folder, or a split of a Hugging
            Face ``DatasetDict``; default all of it.
        shrink_to: see ``permll.data.readers.read``; built-in datasets are not decoded here.
        options: options of a built-in dataset (CIFAR-100: ``labels="coarse"``), or of ``permll.data.readers.read``.

    Examples:
        >>> load("digits", split="test")
        LabeledData(digits test: 450 samples, 10 classes, Images of 1 x 8 x 8)
        >>> load([[0.1, 2.0], [0.3, 1.0], [0.2, 4.0], [0.9, 3.0]], labels=["cat", "dog", "cat", "dog"]).classes
        ('cat', 'dog')
    """
    if isinstance(source, str) and is_dataset_name(source):
        from permll.data.registry import data_root, find_dataset

        if {"annotators", "annotations"} & options.keys():
            raise ValueError(
                f"{source} is a built-in dataset: answers of annotators are only read beside your own data."
            )
        info = find_dataset(source)
        path = Path(source)
        if path.exists() and path.resolve() != (data_root(root) / source).resolve():
            warnings.warn(f"{source} is the built-in dataset; write ./{source} for the local path.", stacklevel=2)
        return info.load(data_root(root), split or "train", **options)
    if root is not None:
        raise ValueError(f"root= is for built-in datasets, but {source!r} is not one: give the full path.")
    from permll.data.readers.read import read

    return read(source if split is None else _select_split(source, split), shrink_to=shrink_to, **options)


def _select_split(source: Any, split: str) -> Any:
    """Return one split of user data."""
    if isinstance(source, Mapping):
        if split not in source:
            raise ValueError(
                f"unknown split {split!r}{did_you_mean(split, source) or '.'} Available: {', '.join(source)}."
            )
        return source[split]
    if isinstance(source, str | Path) and Path(source).expanduser().is_dir():
        folder = Path(source).expanduser()
        if not (folder / split).is_dir():
            folders = [path.name for path in folder.iterdir() if path.is_dir()]
            raise FileNotFoundError(f"no such folder: {folder / split}{did_you_mean(split, folders) or '.'}")
        return folder / split
    raise ValueError(f"{split=} is not supported here: only a folder of folders or a DatasetDict has named splits.")


def is_dataset_name(source: str) -> bool:
    """Return whether to look in the registry: a bare word that is a dataset's name, or not a path either."""
    from permll.data.registry import DATASETS

    is_bare = not any(char in source for char in (os.sep, "/", ".", "~"))
    return is_bare and (source in DATASETS or not Path(source).exists())
