"""Sentence embeddings of texts by a pretrained language model, through sentence-transformers."""

import importlib
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.encoding import Arrays, json_to_array
from permll.data.inputs import Inputs, Texts, Vectors
from permll.networks.pretrained_files import download
from permll.utils.messages import first_line, install_hint

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
DOWNLOAD_MB = 91
_REPOSITORY = f"sentence-transformers/{DEFAULT_ENCODER}"
_FILES = ("*.json", "vocab.txt", "model.safetensors")
_SENTENCE = "The label of this sentence is wrong."


@dataclass(frozen=True, eq=False, repr=False)
class SentenceEncoder:
    """Encoder from ``Texts`` to ``Vectors`` of length one.

    Saved are the name of the model and its embedding of one sentence, by which the model is verified later.

    Args:
        name: name of a model, or folder of a saved one.
        sample: (dims,) embedding of a fixed sentence.
    """

    kind: ClassVar[str] = "sentences"
    takes: ClassVar[str] = "texts"
    name: str
    sample: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"SentenceEncoder {self.name}"

    @classmethod
    def load(cls, name: str) -> "SentenceEncoder":
        """Return the encoder of a model name ("all-MiniLM-L6-v2", downloaded if necessary) or of a folder."""
        folder = Path(name).expanduser()
        name = str(folder.absolute()) if folder.is_dir() else name
        model = _load_model(name)
        encoder = cls(name, _embed(model, [_SENTENCE])[0])
        encoder.__dict__["_model"] = model  # loading takes seconds
        return encoder

    @cached_property
    def _model(self) -> Any:
        model = _load_model(self.name)
        sample = _embed(model, [_SENTENCE])[0]
        if sample.shape != self.sample.shape or not np.allclose(sample, self.sample, atol=1e-3):
            raise ValueError(
                f"{self.name} is not the model that the texts were encoded with: restore that model, or train again."
            )
        return model

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of texts; long texts are truncated by the model."""
        if not isinstance(inputs, Texts):
            raise TypeError(f"{self.name} takes texts, it cannot encode {inputs!r}.")
        return Vectors(torch.from_numpy(_embed(self._model, inputs.texts)))

    def to_arrays(self) -> Arrays:
        """Return name and sample as arrays."""
        return {"about": json_to_array({"kind": self.kind, "name": self.name}), "sample": self.sample}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "SentenceEncoder":
        """Return the encoder that ``to_arrays`` saved."""
        return cls(json.loads(arrays["about"].tobytes())["name"], np.asarray(arrays["sample"]))


def default_encoder(notify: Callable[[str], None] | None = None) -> str | None:
    """Return ``DEFAULT_ENCODER``, downloaded once; None without sentence-transformers or a network.

    Args:
        notify: called with a sentence before a download.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        return None
    from huggingface_hub import try_to_load_from_cache  # comes with sentence-transformers

    cached = all(
        isinstance(try_to_load_from_cache(_REPOSITORY, name), str) for name in ("modules.json", "model.safetensors")
    )
    about = f"{DEFAULT_ENCODER} ({DOWNLOAD_MB} MB, once); --encoder tfidf needs no download"
    if not cached and not download(_REPOSITORY, _FILES, about, notify):
        return None
    try:
        importlib.import_module("sentence_transformers")
    except (ImportError, RuntimeError):  # torchvision was built for another torch
        return None
    return DEFAULT_ENCODER


def _load_model(name: str) -> Any:
    try:
        library = importlib.import_module("sentence_transformers")
    except (ImportError, RuntimeError) as error:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise ImportError(f"sentence embeddings need sentence-transformers: {install_hint('text')}") from error
        raise ImportError(f"sentence-transformers cannot be imported: {first_line(error)}.") from error
    try:
        return library.SentenceTransformer(name)
    except Exception as error:  # of any library underneath
        raise ValueError(
            f"{name} is not a folder of a sentence model, and no model of this name can be loaded "
            f"({first_line(error)}): pass the folder of a saved model, or a name such as all-MiniLM-L6-v2."
        ) from error


def _embed(model: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = model.encode(list(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)
