"""``read``: the one door for a user's own data, whatever form it has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset

from permll.data.dataset import LabeledData
from permll.data.readers.arrays import find_arrays, find_values, open_arrays
from permll.data.readers.assemble import assemble
from permll.data.readers.image_files import SUFFIXES
from permll.data.readers.image_folder import find_folder
from permll.data.readers.options import parse_options
from permll.data.readers.types import Rare, RawData, ReadOptions
from permll.utils.messages import did_you_mean

_TABLES = (".csv", ".tsv", ".parquet")
_ARRAYS = (".npz", ".npy", ".safetensors")
_ADVICE = {
    ".txt": "save it as .csv or .tsv with a line of column names",
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".zip": "unpack it and pass the folder",
    ".tar": "unpack it and pass the folder",
    ".gz": "unpack it first",
    ".pt": "it could run code when read: save the tensors as .safetensors",
    ".pth": "it could run code when read: save the tensors as .safetensors",
    ".pkl": "it could run code when read: save the arrays as .npz",
}


def read(
    source: object,
    *,
    label: str | None = None,
    text: str | None = None,
    image: str | None = None,
    features: Sequence[str] | str | None = None,
    id: str | None = None,
    classes: Sequence[str] | None = None,
    labels: ArrayLike | Sequence[object] | None = None,
    ids: Sequence[str] | None = None,
    no_label: object = None,
    rare: Rare = "refuse",
    check: bool = True,
    skip_unreadable: bool = False,
    image_size: int | None = None,
) -> LabeledData:
    """Return a user's own data as ``Data``; its ``about`` says what was understood and what was left out.

    ``source`` is a folder of images with one sub-folder per class; a .csv, .tsv or .parquet table; a .npz, .npy or
    .safetensors file; NumPy arrays, tensors, lists or paths of images with ``labels``; a dict of arrays; a polars or
    pandas frame; a Hugging Face ``Dataset``; or any PyTorch dataset with a length.

    Args:
        source: what to read.
        label: the column, array or key of the labels. By default one of the usual names, if there is just one.
        text: the column or array of texts.
        image: the column of images; in a table, paths seen from the table's folder.
        features: the columns or the array to learn from. By default all other columns, without those that are the same
            or different in every row, but a column called text alone; columns that are named here stay.
        id: the column or array of ids. By default a column called id if its values all differ, else paths for images,
            row numbers or a frame's index otherwise.
        classes: class names in order, or the name of their array in a file.
        labels: the labels themselves, where ``source`` has none (or a .npy file of them).
        ids: the ids themselves.
        no_label: the value, or values, that mean a row has no label: such rows are left out. ``""`` is an empty cell.
        rare: what to do with classes of one sample or none.
        check: decode every image now, and name all that are damaged, rather than fail hours later.
        skip_unreadable: leave damaged images out.
        image_size: what images are resized to; up to 64 they are kept in memory.

    Examples:
        >>> data = read([[0.1, 2.0], [0.3, 1.0], [5.0, 0.2], [4.0, 0.1]], labels=["cat", "cat", "dog", "dog"])
        >>> data
        Data(list: 4 samples, 2 classes, Vectors of 2)
        >>> read({"x": [[1], [2], [3]], "y": [0, -1, 0], "z": [5]}, no_label=-1)
        Traceback (most recent call last):
        ...
        ValueError: at least two classes are needed, but all labels are '0'.
    """
    if isinstance(labels, str | Path):
        labels = _labels_file(Path(labels).expanduser())
    asked = parse_options(
        label=label,
        text=text,
        image=image,
        features=features,
        id=id,
        classes=classes,
        labels=labels,
        ids=ids,
        no_label=no_label,
        rare=rare,
        check=check,
        skip_unreadable=skip_unreadable,
        image_size=image_size,
    )
    return assemble(find_source(source, asked), asked)


def find_source(source: object, asked: ReadOptions) -> RawData:
    """Choose the reader by what ``source`` is; libraries that may be missing are known by name, not imported."""
    metadata = {"name": type(source).__name__, "source": f"{type(source).__module__}.{type(source).__name__}"}
    if isinstance(source, str | Path):
        return _find_path(Path(source).expanduser(), asked)
    if _comes_from(source, "polars", "DataFrame", "LazyFrame") or _comes_from(source, "pandas", "DataFrame"):
        return _find_frame(source, asked, metadata)
    if _comes_from(source, "datasets", "Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict"):
        from permll.data.readers.huggingface import find_dataset

        return find_dataset(source, asked)
    if isinstance(source, Dataset):
        from permll.data.readers.torch_dataset import find_torch

        return find_torch(source, asked)
    if isinstance(source, Mapping):
        return find_arrays(source, asked, "the dict", metadata)
    if isinstance(source, np.ndarray | Tensor | list | tuple):
        return find_values(source, asked, metadata)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        from permll.data.readers.torch_dataset import find_torch

        return find_torch(source, asked)
    raise ValueError(
        f"permll cannot read a {type(source).__name__}: pass a path, arrays, a frame or a dataset with a length."
    )


def _find_path(path: Path, asked: ReadOptions) -> RawData:
    if not path.exists():
        near = did_you_mean(path.name, (other.name for other in path.parent.iterdir())) if path.parent.is_dir() else ""
        raise FileNotFoundError(f"there is no file or folder {path}{near or '.'}")
    if path.is_dir():
        return find_folder(path, asked)
    metadata = {"name": path.stem, "source": str(path)}
    suffix = path.suffix.lower()
    if suffix in _TABLES:
        from permll.data.readers.tables import find_file

        return find_file(path, asked, metadata)
    if suffix in _ARRAYS:
        with open_arrays(path) as arrays:
            if suffix == ".npy":
                return find_values(arrays[path.stem], asked, metadata)
            return find_arrays(arrays, asked, str(path), metadata)
    advice = _ADVICE.get(suffix, "permll reads folders of images, " + ", ".join((*_TABLES, *_ARRAYS)))
    if suffix in SUFFIXES:
        advice = "pass the folder, with one sub-folder of images per class"
    raise ValueError(f"{path} is nothing permll can read: {advice}.")


def _find_frame(source: Any, asked: ReadOptions, metadata: dict[str, Any]) -> RawData:
    from permll.data.readers.tables import find_frame, need_polars

    need_polars()
    if _comes_from(source, "pandas", "DataFrame"):
        from permll.data.readers.pandas_frames import from_pandas

        frame, ids = from_pandas(source)
        return find_frame(frame, asked, metadata, where="the frame", ids=ids)
    return find_frame(source.collect() if hasattr(source, "collect") else source, asked, metadata, where="the frame")


def _comes_from(source: object, library: str, *names: str) -> bool:
    """Return whether an object is of a class of a library, without importing it."""
    kinds = type(source).__mro__
    return any(kind.__module__.split(".")[0] == library and kind.__name__ in names for kind in kinds)


def _labels_file(path: Path) -> Any:
    if path.suffix.lower() != ".npy":
        raise ValueError(f"labels= takes a list, an array or a .npy file, got {str(path)!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    with open_arrays(path) as arrays:
        return arrays[path.stem]
