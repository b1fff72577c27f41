"""Inputs of a network, by kind: images, vectors, texts, tables and the items of a PyTorch dataset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from permll.data.column_types import ColumnType, to_source_type
from permll.utils.messages import format_list

if TYPE_CHECKING:
    from PIL.Image import Image

Fit = Literal["stretch", "crop"]


class Inputs(Protocol):
    """N samples."""

    def __len__(self) -> int:
        """Return N."""
        ...

    def take(self, rows: Tensor) -> Self:
        """Return the samples at positions ``rows`` (int64), in that order."""
        ...

    def batch(self, rows: Tensor) -> Tensor:
        """Return the samples at positions ``rows`` as one tensor (B, ...), before any transform."""
        ...

    def get_sample(self, row: int) -> Any:
        """Return one sample for display: pixels, a vector, a text, or a row of a table."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images in memory: uint8 (N, C, H, W)."""

    pixels: Tensor

    def __post_init__(self) -> None:
        if self.pixels.dtype != torch.uint8 or self.pixels.ndim != 4:
            raise ValueError(f"images must be uint8 (N, C, H, W), got {self.pixels.dtype} {tuple(self.pixels.shape)}.")

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        return "Images of {} x {} x {}".format(*self.pixels.shape[1:])

    def take(self, rows: Tensor) -> "Images":
        """Return the images at ``rows``."""
        return Images(self.pixels[rows])

    def batch(self, rows: Tensor) -> Tensor:
        """Return uint8 (B, C, H, W)."""
        return self.pixels.index_select(0, rows.to(self.pixels.device))  # ten times as fast as pixels[rows]

    def get_sample(self, row: int) -> Tensor:
        """Return the pixels (C, H, W) of one image."""
        return self.pixels[row]


@dataclass(frozen=True, eq=False, repr=False)
class Vectors:
    """Feature vectors: float32 (N, F).

    Args:
        values: (N, F), finite.
        features: (F,) int64 index of the source feature of each column, where one feature has several columns (a
            one-hot category); ``FeatureDropout`` drops all of them together. Default: one column per feature.
        scaled: whether the variances of the columns are meaningful, as in encoded texts; transforms then center the
            columns without scaling them.
    """

    values: Tensor
    features: Tensor | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.values.dtype != torch.float32 or self.values.ndim != 2:
            raise ValueError(f"vectors must be float32 (N, F), got {self.values.dtype} {tuple(self.values.shape)}.")
        if self.features is not None and self.features.shape != self.values.shape[1:]:
            shape = tuple(self.features.shape)
            raise ValueError(f"features must have one entry for each of {self.values.shape[1]} columns, got {shape}.")

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Vectors of {self.values.shape[1]}"

    def take(self, rows: Tensor) -> "Vectors":
        """Return the vectors at ``rows``."""
        return Vectors(self.values[rows], self.features, self.scaled)

    def batch(self, rows: Tensor) -> Tensor:
        """Return float32 (B, F)."""
        return self.values.index_select(0, rows.to(self.values.device))

    def get_sample(self, row: int) -> Tensor:
        """Return one vector (F,)."""
        return self.values[row]


@dataclass(frozen=True, eq=False, repr=False)
class LazyImages:
    """Images that are opened and decoded when a batch needs them.

    Args:
        open: position -> PIL image; must be picklable, for worker processes.
        rows: (N,) int64 positions of these samples in ``open``.
        size: side to which every image is resized.
        fit: ``"stretch"`` to size x size (as the paper does on Clothing1M), or ``"crop"``: resize the shorter side to
            size, then take the center.
        small: the same images downscaled in memory, if they were decoded while they were read.
    """

    open: Callable[[int], "Image"]
    rows: Tensor
    size: int = 256
    fit: Fit = "stretch"
    small: Images | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"LazyImages resized to {self.size} x {self.size}"

    def take(self, rows: Tensor) -> "LazyImages":
        """Return the images at ``rows``; nothing is opened."""
        return LazyImages(self.open, self.rows[rows], self.size, self.fit)

    def resize(self, size: int, fit: Fit | None = None) -> "LazyImages":
        """Return the same images with another target size."""
        small = self.small if fit in (None, self.fit) else None
        return LazyImages(self.open, self.rows, size, fit or self.fit, small)

    def open_image(self, row: int) -> "Image":
        """Open one image; Pillow decodes it when its pixels are read."""
        return self.open(int(self.rows[row]))

    def batch(self, rows: Tensor) -> Tensor:
        """Open, decode and resize: uint8 RGB (B, 3, size, size)."""
        from permll.data.decoding import decode_image

        pixels = np.empty((len(rows), 3, self.size, self.size), np.uint8)
        for i, position in enumerate(self.rows[rows].tolist()):
            pixels[i] = decode_image(self.open, position, self.size, self.fit)
        return torch.from_numpy(pixels)

    def get_sample(self, row: int) -> "Image":
        """Return one decoded image in its original size."""
        with self.open_image(row) as image:
            return image.copy()  # decoded: the file need not stay open


@dataclass(frozen=True, eq=False, repr=False)
class Texts:
    """Texts, to be encoded as ``Vectors``."""

    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return "Texts"

    def take(self, rows: Tensor) -> "Texts":
        """Return the texts at ``rows``."""
        return Texts(tuple(self.texts[i] for i in rows.tolist()))

    def batch(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Raise: texts must be encoded first."""
        raise TypeError("texts must be encoded before training: permll.data.encode(data).")

    def get_sample(self, row: int) -> str:
        """Return one text."""
        return self.texts[row]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Named columns of numbers (float64, NaN = empty cell) and of categories (str, "" = empty cell).

    Args:
        columns: name -> (N,) values.
        types: name -> type in the source, for columns that are numbers here only: ``boolean``, or ``date`` or
            ``datetime`` in days since 1970.

    Examples:
        >>> Table({"born": np.array([365.0, np.nan])}, {"born": "date"}).get_sample(0)
        {'born': datetime.date(1971, 1, 1)}
    """

    columns: Mapping[str, np.ndarray[Any, Any]]
    types: Mapping[str, ColumnType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"the columns of a table must have one length, got {sorted(lengths)}.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Table of {len(self.columns)} column{'s' if len(self.columns) != 1 else ''}"

    def take(self, rows: Tensor) -> "Table":
        """Return the rows at ``rows``."""
        return Table({name: column[rows.numpy()] for name, column in self.columns.items()}, self.types)

    def batch(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Raise: a table must be encoded first."""
        raise TypeError("a table must be encoded before training: permll.data.encode(data).")

    def get_sample(self, row: int) -> dict[str, Any]:
        """Return one row by column, in the types of the source."""
        values = {name: column[row] for name, column in self.columns.items()}
        return {
            name: to_source_type(value.item() if hasattr(value, "item") else value, self.types.get(name))
            for name, value in values.items()
        }


@dataclass(frozen=True, eq=False, repr=False)
class Items:
    """Tensors of a map-style PyTorch dataset, after its own transforms.

    Args:
        dataset: ``dataset[i]`` is a tensor, or a tuple or dict that contains it.
        rows: (N,) int64 positions of these samples in ``dataset``.
        key: index or key of the input in ``dataset[i]``; None if the item is the input.
    """

    dataset: Any
    rows: Tensor
    key: int | str | None = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Items of {type(self.dataset).__name__}"

    def take(self, rows: Tensor) -> "Items":
        """Return the items at ``rows``; nothing is read."""
        return Items(self.dataset, self.rows[rows], self.key)

    def batch(self, rows: Tensor) -> Tensor:
        """Read the items and stack them: (B, ...)."""
        if len(rows) == 0:
            return torch.empty(0)  # a process may have no row of the last batch
        tensors = [torch.as_tensor(self.get_sample(row)) for row in rows.tolist()]
        if len({tensor.shape for tensor in tensors}) > 1:
            shapes = format_list(sorted({str(tuple(tensor.shape)) for tensor in tensors}), "shape")
            raise ValueError(f"the items of {type(self.dataset).__name__} differ in size, {shapes}: resize them first.")
        return torch.stack(tensors)

    def get_sample(self, row: int) -> Any:
        """Return the input of one item, as the dataset returns it."""
        item = self.dataset[int(self.rows[row])]
        return item if self.key is None else item[self.key]
