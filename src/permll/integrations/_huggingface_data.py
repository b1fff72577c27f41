"""Positions, labels and inputs of data sets for ``PermLLTrainer``."""

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

import torch
from torch.utils.data import Dataset

from permll.data.inputs import Inputs, Items, LazyImages, Texts

INDEX = "permll_index"  # key of the positions in a batch
LABEL_COLUMNS = ("labels", "label", "label_ids")


class Pairs(Dataset[tuple[Any, int]]):
    """Pairs (sample, position)."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> tuple[Any, int]:
        return self.dataset[position], position

    def __getitems__(self, positions: list[int]) -> list[tuple[Any, int]]:
        """Return a batch, read at once if the dataset can."""
        read: Callable[[list[int]], Sequence[Any]] | None = getattr(self.dataset, "__getitems__", None)
        samples = [self.dataset[position] for position in positions] if read is None else read(positions)
        return list(zip(samples, positions, strict=True))


class IndexCollator:
    """Collates the samples of pairs, and adds their positions to the batch."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def __call__(self, pairs: list[tuple[Any, int]]) -> Any:
        samples, positions = zip(*pairs, strict=True)
        batch = self.collator(list(samples))
        if not isinstance(batch, Mapping):
            raise TypeError(f"the data collator must return a dict, got {type(batch).__name__}.")
        batch[INDEX] = torch.tensor(positions)  # type: ignore[index]
        return batch


def read_labels(dataset: Any, column: str) -> list[int]:
    """Return the class numbers in a column of a ``datasets.Dataset``, or under a key of the items."""
    is_table = hasattr(dataset, "features") and hasattr(dataset, "with_format")
    labels = list(dataset.with_format(None)[column]) if is_table else [dataset[i][column] for i in range(len(dataset))]
    numbers = []
    for row, label in enumerate(labels):
        try:
            numbers.append(index(label))
        except TypeError:
            raise ValueError(
                f"{column!r} of row {row} is {label!r}, not a class number: leave the row out, or encode the column "
                f"with dataset.class_encode_column({column!r})."
            ) from None
    return numbers


def find_label_column(dataset: Any, chosen: str | None = None) -> str:
    """Return the column of a ``datasets.Dataset``, or the key of the items, that has the labels."""
    if len(dataset) == 0:
        raise ValueError("train_dataset is empty.")
    names = getattr(dataset, "column_names", None)
    if names is None:
        item = dataset[0]
        if not isinstance(item, Mapping):
            raise ValueError(f"the items of train_dataset must be dicts, got {type(item).__name__}.")
        names = list(item)
    found = [name for name in ((chosen,) if chosen else LABEL_COLUMNS) if name in names]
    if not found:
        what = f"no {chosen!r}" if chosen else "no labels"
        raise ValueError(f"train_dataset has {', '.join(names)}, but {what}: name their column with label_column=.")
    return found[0]


def class_names(dataset: Any, column: str, config: Any) -> tuple[str, ...] | None:
    """Return the names of a ``ClassLabel`` column or of the configuration of a model; None if there are none."""
    feature = (getattr(dataset, "features", None) or {}).get(column)
    names = getattr(feature, "names", None)
    if names is None:
        id2label = getattr(config, "id2label", None) or {}
        names = [str(id2label[k]) for k in sorted(id2label)]
        if names == [f"LABEL_{k}" for k in range(len(names))]:  # the default
            return None
    return tuple(names)


def read_inputs(dataset: Any, label: str) -> Inputs:
    """Return the images or texts of a dataset, else the first input of the model."""
    rows = torch.arange(len(dataset))
    if hasattr(dataset, "features") and hasattr(dataset, "with_format"):
        plain = dataset.with_format(None)
        kinds = {name: type(feature).__name__ for name, feature in plain.features.items()}
        images = [name for name, kind in kinds.items() if kind == "Image"]
        if images:
            from permll.data.readers.huggingface import RowOpener

            return LazyImages(RowOpener(plain.select_columns(images[:1]), images[0]), rows)
        texts = [name for name in kinds if getattr(plain.features[name], "dtype", "") in ("string", "large_string")]
    else:
        texts = [name for name, value in dataset[0].items() if isinstance(value, str)]
        plain = dataset
    if texts:  # the column with the longest texts
        first = [plain[i] for i in range(min(len(plain), 100))]
        text = max(texts, key=lambda name: sum(len(str(item[name])) for item in first))
        return Texts(tuple(str(plain[i][text] or "") for i in range(len(plain))))
    return Items(dataset, rows, next(name for name in dataset[0] if name != label))
