"""What a network was trained on: what new samples are held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder
from permll.data.inputs import Images, Inputs, LazyImages, Table, Texts, Vectors

INPUT_NAMES = ("text", "image", "features")
_WORDS = {"texts": "texts", "table": "rows of a table"}


@dataclass(frozen=True, eq=False)
class InputSpec:
    """What a network was trained on, as far as new samples must be like it.

    Args:
        kind: "images", "vectors", "texts", "table", or "items" of a PyTorch dataset.
        shape: of one sample before any view, (C, H, W) or (F,); of what an encoder takes, once it is encoded.
        dtype: of its numbers.
        size: what images in files were resized to; None if they came as they were.
        fit: how they were resized, as ``LazyImages`` says.
        names: how columns or arrays were called: "text", "image" or "features", and "id".
        encoder: from texts, tables or images to vectors.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: str
    size: int | None = None
    fit: Literal["stretch", "crop"] = "stretch"
    names: Mapping[str, Any] = field(default_factory=dict)
    encoder: Encoder | None = None

    @classmethod
    def of(cls, data: LabeledData, encoder: Encoder | None, options: Mapping[str, Any]) -> "InputSpec":
        """Look at training data after they were encoded; ``options`` are those they were read with."""
        inputs, told = data.inputs, {**options, **data.metadata}
        names = {key: told[key] for key in (*INPUT_NAMES, "id") if told.get(key) is not None}
        if "text" in names or "image" in names:
            names.pop("features", None)
        first = inputs.batch(torch.arange(1))
        return cls(
            kind=kind_of(inputs) if encoder is None else encoder.takes,
            shape=tuple(first.shape[1:]),
            dtype=str(first.dtype).removeprefix("torch."),
            size=inputs.size if isinstance(inputs, LazyImages) else options.get("image_size"),
            fit=inputs.fit if isinstance(inputs, LazyImages) else "stretch",
            names=names,
            encoder=encoder,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all but the encoder, as JSON holds it."""
        return {**{key: value for key, value in vars(self).items() if key != "encoder"}, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], encoder: Encoder | None) -> "InputSpec":
        """Undo ``to_dict``."""
        return cls(**{**saved, "shape": tuple(saved["shape"])}, encoder=encoder)

    def __str__(self) -> str:
        shape = "" if self.encoder is not None else f" of {' x '.join(map(str, self.shape))}"
        return _WORDS.get(self.kind, f"{self.kind}{shape}")


def kind_of(inputs: Inputs) -> str:
    """Return the word for a kind of inputs."""
    kinds = {Images: "images", LazyImages: "images", Vectors: "vectors", Texts: "texts", Table: "table"}
    return kinds.get(type(inputs), "items")


def described(inputs: Inputs) -> str:
    """Return inputs in a few words, with their shape where they have one already.

    Examples:
        >>> described(Vectors(torch.zeros(5, 2))), described(Texts(("good", "bad")))
        ('vectors of 2', 'texts')
    """
    kind = kind_of(inputs)
    if isinstance(inputs, Table | Texts | LazyImages):
        return _WORDS.get(kind, f"{kind} in files")
    return f"{kind} of {' x '.join(map(str, inputs.batch(torch.arange(1)).shape[1:]))}"
