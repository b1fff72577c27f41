"""Sentence embeddings: texts as a pretrained language model sees them, through sentence-transformers."""

import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.encoding import Arrays, json_to_array
from permll.data.inputs import Inputs, Texts, Vectors

_SENTENCE = "The label of this sentence is wrong."


@dataclass(frozen=True, eq=False, repr=False)
class SentenceEncoder:
    """From ``Texts`` to ``Vectors`` of length one.

    The model stays where it is: what is saved is its name, and by what it makes of a sentence it is known again.

    Args:
        name: of a model, or the folder it was saved to.
        sample: (dims,) what it makes of a certain sentence.
    """

    kind: ClassVar[str] = "sentences"
    takes: ClassVar[str] = "texts"
    name: str
    sample: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"SentenceEncoder {self.name}"

    @classmethod
    def load(cls, name: str) -> "SentenceEncoder":
        """Return the encoder with a model's name ("all-MiniLM-L6-v2", downloaded if need be), or of a folder."""
        folder = Path(name).expanduser()
        name = str(folder.absolute()) if folder.is_dir() else name
        model = _load(name)
        encoder = cls(name, _embed(model, [_SENTENCE])[0])
        encoder.__dict__["_model"] = model  # loading it takes seconds: once will do
        return encoder

    @cached_property
    def _model(self) -> Any:
        model = _load(self.name)
        now = _embed(model, [_SENTENCE])[0]
        if now.shape != self.sample.shape or not np.allclose(now, self.sample, atol=1e-3):
            raise ValueError(
                f"{self.name} is not the model that the texts were encoded with: put that one back, or train again."
            )
        return model

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of texts; of long ones, what the model reads of their beginning."""
        if not isinstance(inputs, Texts):
            raise TypeError(f"{self.name} takes texts, it cannot encode {inputs!r}.")
        return Vectors(torch.from_numpy(_embed(self._model, inputs.texts)))

    def to_arrays(self) -> Arrays:
        """Return the name and the sample as arrays."""
        return {"about": json_to_array({"kind": self.kind, "name": self.name}), "sample": self.sample}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "SentenceEncoder":
        """Return the encoder that was saved."""
        return cls(json.loads(arrays["about"].tobytes())["name"], np.asarray(arrays["sample"]))


def _load(name: str) -> Any:
    try:
        library = importlib.import_module("sentence_transformers")
    except (ImportError, RuntimeError) as problem:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise ImportError("sentence embeddings need sentence-transformers: pip install 'permll[text]'") from problem
        raise ImportError(f"sentence-transformers does not work here: {_first_line(problem)}.") from problem
    try:
        return library.SentenceTransformer(name)
    except Exception as problem:  # every library of networks fails in its own way
        raise ValueError(
            f"{name} is no folder with a sentence model, and cannot be had by that name ({_first_line(problem)}): give "
            "the folder of a model that was saved, or a name such as all-MiniLM-L6-v2 where there is a network."
        ) from problem


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__


def _embed(model: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    made = model.encode(list(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False)
    return np.asarray(made, dtype=np.float32)
