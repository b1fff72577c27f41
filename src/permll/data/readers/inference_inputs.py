"""New samples without labels, read as those of a training were: what does not fit is refused with the difference."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from permll.data.decoding import OpenFile, to_pixels
from permll.data.encoding import NumberColumn, TableEncoder
from permll.data.inputs import Images, Inputs, LazyImages, Table
from permll.data.labels import is_missing
from permll.data.readers.assemble import plain_values
from permll.data.readers.image_files import SUFFIXES, broken
from permll.data.readers.image_folder import image_names
from permll.data.readers.input_spec import INPUT_NAMES, InputSpec, described, kind_of
from permll.data.readers.read import find_source
from permll.data.readers.types import RawData, ReadOptions
from permll.utils.messages import format_list
from permll.utils.progress import progress

if TYPE_CHECKING:
    import polars as pl

    from permll.data.readers.csv_reader import Cells


class Unlabeled(NamedTuple):
    """New samples, their ids, their labels in words where they have some, and which images were left out."""

    inputs: Inputs
    ids: tuple[str, ...]
    given: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()


def read_unlabeled(
    source: Any,
    like: InputSpec,
    *,
    split: str | None = None,
    root: Path | str | None = None,
    image_size: int | None = None,
    skip_unreadable: bool = False,
    **names: str | Sequence[str] | None,
) -> Unlabeled:
    """Return samples to predict, encoded where those of the training were, without asking for labels.

    Args:
        source: what ``permll.data.load`` takes, or a folder of images without class folders, or one image.
        like: what the samples must be like.
        split: of a built-in set.
        root: where built-in sets are.
        image_size: what images in files are resized to; default as in the training.
        skip_unreadable: leave damaged images out.
        names: ``text``, ``image``, ``features`` and ``id`` of columns or arrays that had other names in the training;
            ``label`` where labels are there too.

    Examples:
        >>> like = InputSpec("vectors", (2,), "float32")
        >>> read_unlabeled([[0.5, 1.0], [2.0, 3.0]], like).ids
        ('0', '1')
        >>> read_unlabeled([[0.5, 1.0, 7.0]], like)
        Traceback (most recent call last):
        ValueError: these are vectors of 3, but the network was trained on vectors of 2.
    """
    from permll.data.loading import load
    from permll.data.registry import SETS

    if isinstance(source, str) and source in SETS:
        data = load(source, root=root, split=split)
        found = RawData(data.inputs, [data.classes[label] for label in data.labels.tolist()], data.ids)
    elif split is not None or root is not None:
        raise ValueError(f"split and root belong to built-in data sets, but {source} is none: give the path alone.")
    else:
        found = _found(source, like, {key: name for key, name in names.items() if name is not None})
    inputs, ids, given = found.inputs, tuple(found.ids), _words(found)
    if kind_of(inputs) != like.kind:
        hint = "; name the column of paths with image=" if like.kind == "images" and isinstance(inputs, Table) else ""
        raise ValueError(f"these are {described(inputs)}, but the network was trained on {like}{hint}.")
    bad: dict[str, str] = {}
    if isinstance(inputs, LazyImages):
        bad = broken(inputs, ids, skip=skip_unreadable)
        rows = [row for row, name in enumerate(ids) if name not in bad]
        ids, given = tuple(ids[row] for row in rows), None if given is None else tuple(given[row] for row in rows)
        inputs = inputs.take(torch.tensor(rows))
        if like.encoder is None:
            inputs = sized(inputs, ids, like, image_size or like.size)
    if like.encoder is not None:
        inputs = like.encoder(inputs)
    if tuple(inputs.batch(torch.arange(1)).shape[1:]) != like.shape:
        raise ValueError(f"these are {described(inputs)}, but the network was trained on {like}.")
    return Unlabeled(inputs, ids, given, tuple(bad))


def _found(source: Any, like: InputSpec, names: dict[str, Any]) -> RawData:
    """Read with the names of the training, where the source has names and nobody gave others."""
    path = Path(source).expanduser() if isinstance(source, str | Path) else None
    suffix = "" if path is None else path.suffix.lower()
    if path is not None and (path.is_dir() or (suffix in SUFFIXES and path.is_file())):
        return _image_files(path, names)
    bare = suffix == ".npy" or isinstance(source, list | tuple | np.ndarray | Tensor | Dataset)
    if not bare and not any(key in names for key in INPUT_NAMES):
        names = {**{key: name for key, name in like.names.items() if key != "id"}, **names}
    if path is not None and suffix in (".csv", ".tsv", ".parquet") and path.is_file():
        return _table_file(path, like, names)
    return find_source(source, _asked(names))


def _asked(names: Mapping[str, Any]) -> ReadOptions:
    """Return what to ask of a reader so that it looks for no labels but those that are named."""
    features = names.get("features")
    columns = (features,) if isinstance(features, str) else None if features is None else tuple(features)
    return ReadOptions(**{**names, "features": columns, "labels": None if "label" in names else ()})


def _image_files(path: Path, names: Mapping[str, Any]) -> RawData:
    _asked(names).refuse("label", *INPUT_NAMES, "id", what="images in files")
    files, folder = (image_names(path)[0], path) if path.is_dir() else ([path.name], path.parent)
    if not files:
        raise ValueError(f"{path} holds no images ({', '.join(SUFFIXES)}).")
    return RawData(LazyImages(OpenFile(folder.absolute(), tuple(files)), torch.arange(len(files))), None, files)


def _table_file(path: Path, like: InputSpec, names: dict[str, Any]) -> RawData:
    from permll.data.readers.csv_reader import read_csv
    from permll.data.readers.tables import find_frame, need_polars, read_parquet

    need_polars()
    cells = None if path.suffix.lower() == ".parquet" else read_csv(path)
    frame = read_parquet(path) if cells is None else cells.frame
    if "id" not in names and like.names.get("id") in frame.columns:
        names["id"] = like.names["id"]
    if isinstance(like.encoder, TableEncoder):
        frame, cells = _as_fitted(frame, like.encoder, cells, str(path)), None
    return find_frame(frame, _asked(names), {}, where=str(path), root=path.absolute().parent, cells=cells)


def _as_fitted(frame: "pl.DataFrame", encoder: TableEncoder, cells: "Cells | None", where: str) -> "pl.DataFrame":
    """Return the columns as what they were in the training: a few rows alone do not tell words from numbers."""
    import polars as pl

    from permll.data.readers.csv_types import typed

    missing = [column.name for column in encoder.columns if column.name not in frame.columns]
    if missing:
        there = format_list(frame.columns, "column")
        raise ValueError(
            f"{where} lacks {format_list(missing, 'column')} that the network was trained on; it has {there}."
        )
    for column in encoder.columns:
        values = frame[column.name]
        empty = values.null_count() == len(values)
        if isinstance(column, NumberColumn):
            values = values.cast(pl.Float64) if empty else values
            values = typed(values, decimal_comma=cells.separator != ",") if cells and not empty else values
        elif cells or empty:
            values = values.cast(pl.String).cast(pl.Categorical)
        frame = frame.with_columns(values)
    return frame


def sized(images: LazyImages, ids: Sequence[str], like: InputSpec, size: int | None) -> Images | LazyImages:
    """Return images to be resized, or, where they are to come as they are, those that have the size of the training."""
    channels, height, width = like.shape
    if size is not None and channels == 3:
        return images.resized(size, like.fit)
    pixels = np.empty((len(images), *like.shape), np.uint8)
    other, colored = [], []
    with progress("reading images", len(images)) as advance:
        for row, position in enumerate(images.rows.tolist()):
            with images.open(position) as image:
                found = to_pixels(image, size, like.fit)
            if found.shape[1:] != (height, width):
                other.append(f"{ids[row]}: {found.shape[1]} x {found.shape[2]}")
            elif channels == 1 and (found != found[:1]).any():
                colored.append(ids[row])
            else:
                pixels[row] = found[:channels]
            advance()
    if other:
        raise ValueError(
            f"{format_list(other, 'image')} of another size than {height} x {width}, that of the training."
        )
    if colored:
        raise ValueError(f"{format_list(colored, 'image')} in colour, but the network was trained on grey ones.")
    return Images(torch.from_numpy(pixels))


def _words(found: RawData) -> tuple[str, ...] | None:
    """Return the labels as classes are named; "" where one is missing."""
    if found.values is None:
        return None
    words = []
    for value in plain_values(found.values):
        if is_missing(value):
            words.append("")
        elif found.names is not None and isinstance(value, int):
            words.append(str(found.names[value]))
        else:
            words.append(str(int(value)) if isinstance(value, float) and value.is_integer() else str(value))
    return tuple(words)
