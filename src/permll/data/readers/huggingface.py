"""Reader of Hugging Face datasets."""

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import polars as pl
import torch

from permll.data.inputs import Inputs, LazyImages
from permll.data.labels import RowRefs
from permll.data.readers.arrays import to_inputs
from permll.data.readers.gold import gold_mask
from permll.data.readers.groups import group_names
from permll.data.readers.infer_columns import infer_columns
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData, default_ids, merge_metadata
from permll.data.readers.tables import read_frame
from permll.utils.messages import did_you_mean, format_list

if TYPE_CHECKING:
    from PIL.Image import Image

_LABEL_NAMES = ("label", "labels", "class", "target", "y")


class RowOpener:
    """Position -> PIL image, from a column of a dataset; picklable."""

    def __init__(self, dataset: Any, column: str) -> None:
        self.dataset, self.column = dataset, column

    def __call__(self, position: int) -> "Image":
        """Return the image of a row, decoded by the dataset or, if it has ``decode=False``, here."""
        value = self.dataset[position][self.column]
        if value is None:
            raise ValueError(f"row {position} has no image.")
        if not isinstance(value, dict):
            return value
        from PIL import Image

        return Image.open(BytesIO(value["bytes"]) if value["bytes"] is not None else value["path"])

    def __repr__(self) -> str:
        return f"column {self.column!r}"


def read_huggingface(dataset: Any, options: ReadOptions) -> RawData:
    """Read a ``datasets.Dataset``."""
    kind = type(dataset).__name__
    if kind.endswith("Dict"):
        raise ValueError(f"the {kind} has {format_list(list(dataset), 'split')}: pass one of them, like data['train'].")
    if kind.startswith("Iterable"):
        raise ValueError("an IterableDataset has no positions: load it as a Dataset, without streaming=True.")
    options.reject_both()
    dataset = dataset.with_format(None)
    kinds = {name: type(feature).__name__ for name, feature in dataset.features.items()}
    columns = (*options.other_columns(options.label), options.text, options.image)
    for name in (*columns, *(options.features or ())):
        if name is not None and name not in kinds:
            hint = did_you_mean(name, kinds) or "."
            raise ValueError(f"the dataset has no column {name!r}{hint} It has {_format_columns(kinds)}.")
    label = options.label or (None if options.labels is not None else _label_column(kinds))
    options = replace(options, label=label, image=options.image or _image_column(kinds, options))
    names = dataset.features[label].names if label and kinds[label] == "ClassLabel" else None
    name = str(getattr(dataset.info, "dataset_name", None) or "dataset")
    metadata: dict[str, Any] = {"name": name, "source": "datasets.Dataset"}
    options, metadata = infer_columns(
        options,
        metadata,
        label,
        list(kinds),
        values=lambda name: dataset[name] if kinds[name] == "Value" else [None],
        is_text=lambda name: getattr(dataset.features[name], "dtype", "") in ("string", "large_string"),
    )
    images_or_vectors = _read_images_or_vectors(dataset, kinds, options)
    if images_or_vectors is None:
        raw = read_frame(_to_frame(dataset, kinds, options), options, metadata, where="the dataset")
        return replace(raw, names=names)
    values = list(dataset[label]) if label else None
    ids = default_ids(len(dataset)) if options.id is None else [str(name) for name in dataset[options.id]]
    inputs, input_metadata = images_or_vectors
    metadata = {**merge_metadata(metadata, input_metadata), "label": label or "given with labels="}
    gold = options.gold_column and gold_mask(list(dataset[options.gold_column]), RowRefs(ids))
    groups = options.groups_column and group_names(list(dataset[options.groups_column]), RowRefs(ids))
    return RawData(inputs, values, ids, metadata, names, gold=gold or None, groups=groups or None)


def _read_images_or_vectors(
    dataset: Any, kinds: dict[str, str], options: ReadOptions
) -> tuple[Inputs, dict[str, Any]] | None:
    """Return the image column, or the only column of lists or arrays of numbers; None for texts or a table."""
    if options.image is not None:
        if kinds[options.image] != "Image":
            raise ValueError(f"column {options.image!r} holds {kinds[options.image]}, not images.")
        images = RowOpener(dataset.select_columns([options.image]), options.image)
        return LazyImages(images, torch.arange(len(dataset))), {"kind": "images", "image": options.image}
    names = _feature_names(kinds, options)
    if options.text is not None or len(names) != 1 or kinds[names[0]] in ("Value", "ClassLabel"):
        return None
    values = dataset.with_format("numpy").select_columns(names)[:][names[0]]
    return to_inputs(list(values) if values.dtype == object else values, f"column {names[0]!r}")


def _feature_names(kinds: dict[str, str], options: ReadOptions) -> list[str]:
    others = options.other_columns(options.label)
    return list(options.features or [name for name in kinds if name not in others])


def _to_frame(dataset: Any, kinds: dict[str, str], options: ReadOptions) -> pl.DataFrame:
    """Return the columns that are used; class numbers, except the labels, become class names."""
    inputs = [options.text] if options.text is not None else _feature_names(kinds, options)
    used = [name for name in kinds if name in (*inputs, *options.other_columns(options.label))]
    frame: pl.DataFrame = dataset.select_columns(used).to_polars()
    for name in frame.columns:
        if kinds[name] == "ClassLabel" and name != options.label:
            names = dict(enumerate(dataset.features[name].names))
            frame = frame.with_columns(pl.Series(name, [names.get(k) for k in frame[name]], dtype=pl.String))
    return frame


def _label_column(kinds: dict[str, str]) -> str:
    matches = [name for name in kinds if name in _LABEL_NAMES]
    matches = matches or [name for name in kinds if kinds[name] == "ClassLabel"]
    if len(matches) != 1:
        raise ValueError(f"the dataset has {_format_columns(kinds)}: choose the labels with label=.")
    return matches[0]


def _image_column(kinds: dict[str, str], options: ReadOptions) -> str | None:
    images = [name for name in kinds if kinds[name] == "Image"]
    if not images or options.text is not None or options.features is not None:
        return None
    if len(images) > 1:
        raise ValueError(f"the dataset has {format_list(images, 'image column')}: choose one with image=.")
    return images[0]


def _format_columns(kinds: dict[str, str]) -> str:
    return format_list([f"{name}: {kind}" for name, kind in kinds.items()], "column")
