"""Reader of unlabeled samples for prediction, as the training data were read."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from permll.data.decoding import DecodedImages, FileOpener, decode_images
from permll.data.encoding import NumericColumn, TableEncoder
from permll.data.inputs import Images, Inputs, LazyImages, Table
from permll.data.labels import is_missing, to_list
from permll.data.readers.image_files import SUFFIXES, check_readable
from permll.data.readers.image_folder import list_images
from permll.data.readers.input_spec import INPUT_OPTIONS, InputSpec, describe_inputs, input_kind
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData
from permll.data.readers.read import read_raw
from permll.utils.messages import format_list

if TYPE_CHECKING:
    import polars as pl

    from permll.data.readers.csv_reader import Cells


class Unlabeled(NamedTuple):
    """New samples, their ids, their given labels as text (or None), and the ids of images that were left out."""

    inputs: Inputs
    ids: tuple[str, ...]
    given: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()


def read_unlabeled(
    source: Any,
    spec: InputSpec,
    *,
    split: str | None = None,
    root: Path | str | None = None,
    image_size: int | None = None,
    skip_unreadable: bool = False,
    **names: str | Sequence[str] | None,
) -> Unlabeled:
    """Return samples to predict, encoded as in training; labels are optional.

    Args:
        source: what ``permll.data.load`` takes, or a folder of images without class folders, or one image.
        spec: inputs of the training, which the samples must match.
        split: split of a built-in dataset.
        root: folder of the built-in datasets.
        image_size: side to which images in files are resized; default as in training.
        skip_unreadable: leave out unreadable images.
        names: ``text``, ``image``, ``features`` and ``id``, if columns or arrays have other names than in training;
            ``label`` if there are labels.

    Examples:
        >>> spec = InputSpec("vectors", (2,), "float32")
        >>> read_unlabeled([[0.5, 1.0], [2.0, 3.0]], spec).ids
        ('0', '1')
        >>> read_unlabeled([[0.5, 1.0, 7.0]], spec)
        Traceback (most recent call last):
        ValueError: the inputs are vectors of 3, but the network was trained on vectors of 2.
    """
    from permll.data.loading import load
    from permll.data.registry import DATASETS

    if isinstance(source, str) and source in DATASETS:
        data = load(source, root=root, split=split)
        raw = RawData(data.inputs, [data.classes[label] for label in data.labels.tolist()], data.ids)
    elif split is not None or root is not None:
        raise ValueError(f"split and root are for built-in datasets, but {source} is not one: give only the path.")
    else:
        raw = _read_raw(source, spec, {key: name for key, name in names.items() if name is not None})
    inputs, ids, given = raw.inputs, tuple(raw.ids), _given_labels(raw)
    if input_kind(inputs) != spec.kind:
        hint = "; choose the column of paths with image=" if spec.kind == "images" and isinstance(inputs, Table) else ""
        raise ValueError(f"the inputs are {describe_inputs(inputs)}, but the network was trained on {spec}{hint}.")
    errors: Mapping[str, str] = {}
    if isinstance(inputs, LazyImages):
        decoded = _decode(inputs, spec, image_size or spec.size)
        errors = check_readable(decoded, ids, skip=skip_unreadable)
        rows = [row for row, name in enumerate(ids) if name not in errors]
        ids, given = tuple(ids[row] for row in rows), None if given is None else tuple(given[row] for row in rows)
        inputs = inputs.take(torch.tensor(rows)) if spec.encoder is not None else _select(decoded, rows, ids, spec)
    if spec.encoder is not None:
        inputs = spec.encoder(inputs)
    if tuple(inputs.batch(torch.arange(1)).shape[1:]) != spec.shape:
        raise ValueError(f"the inputs are {describe_inputs(inputs)}, but the network was trained on {spec}.")
    return Unlabeled(inputs, ids, given, tuple(errors))


def resize_inputs(images: LazyImages, ids: Sequence[str], spec: InputSpec, size: int | None) -> Images | LazyImages:
    """Return images resized to ``size``; with None, they must have the size of the training images."""
    if size is not None and spec.shape[0] == 3:
        return images.resize(size, spec.fit)
    decoded = _decode(images, spec, size)
    check_readable(decoded, ids, skip=False)
    return _select(decoded, range(len(images)), ids, spec)


def _decode(images: LazyImages, spec: InputSpec, size: int | None) -> DecodedImages:
    """Decode each image once; keep the pixels that the network takes, unless they are large."""
    if spec.encoder is not None:
        return decode_images(images, max_side=0)  # the encoder reads the files
    images = images.resize(size or images.size, spec.fit)
    if size is not None and spec.shape[0] == 3:
        return decode_images(images, size)
    return decode_images(images, size, max_side=max(spec.shape[1:]), max_bytes=sys.maxsize)


def _select(decoded: DecodedImages, rows: Sequence[int], ids: Sequence[str], spec: InputSpec) -> Images | LazyImages:
    """Return the images at ``rows`` with the channels and size of the training images."""
    channels, height, width = spec.shape
    if decoded.size is not None and channels == 3:
        images = decoded.select(rows)
        return Images(images.pixels.expand(-1, 3, -1, -1).contiguous()) if isinstance(images, Images) else images
    sizes = [(name, *decoded.sizes[row].tolist()) for name, row in zip(ids, rows, strict=True)]
    other = [f"{name}: {h} x {w}" for name, h, w in sizes if (h, w) != (height, width)]
    if other or decoded.pixels is None:
        raise ValueError(
            f"images must have the size of training, {height} x {width}; got another for {format_list(other, 'image')}."
        )
    pixels = decoded.pixels[rows]
    colored = np.flatnonzero((pixels != pixels[:, :1]).any((1, 2, 3))).tolist()
    if channels == 1 and colored:
        names = format_list([ids[row] for row in colored], "image")
        raise ValueError(f"the network was trained on gray images, got color in {names}.")
    return Images(torch.from_numpy(np.ascontiguousarray(pixels[:, :channels])))


def _read_raw(source: Any, spec: InputSpec, names: dict[str, Any]) -> RawData:
    """Read with the column names of the training, unless others are given."""
    path = Path(source).expanduser() if isinstance(source, str | Path) else None
    suffix = "" if path is None else path.suffix.lower()
    if path is not None and (path.is_dir() or (suffix in SUFFIXES and path.is_file())):
        return _read_image_files(path, names)
    has_names = suffix != ".npy" and not isinstance(source, list | tuple | np.ndarray | Tensor | Dataset)
    if has_names and not any(key in names for key in INPUT_OPTIONS):
        names = {**{key: name for key, name in spec.names.items() if key != "id"}, **names}
    if path is not None and suffix in (".csv", ".tsv", ".parquet") and path.is_file():
        return _read_table_file(path, spec, names)
    return read_raw(source, _to_options(names))


def _to_options(names: Mapping[str, Any]) -> ReadOptions:
    """Return options for a reader that looks for labels only if they are named."""
    features = names.get("features")
    columns = (features,) if isinstance(features, str) else None if features is None else tuple(features)
    return ReadOptions(**{**names, "features": columns, "labels": None if "label" in names else ()})


def _read_image_files(path: Path, names: Mapping[str, Any]) -> RawData:
    _to_options(names).reject("label", *INPUT_OPTIONS, "id", source="images in files")
    files, folder = (list_images(path)[0], path) if path.is_dir() else ([path.name], path.parent)
    if not files:
        raise ValueError(f"{path} contains no images ({', '.join(SUFFIXES)}).")
    return RawData(LazyImages(FileOpener(folder.absolute(), tuple(files)), torch.arange(len(files))), None, files)


def _read_table_file(path: Path, spec: InputSpec, names: dict[str, Any]) -> RawData:
    from permll.data.readers.tables import open_table, read_frame

    frame, cells = open_table(path)
    if "id" not in names and spec.names.get("id") in frame.columns:
        names["id"] = spec.names["id"]
    if isinstance(spec.encoder, TableEncoder):
        frame, cells = _cast_like_training(frame, spec.encoder, cells, str(path)), None
    return read_frame(frame, _to_options(names), {}, where=str(path), root=path.absolute().parent, cells=cells)


def _cast_like_training(
    frame: "pl.DataFrame", encoder: TableEncoder, cells: "Cells | None", where: str
) -> "pl.DataFrame":
    """Return the columns with their types in training, which a few rows alone would not determine."""
    import polars as pl

    from permll.data.readers.feature_columns import infer_type

    missing = [column.name for column in encoder.columns if column.name not in frame.columns]
    if missing:
        raise ValueError(
            f"{where} lacks {format_list(missing, 'column')} that the network was trained on; it has "
            f"{format_list(frame.columns, 'column')}."
        )
    for column in encoder.columns:
        values = frame[column.name]
        is_empty = values.null_count() == len(values)
        if isinstance(column, NumericColumn):
            values = values.cast(pl.Float64) if is_empty else values
            values = infer_type(values, decimal_comma=cells.separator != ",") if cells and not is_empty else values
        elif cells or is_empty:
            values = values.cast(pl.String).cast(pl.Categorical)
        frame = frame.with_columns(values)
    return frame


def _given_labels(raw: RawData) -> tuple[str, ...] | None:
    """Return the labels as class names; "" where one is missing."""
    if raw.values is None:
        return None
    labels = []
    for value in to_list(raw.values):
        if is_missing(value):
            labels.append("")
        elif raw.names is not None and isinstance(value, int):
            labels.append(str(raw.names[value]))
        else:
            labels.append(str(int(value)) if isinstance(value, float) and value.is_integer() else str(value))
    return tuple(labels)
