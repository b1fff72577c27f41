"""Image features of pretrained networks: values, saving, caches and error messages."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate

from permll.data import Images, LazyImages, Texts
from permll.data.decoding import FileOpener
from permll.networks.backbone import PREFERRED_BACKBONES, Backbone, find_cached_backbone
from tests.helpers.tiny_encoders import TINY, block_downloads, need_timm, write_weights


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_weights(tmp_path / "w.safetensors")


@pytest.fixture
def empty_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for downloads; network access is an error."""
    block_downloads(tmp_path, monkeypatch)
    return tmp_path


def write_images(folder: Path, count: int = 3) -> LazyImages:
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    names = tuple(f"{number}.png" for number in range(count))
    for number, name in enumerate(names):
        Image.fromarray(generator.integers(0, 256, (90, 70 + number, 3), dtype=np.uint8)).save(folder / name)
    return LazyImages(FileOpener(folder, names), torch.arange(count))


def test_backbone_features_match_timm(weights: Path, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", 34)  # more than a batch
    backbone = Backbone.load(TINY, weights)
    features = backbone(images).values
    net = importlib.import_module("timm").create_model("test_resnet", checkpoint_path=str(weights)).eval()
    x = images.resize(160).batch(torch.arange(34)) / 255
    x = (x - torch.tensor(backbone.mean)[:, None, None]) / torch.tensor(backbone.std)[:, None, None]
    with torch.no_grad():
        expected = net.forward_head(net.forward_features(x), pre_logits=True)
    assert features.shape == (34, 96)
    assert torch.allclose(features, expected, atol=1e-4)
    assert features.std(0).max() > 0.001


def test_backbone_is_restored_from_arrays(weights: Path, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images")
    backbone = Backbone.load(TINY, weights)
    np.savez(tmp_path / "encoder.npz", **backbone.to_arrays())
    weights.unlink()
    with np.load(tmp_path / "encoder.npz", allow_pickle=False) as arrays:
        again = Backbone.from_arrays(dict(arrays))
    assert torch.equal(again(images).values, backbone(images).values)
    assert repr(again) == "Backbone timm:test_resnet"


def test_backbone_resizes_grayscale_images(weights: Path) -> None:
    backbone = Backbone.load(TINY, weights)
    gray = torch.randint(0, 256, (2, 1, 20, 20), dtype=torch.uint8)
    large = interpolate(gray.float(), size=(160, 160), mode="bilinear", antialias=True).round().to(torch.uint8)
    features = backbone(Images(gray)).values
    assert torch.allclose(features, backbone(Images(large.expand(-1, 3, -1, -1))).values, atol=0.01)
    with pytest.raises(ValueError, match=r"with 1 or 3 channels, not 5\.$"):
        backbone(Images(torch.zeros(2, 5, 8, 8, dtype=torch.uint8)))
    with pytest.raises(TypeError, match="takes images, it cannot encode Texts"):
        backbone(Texts(("no image",)))


def test_find_cached_backbone_searches_caches(empty_caches: Path) -> None:
    assert find_cached_backbone() is None
    torchvision_file = empty_caches / "torch" / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    torchvision_file.parent.mkdir(parents=True)
    torch.save(importlib.import_module("torchvision.models").resnet18(weights=None).state_dict(), torchvision_file)
    assert find_cached_backbone() == "timm:resnet18.tv_in1k"
    assert Backbone.load("timm:resnet18.tv_in1k").weights["conv1.weight"].shape == (64, 3, 7, 7)
    hugging_face = empty_caches / "hub" / "models--timm--efficientnet_b0.ra_in1k"
    (hugging_face / "refs").mkdir(parents=True)
    (hugging_face / "refs" / "main").write_text("abc")
    write_weights(hugging_face / "snapshots" / "abc" / "model.safetensors", "test_efficientnet")
    torchvision_file.unlink()
    assert find_cached_backbone() == "timm:efficientnet_b0.ra_in1k"


def test_preferred_backbones_exist_in_timm() -> None:
    need_timm()
    timm = importlib.import_module("timm")
    for model in PREFERRED_BACKBONES:
        assert timm.get_pretrained_cfg(model).hf_hub_id == f"timm/{model}"


def test_backbone_rejects_invalid_arguments(empty_caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = write_weights(empty_caches / "other.safetensors", "test_vit")
    messages = {
        ("resnet18", None): r"the name of a backbone must be timm:NAME, such as timm:resnet50; got 'resnet18'\.$",
        ("timm:resnt18", None): r"timm has no classifier 'resnt18', did you mean resnet18\?$",
        ("timm:test_resnet.me", None): r"timm has no weights 'test_resnet.me'; choose from test_resnet.r160_in1k\.$",
        (TINY, "nowhere.pt"): r"no weights file at nowhere.pt: pass a .safetensors file",
        (TINY, str(other)): r"other.safetensors does not match this network: .* missing; .* unexpected\.$",
        (TINY, None): r"timm:test_resnet are not cached and cannot be downloaded \(.*--weights FILE\.$",
    }
    for (name, file), message in messages.items():
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            Backbone.load(name, file)
    monkeypatch.setitem(sys.modules, "timm", None)
    assert find_cached_backbone() is None
    with pytest.raises(ImportError, match=r"pip install 'permll\[vision\]'"):
        Backbone.load(TINY)
