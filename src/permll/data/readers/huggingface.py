"""Data sets of the Hugging Face library: their columns say what they are."""

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import torch

from permll.data.inputs import Inputs, LazyImages
from permll.data.readers.arrays import to_inputs
from permll.data.readers.infer_columns import assume
from permll.data.readers.tables import find_frame, need_polars
from permll.data.readers.types import RawData, ReadOptions, joined, row_numbers
from permll.utils.messages import did_you_mean, format_list

if TYPE_CHECKING:
    import polars as pl
    from PIL.Image import Image

_LABEL_NAMES = ("label", "labels", "class", "target", "y")


class OpenRow:
    """Position -> PIL image, from a column of a data set; it can be sent to workers."""

    def __init__(self, dataset: Any, column: str) -> None:
        self.dataset, self.column = dataset, column

    def __call__(self, position: int) -> "Image":
        """Return the image of a row, decoded by the data set or, if it was told not to, here."""
        value = self.dataset[position][self.column]
        if value is None:
            raise ValueError(f"row {position} has no image.")
        if not isinstance(value, dict):
            return value
        from PIL import Image

        return Image.open(BytesIO(value["bytes"]) if value["bytes"] is not None else value["path"])

    def __repr__(self) -> str:
        return f"column {self.column!r}"


def find_dataset(dataset: Any, asked: ReadOptions) -> RawData:
    """Return what a ``datasets.Dataset`` holds."""
    _refuse_other_kinds(dataset)
    asked.choose_one("text", "image", "features")
    asked.choose_one("label", "labels")
    asked.choose_one("id", "ids")
    dataset = dataset.with_format(None)
    kinds = {name: type(feature).__name__ for name, feature in dataset.features.items()}
    for name in (asked.label, asked.text, asked.image, asked.id, *(asked.features or ())):
        if name is not None and name not in kinds:
            raise ValueError(
                f"the data set has no column {name!r}{did_you_mean(name, kinds) or '.'} It has {_shown(kinds)}."
            )
    label = asked.label or (None if asked.labels is not None else _label(kinds))
    asked = replace(asked, label=label, image=asked.image or _only_image(kinds, asked))
    names = dataset.features[label].names if label and kinds[label] == "ClassLabel" else None
    metadata: dict[str, Any] = {"name": _name(dataset), "source": "datasets.Dataset"}
    asked, metadata = assume(
        asked,
        metadata,
        label,
        list(kinds),
        values=lambda name: dataset[name] if kinds[name] == "Value" else [None],
        is_text=lambda name: getattr(dataset.features[name], "dtype", "") in ("string", "large_string"),
    )
    read = _images_or_vectors(dataset, kinds, asked)
    if read is None:
        need_polars()
        found = find_frame(_frame(dataset, kinds, asked), asked, metadata, where="the data set")
        return replace(found, names=names)
    values = list(dataset[label]) if label else None
    ids = row_numbers(len(dataset)) if asked.id is None else [str(name) for name in dataset[asked.id]]
    inputs, understood = read
    metadata = {**joined(metadata, understood), "label": label or "given with labels="}
    return RawData(inputs, values, ids, metadata, names)


def _images_or_vectors(dataset: Any, kinds: dict[str, str], asked: ReadOptions) -> tuple[Inputs, dict[str, Any]] | None:
    """Return the image column, or the one column of lists or arrays of numbers; None if it is texts or a table."""
    if asked.image is not None:
        if kinds[asked.image] != "Image":
            raise ValueError(f"column {asked.image!r} is no column of images but of {kinds[asked.image]}.")
        images = OpenRow(dataset.select_columns([asked.image]), asked.image)
        return LazyImages(images, torch.arange(len(dataset))), {"kind": "images", "image": asked.image}
    chosen = _chosen(kinds, asked)
    if asked.text is not None or len(chosen) != 1 or kinds[chosen[0]] in ("Value", "ClassLabel"):
        return None
    values = dataset.with_format("numpy").select_columns(chosen)[:][chosen[0]]
    return to_inputs(list(values) if values.dtype == object else values, f"column {chosen[0]!r}")


def _chosen(kinds: dict[str, str], asked: ReadOptions) -> list[str]:
    return list(asked.features or [name for name in kinds if name not in (asked.label, asked.id)])


def _frame(dataset: Any, kinds: dict[str, str], asked: ReadOptions) -> "pl.DataFrame":
    """Return the columns that matter, those of class numbers as their names."""
    import polars as pl

    wanted = {asked.text} if asked.text is not None else set(_chosen(kinds, asked))
    frame: pl.DataFrame = dataset.select_columns(
        [name for name in kinds if name in wanted | {asked.label, asked.id}]
    ).to_polars()
    for name in frame.columns:
        if kinds[name] == "ClassLabel" and name != asked.label:
            words = dict(enumerate(dataset.features[name].names))
            frame = frame.with_columns(pl.Series(name, [words.get(place) for place in frame[name]], dtype=pl.String))
    return frame


def _label(kinds: dict[str, str]) -> str:
    usual = [name for name in kinds if name in _LABEL_NAMES] or [name for name in kinds if kinds[name] == "ClassLabel"]
    if len(usual) != 1:
        raise ValueError(f"the data set has {_shown(kinds)}: say which one is the label with label=.")
    return usual[0]


def _only_image(kinds: dict[str, str], asked: ReadOptions) -> str | None:
    images = [name for name in kinds if kinds[name] == "Image"]
    if not images or asked.text is not None or asked.features is not None:
        return None
    if len(images) > 1:
        raise ValueError(f"the data set has {format_list(images, 'image column')}: choose one with image=.")
    return images[0]


def _refuse_other_kinds(dataset: Any) -> None:
    kind = type(dataset).__name__
    if kind.endswith("Dict"):
        raise ValueError(
            f"this {kind} holds {format_list(list(dataset), 'split')}: pass one of them, like data['train']."
        )
    if kind.startswith("Iterable"):
        raise ValueError("an IterableDataset has no rows to name: make it a Dataset (without streaming=True) first.")


def _shown(kinds: dict[str, str]) -> str:
    return format_list([f"{name}: {kind}" for name, kind in kinds.items()], "column")


def _name(dataset: Any) -> str:
    return str(getattr(dataset.info, "dataset_name", None) or "dataset")
