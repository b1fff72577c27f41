"""``read``: user data of any supported kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset

from permll.data.dataset import LabeledData
from permll.data.decoding import ShrinkTo
from permll.data.readers.arrays import open_arrays, read_array, read_arrays
from permll.data.readers.assemble import assemble
from permll.data.readers.image_files import SUFFIXES
from permll.data.readers.image_folder import read_image_folder
from permll.data.readers.options import ReadKeywords, ReadOptions, check_keywords, parse_options
from permll.data.readers.raw_data import RawData
from permll.utils.messages import did_you_mean

_TABLES = (".csv", ".tsv", ".parquet")
_ARRAYS = (".npz", ".npy", ".safetensors")
_HINTS = {
    ".txt": "save it as .csv or .tsv with a line of column names",
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".zip": "extract it and pass the folder",
    ".tar": "extract it and pass the folder",
    ".gz": "extract it first",
    ".pt": "it can run code when read, so save the tensors as .safetensors",
    ".pth": "it can run code when read, so save the tensors as .safetensors",
    ".pkl": "it can run code when read, so save the arrays as .npz",
}


def read(
    source: object,
    *,
    labels: ArrayLike | Sequence[object] | None = None,
    shrink_to: ShrinkTo = None,
    **options: Unpack[ReadKeywords],
) -> LabeledData:
    """Read user data; ``metadata`` of the result says how it was read and what was left out.

    ``source`` is a folder of images with one sub-folder per class; a .csv, .tsv or .parquet table; a .npz, .npy or
    .safetensors file; NumPy arrays, tensors, lists or paths of images with ``labels``; a dict of arrays; a polars or
    pandas frame; a Hugging Face ``Dataset``; or any PyTorch dataset with a length.

    Args:
        source: data to read.
        labels: labels, if ``source`` has none; a list, an array or a .npy file.
        shrink_to: side of the downscaled images that a training will need, if images in files are large: they are then
            downscaled when they are checked, so that each file is decoded once.
        options: any of the following.
        label: column, array or key of the labels. Default: the only one with a usual name.
        text: column or array of texts.
        image: column of images; in a table, paths relative to the table's folder.
        features: columns or array of features. Default: a column named text, else all other columns without those that
            are constant or different in every row; columns named here are always kept.
        id: column or array of ids. Default: a column named id with unique values, else image paths, a frame's index or
            row numbers.
        classes: class names in order, or the name of their array in a file.
        ids: ids, if ``source`` has none.
        gold: column, array or mask of labels that a person reviewed; they are trusted. Default: those that the history
            of ``permll apply`` lists as kept, accepted or chosen.
        annotators: columns of several annotators, by name or pattern ("ann_*"), empty where one did not answer; or an
            array of answers (N, A) in a file of arrays, -1 for none. The labels are their consensus.
        annotations: the same beside any data: a path of a .csv, .tsv or .parquet table with a line for each answer, a
            frame of this form or with a column for each annotator, or an array (N, A); -1, NaN or None for no answer.
        annotation_columns: columns of samples, annotators and labels in ``annotations``. Default: those with a usual
            name, such as id, annotator and label.
        groups: column, array or list of group names, such as patients or videos; held-out samples are drawn as whole
            groups.
        no_label: value or values that mark a missing label; those rows are left out. ``""`` is an empty cell.
        drop_empty: leave out rows with an empty label, text or image cell.
        merge_similar_labels: read labels that differ only in case or spaces as the most frequent of them.
        rare: how to treat classes with fewer than two samples.
        check: decode every image now and report all unreadable ones, instead of failing during training.
        skip_unreadable: leave out unreadable images.
        image_size: side to which images are resized; images of up to 64 pixels are kept in memory.

    Examples:
        >>> data = read([[0.1, 2.0], [0.3, 1.0], [5.0, 0.2], [4.0, 0.1]], labels=["cat", "cat", "dog", "dog"])
        >>> data
        LabeledData(list: 4 samples, 2 classes, Vectors of 2)
        >>> read({"x": [[1], [2], [3]], "y": [0, -1, 0], "z": [5]}, no_label=-1)
        Traceback (most recent call last):
        ...
        ValueError: at least two classes are needed, but all labels are '0'.
    """
    if isinstance(labels, str | Path):
        labels = read_label_file(labels)
    check_keywords(options, "read")
    parsed = parse_options(labels=labels, **options)
    return assemble(read_raw(source, parsed), parsed, shrink_to)


def read_raw(source: object, options: ReadOptions) -> RawData:
    """Choose the reader by the type of ``source``; optional libraries are recognized without importing them."""
    metadata = {"name": type(source).__name__, "source": f"{type(source).__module__}.{type(source).__name__}"}
    if isinstance(source, str | Path):
        return _read_path(Path(source).expanduser(), options)
    if _is_from(source, "polars", "DataFrame", "LazyFrame") or _is_from(source, "pandas", "DataFrame"):
        return _read_frame(source, options, metadata)
    if _is_from(source, "datasets", "Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict"):
        from permll.data.readers.huggingface import read_huggingface

        return read_huggingface(source, options)
    is_dataset = isinstance(source, Dataset)
    if not is_dataset and isinstance(source, Mapping):
        return read_arrays(source, options, "the dict", metadata)
    if not is_dataset and isinstance(source, np.ndarray | Tensor | list | tuple):
        return read_array(source, options, metadata)
    if is_dataset or (hasattr(source, "__getitem__") and hasattr(source, "__len__")):
        from permll.data.readers.torch_dataset import read_torch_dataset

        return read_torch_dataset(source, options)
    raise ValueError(f"unsupported type {type(source).__name__}: pass a path, arrays, a data frame or a dataset.")


def read_label_file(path: Path | str) -> Any:
    """Return the labels in a .npy file."""
    path = Path(path).expanduser()
    if path.suffix.lower() != ".npy":
        raise ValueError(f"labels must be a list, an array or a .npy file, got {str(path)!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}.")
    with open_arrays(path) as arrays:
        return arrays[path.stem]


def _read_path(path: Path, options: ReadOptions) -> RawData:
    if not path.exists():
        hint = did_you_mean(path.name, (other.name for other in path.parent.iterdir())) if path.parent.is_dir() else ""
        raise FileNotFoundError(f"no such file or folder: {path}{hint or '.'}")
    if path.is_dir():
        return read_image_folder(path, options)
    metadata = {"name": path.stem, "source": str(path)}
    suffix = path.suffix.lower()
    if suffix in _TABLES:
        from permll.data.readers.tables import read_table_file

        return read_table_file(path, options, metadata)
    if suffix in _ARRAYS:
        with open_arrays(path) as arrays:
            if suffix == ".npy":
                return read_array(arrays[path.stem], options, metadata)
            return read_arrays(arrays, options, str(path), metadata)
    hint = _HINTS.get(suffix, f"supported are folders of images, {', '.join((*_TABLES, *_ARRAYS))}")
    if suffix in SUFFIXES:
        hint = "pass the folder, with one sub-folder of images per class"
    raise ValueError(f"unsupported file type: {path}; {hint}.")


def _read_frame(source: Any, options: ReadOptions, metadata: dict[str, Any]) -> RawData:
    from permll.data.readers.tables import read_frame

    if _is_from(source, "pandas", "DataFrame"):
        from permll.data.readers.pandas_frames import from_pandas

        frame, ids = from_pandas(source)
        return read_frame(frame, options, metadata, where="the frame", ids=ids)
    return read_frame(source.collect() if hasattr(source, "collect") else source, options, metadata, where="the frame")


def _is_from(source: object, library: str, *names: str) -> bool:
    """Return whether an object is an instance of a library's class, without importing the library."""
    return any(kind.__module__.split(".")[0] == library and kind.__name__ in names for kind in type(source).__mro__)
