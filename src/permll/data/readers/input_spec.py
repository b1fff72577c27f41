"""``InputSpec``: the kind and shape of inputs that a network was trained on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder
from permll.data.inputs import Fit, Images, Inputs, LazyImages, Table, Texts, Vectors

INPUT_OPTIONS = ("text", "image", "features")
_PHRASES = {"texts": "texts", "table": "rows of a table"}


@dataclass(frozen=True, eq=False)
class InputSpec:
    """Inputs that a network was trained on, which new samples must match."""

    kind: str  # "images", "vectors", "texts", "table", or "items" of a PyTorch dataset
    shape: tuple[int, ...]  # of one sample before any transform, (C, H, W) or (F,); with an encoder, when encoded
    dtype: str
    size: int | None = None  # side to which images in files were resized; None for their original size
    fit: Fit = "stretch"
    names: Mapping[str, Any] = field(default_factory=dict)  # of columns: "text", "image" or "features", and "id"
    encoder: Encoder | None = None

    @classmethod
    def of(cls, data: LabeledData, encoder: Encoder | None, options: Mapping[str, Any]) -> "InputSpec":
        """Describe encoded training data that was read with ``options``."""
        inputs, known = data.inputs, {**options, **data.metadata}
        names = {key: known[key] for key in (*INPUT_OPTIONS, "id") if known.get(key) is not None}
        if "text" in names or "image" in names:
            names.pop("features", None)
        first = inputs.batch(torch.arange(1))
        return cls(
            kind=input_kind(inputs) if encoder is None else encoder.takes,
            shape=tuple(first.shape[1:]),
            dtype=str(first.dtype).removeprefix("torch."),
            size=inputs.size if isinstance(inputs, LazyImages) else options.get("image_size"),
            fit=inputs.fit if isinstance(inputs, LazyImages) else "stretch",
            names=names,
            encoder=encoder,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the encoder as JSON values."""
        return {**{key: value for key, value in vars(self).items() if key != "encoder"}, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], encoder: Encoder | None) -> "InputSpec":
        """Return the spec that ``to_dict`` saved."""
        return cls(**{**saved, "shape": tuple(saved["shape"])}, encoder=encoder)

    def __str__(self) -> str:
        shape = "" if self.encoder is not None else f" of {' x '.join(map(str, self.shape))}"
        return _PHRASES.get(self.kind, f"{self.kind}{shape}")


def input_kind(inputs: Inputs) -> str:
    """Return the kind of inputs: "images", "vectors", "texts", "table" or "items"."""
    kinds = {Images: "images", LazyImages: "images", Vectors: "vectors", Texts: "texts", Table: "table"}
    return kinds.get(type(inputs), "items")


def describe_inputs(inputs: Inputs) -> str:
    """Return the kind of inputs, with their shape if it is known.

    Examples:
        >>> describe_inputs(Vectors(torch.zeros(5, 2))), describe_inputs(Texts(("good", "bad")))
        ('vectors of 2', 'texts')
    """
    kind = input_kind(inputs)
    if isinstance(inputs, Table | Texts | LazyImages):
        return _PHRASES.get(kind, f"{kind} in files")
    return f"{kind} of {' x '.join(map(str, inputs.batch(torch.arange(1)).shape[1:]))}"
