"""Sentence embeddings: values, saving and error messages, with a tiny language model."""

import importlib
import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from permll.data import Table, Texts
from permll.networks.sentence_encoder import SentenceEncoder
from tests.helpers.tiny_encoders import tiny_sentence_model


def test_sentence_encoder_matches_model(tmp_path: Path) -> None:
    folder = tiny_sentence_model(tmp_path)
    texts = ("good film", "the film is bad " * 9, "")
    encoder = SentenceEncoder.load(str(folder))
    values = encoder(Texts(texts)).values
    model = importlib.import_module("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    expected = torch.from_numpy(np.stack([model.encode(text) for text in texts]))
    assert torch.allclose(values, expected / expected.norm(dim=1, keepdim=True), atol=1e-5)
    with pytest.raises(TypeError, match="takes texts, it cannot encode Table of 1 column"):
        encoder(Table({"x": np.zeros(2)}))


def test_sentence_encoder_verifies_restored_model(tmp_path: Path) -> None:
    folder = tiny_sentence_model(tmp_path)
    texts = Texts(("good film", "bad film"))
    encoder = SentenceEncoder.load(str(folder))
    np.savez(tmp_path / "encoder.npz", **encoder.to_arrays())
    with np.load(tmp_path / "encoder.npz", allow_pickle=False) as file:
        arrays = dict(file)
    assert torch.equal(SentenceEncoder.from_arrays(arrays)(texts).values, encoder(texts).values)
    shutil.rmtree(folder)
    tiny_sentence_model(tmp_path / "other", seed=1).rename(folder)
    with pytest.raises(ValueError, match=r"is not the model that the texts were encoded with: restore that model"):
        SentenceEncoder.from_arrays(arrays)(texts)


def test_sentence_encoder_rejects_empty_folder(tmp_path: Path) -> None:
    tiny_sentence_model(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty is not a folder of a sentence model, and no model"):
        SentenceEncoder.load(str(tmp_path / "empty"))


def test_sentence_encoder_names_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'permll\[text\]', or in a clone: pip install '.\[text\]'$"):
        SentenceEncoder.load("all-MiniLM-L6-v2")
