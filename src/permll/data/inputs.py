"""What a network sees, by kind. Each kind knows its length, a selection of its rows, and how to make a batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from permll.utils.messages import format_list

if TYPE_CHECKING:
    from PIL.Image import Image


class Inputs(Protocol):
    """N samples."""

    def __len__(self) -> int:
        """Return N."""
        ...

    def take(self, rows: Tensor) -> Self:
        """Return the samples at positions ``rows`` (int64), in that order."""
        ...

    def batch(self, rows: Tensor) -> Tensor:
        """Return the samples at positions ``rows`` as one tensor (B, ...), before any view."""
        ...

    def show(self, row: int) -> Any:
        """Return one sample to look at: pixels, a vector, a text, a row of a table."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Small images that stay in memory: uint8 (N, C, H, W)."""

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

    def show(self, row: int) -> Tensor:
        """Return the pixels (C, H, W) of one image."""
        return self.pixels[row]

    def to(self, device: torch.device | str) -> "Images":
        """Return the images in the memory of ``device``: small sets fit there whole."""
        return Images(self.pixels.to(device))


@dataclass(frozen=True, eq=False, repr=False)
class Vectors:
    """Feature vectors: float32 (N, F).

    Args:
        values: (N, F), finite.
        features: (F,) int64, which feature each column belongs to, where one feature takes several columns (a category
            as one-hot): views that drop features drop all columns of one together. By default each its own.
        scaled: whether how much a column varies says how much it matters, as in encoded texts: views then keep the
            scales of the columns instead of making them one.
    """

    values: Tensor
    features: Tensor | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.values.dtype != torch.float32 or self.values.ndim != 2:
            raise ValueError(f"vectors must be float32 (N, F), got {self.values.dtype} {tuple(self.values.shape)}.")
        if self.features is not None and self.features.shape != self.values.shape[1:]:
            shape = tuple(self.features.shape)
            raise ValueError(f"features must name one feature for each of {self.values.shape[1]} columns, got {shape}.")

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

    def show(self, row: int) -> Tensor:
        """Return one vector (F,)."""
        return self.values[row]

    def to(self, device: torch.device | str) -> "Vectors":
        """Return the vectors in the memory of ``device``."""
        return Vectors(self.values.to(device), None if self.features is None else self.features.to(device))


@dataclass(frozen=True, eq=False, repr=False)
class LazyImages:
    """Images that are opened when they are needed, in workers: files, or what a data set of PIL images holds.

    Args:
        open: position -> PIL image. Must be picklable, so that workers can have it.
        rows: (N,) int64, which positions of ``open`` these samples are.
        size: what every image is resized to before it joins a batch.
        fit: ``"stretch"`` to exactly size x size (as the paper does on Clothing1M), or ``"crop"``: the shorter side to
            size, then the middle of the longer one.
    """

    open: Callable[[int], "Image"]
    rows: Tensor
    size: int = 256
    fit: Literal["stretch", "crop"] = "stretch"

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"LazyImages resized to {self.size} x {self.size}"

    def take(self, rows: Tensor) -> "LazyImages":
        """Return the images at ``rows``; nothing is opened."""
        return LazyImages(self.open, self.rows[rows], self.size, self.fit)

    def resized(self, size: int, fit: Literal["stretch", "crop"] | None = None) -> "LazyImages":
        """Return the same images, to be resized to ``size``."""
        return LazyImages(self.open, self.rows, size, fit or self.fit)

    def batch(self, rows: Tensor) -> Tensor:
        """Open, decode and resize: uint8 RGB (B, 3, size, size)."""
        from permll.data.decoding import read_pixels

        pixels = np.empty((len(rows), 3, self.size, self.size), np.uint8)
        for place, position in enumerate(self.rows[rows].tolist()):
            pixels[place] = read_pixels(self.open, position, self.size, self.fit)
        return torch.from_numpy(pixels)

    def show(self, row: int) -> "Image":
        """Open one image, as large as it is."""
        with self.open(int(self.rows[row])) as image:
            return image.copy()  # decoded: the file need not stay open


@dataclass(frozen=True, eq=False, repr=False)
class Texts:
    """Texts, to be turned into ``Vectors`` by an encoder."""

    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return "Texts"

    def take(self, rows: Tensor) -> "Texts":
        """Return the texts at ``rows``."""
        return Texts(tuple(self.texts[i] for i in rows.tolist()))

    def batch(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Refuse: texts are not numbers yet."""
        raise TypeError("texts must be encoded before they can be trained on: permll.data.encode(data).")

    def show(self, row: int) -> str:
        """Return one text."""
        return self.texts[row]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns of numbers (float64, NaN = empty cell) and of categories (str, "" = empty cell), by name, in order."""

    columns: Mapping[str, np.ndarray[Any, Any]]

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"a table needs columns of one length, got {sorted(lengths)}.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Table of {len(self.columns)} column{'s' if len(self.columns) != 1 else ''}"

    def take(self, rows: Tensor) -> "Table":
        """Return the rows at ``rows``."""
        return Table({name: column[rows.numpy()] for name, column in self.columns.items()})

    def batch(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Refuse: columns are not numbers on one scale yet."""
        raise TypeError("a table must be encoded before it can be trained on: permll.data.encode(data).")

    def show(self, row: int) -> dict[str, Any]:
        """Return one row by column."""
        return {
            name: column[row].item() if hasattr(column[row], "item") else column[row]
            for name, column in self.columns.items()
        }


@dataclass(frozen=True, eq=False, repr=False)
class Items:
    """The tensors of a map-style PyTorch dataset, as its own transforms leave them.

    Args:
        dataset: ``dataset[i]`` is a tensor, or a tuple or dict that holds it.
        rows: (N,) int64, which positions of ``dataset`` these samples are.
        key: where in ``dataset[i]`` the input is: a place in the tuple, a key of the dict, or None if it is all of it.
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
            return torch.empty(0)  # a rank's share of a last batch can be empty
        items = [self.dataset[i] for i in self.rows[rows].tolist()]
        if self.key is not None:
            items = [item[self.key] for item in items]
        tensors = [torch.as_tensor(item) for item in items]
        if len({tensor.shape for tensor in tensors}) > 1:
            shapes = format_list(sorted({str(tuple(tensor.shape)) for tensor in tensors}), "shape")
            raise ValueError(f"the items of {type(self.dataset).__name__} differ in size, {shapes}: resize them first.")
        return torch.stack(tensors)

    def show(self, row: int) -> Any:
        """Return one item's input, as the data set gives it."""
        item = self.dataset[int(self.rows[row])]
        return item if self.key is None else item[self.key]


KINDS: Sequence[type] = (Images, LazyImages, Vectors, Texts, Table, Items)
