"""Encoders with random weights: networks of timm and torchvision, and a sentence-transformers model."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

TINY = "timm:test_resnet"  # of timm's own tests: 160 pixels, 96 features
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "the", "is", "of", "this", "label")
_LIBRARIES: list[torch.library.Library] = []  # a schema lives as long as its library


def import_torchvision() -> None:
    """Import torchvision; if its operators were compiled for another version of torch, define their schemas."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        importlib.import_module("torchvision")


def need_timm() -> None:
    """Skip the test if timm or torchvision is not installed."""
    if importlib.util.find_spec("torchvision") is None or importlib.util.find_spec("timm") is None:
        pytest.skip("timm and torchvision are not installed (pip install 'permll[vision]')")
    import_torchvision()


def write_weights(path: Path, name: str = "test_resnet", seed: int = 0) -> Path:
    """Write random weights of a timm network, with a head for 1000 classes."""
    need_timm()
    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        save_file(importlib.import_module("timm").create_model(name).state_dict(), path)
    return path


def cache_torchvision_weights(folder: Path, model: str, version: str = "DEFAULT", seed: int = 0) -> Path:
    """Write random weights of a torchvision network to the cache that ``block_downloads`` sets; return the file."""
    need_timm()
    models = importlib.import_module("torchvision.models")
    url = getattr(models.get_model_weights(model), version).url
    path: Path = folder / "torch" / "hub" / "checkpoints" / url.rpartition("/")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.save(models.get_model(model, weights=None).state_dict(), path)
    return path


def block_downloads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make caches of pretrained weights empty, and network access an error."""
    need_timm()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(folder / "torch"))

    def refuse(*_: object) -> None:
        raise AssertionError("network access")

    monkeypatch.setattr("socket.getaddrinfo", refuse)


def tiny_sentence_model(folder: Path, seed: int = 0) -> Path:
    """Save a random BERT with a dozen words and mean pooling, in the format of sentence-transformers."""
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed (pip install 'permll[text]')")
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()
    transformers = importlib.import_module("transformers")
    bare = folder / "bare"
    bare.mkdir(parents=True)
    (bare / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        transformers.BertModel(config).save_pretrained(bare)
    transformers.BertTokenizerFast(str(bare / "vocab.txt"), model_max_length=16).save_pretrained(bare)
    model = importlib.import_module("sentence_transformers").SentenceTransformer(str(bare), device="cpu")
    model.save(str(folder / "model"))
    return folder / "model"
