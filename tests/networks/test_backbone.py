"""Images through a pretrained network: as by hand, the same after saving, and nothing downloaded unasked."""

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
from permll.networks.backbone import GOOD, Backbone, at_hand
from tests.helpers.tiny_encoders import TINY, block_downloads, need_timm, write_weights


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_weights(tmp_path / "w.safetensors")


@pytest.fixture
def nothing_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for downloads; network access is an error."""
    block_downloads(tmp_path, monkeypatch)
    return tmp_path


def photographs(folder: Path, count: int = 3) -> LazyImages:
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    names = tuple(f"{number}.png" for number in range(count))
    for number, name in enumerate(names):
        Image.fromarray(generator.integers(0, 256, (90, 70 + number, 3), dtype=np.uint8)).save(folder / name)
    return LazyImages(FileOpener(folder, names), torch.arange(count))


def test_features_are_what_the_head_would_see(weights: Path, tmp_path: Path) -> None:
    images = photographs(tmp_path / "images", 34)  # more than a batch
    backbone = Backbone.load(TINY, weights)
    found = backbone(images).values
    net = importlib.import_module("timm").create_model("test_resnet", checkpoint_path=str(weights)).eval()
    x = images.resize(160).batch(torch.arange(34)) / 255
    x = (x - torch.tensor(backbone.mean)[:, None, None]) / torch.tensor(backbone.std)[:, None, None]
    with torch.no_grad():
        expected = net.forward_head(net.forward_features(x), pre_logits=True)
    assert found.shape == (34, 96)
    assert torch.allclose(found, expected, atol=1e-4)
    assert found.std(0).max() > 0.001, "they tell images apart"


def test_a_backbone_survives_its_file(weights: Path, tmp_path: Path) -> None:
    images = photographs(tmp_path / "images")
    backbone = Backbone.load(TINY, weights)
    np.savez(tmp_path / "encoder.npz", **backbone.to_arrays())
    weights.unlink()
    with np.load(tmp_path / "encoder.npz", allow_pickle=False) as arrays:
        again = Backbone.from_arrays(dict(arrays))
    assert torch.equal(again(images).values, backbone(images).values)
    assert repr(again) == "Backbone timm:test_resnet"


def test_small_images_in_grey_will_do(weights: Path) -> None:
    backbone = Backbone.load(TINY, weights)
    gray = torch.randint(0, 256, (2, 1, 20, 20), dtype=torch.uint8)
    large = interpolate(gray.float(), size=(160, 160), mode="bilinear", antialias=True).round().to(torch.uint8)
    found = backbone(Images(gray)).values
    assert torch.allclose(found, backbone(Images(large.expand(-1, 3, -1, -1))).values, atol=0.01)
    with pytest.raises(ValueError, match=r"in grey or colour, these have 5 channels\.$"):
        backbone(Images(torch.zeros(2, 5, 8, 8, dtype=torch.uint8)))
    with pytest.raises(TypeError, match="takes images, it cannot encode Texts"):
        backbone(Texts(("no image",)))


def test_only_what_is_there_is_at_hand(nothing_downloaded: Path) -> None:
    assert at_hand() is None
    torchvisions = nothing_downloaded / "torch" / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    torchvisions.parent.mkdir(parents=True)
    torch.save(importlib.import_module("torchvision.models").resnet18(weights=None).state_dict(), torchvisions)
    assert at_hand() == "timm:resnet18.tv_in1k"
    assert Backbone.load("timm:resnet18.tv_in1k").weights["conv1.weight"].shape == (64, 3, 7, 7)
    hugging_face = nothing_downloaded / "hub" / "models--timm--efficientnet_b0.ra_in1k"
    (hugging_face / "refs").mkdir(parents=True)
    (hugging_face / "refs" / "main").write_text("abc")
    write_weights(hugging_face / "snapshots" / "abc" / "model.safetensors", "test_efficientnet")
    torchvisions.unlink()
    assert at_hand() == "timm:efficientnet_b0.ra_in1k"


def test_those_looked_for_are_known_to_timm() -> None:
    need_timm()
    timm = importlib.import_module("timm")
    for own in GOOD:
        assert timm.get_pretrained_cfg(own).hf_hub_id == f"timm/{own}"


def test_what_does_not_fit_is_one_sentence(nothing_downloaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = write_weights(nothing_downloaded / "other.safetensors", "test_vit")
    wrong = {
        ("resnet18", None): r"a backbone is named timm:NAME, like timm:resnet50; got 'resnet18'\.$",
        ("timm:resnt18", None): r"timm has no classifier 'resnt18', did you mean resnet18\?$",
        ("timm:test_resnet.me", None): r"no weights called 'test_resnet.me': there are test_resnet.r160_in1k\.$",
        (TINY, "nowhere.pt"): r"there are no weights at nowhere.pt: give a .safetensors file",
        (TINY, str(other)): r"other.safetensors does not fit this network: .* missing; .* unknown to it\.$",
        (TINY, None): r"timm:test_resnet are not on this machine and cannot be downloaded \(.*--weights FILE\.$",
    }
    for (name, file), message in wrong.items():
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            Backbone.load(name, file)
    monkeypatch.setitem(sys.modules, "timm", None)
    assert at_hand() is None
    with pytest.raises(ImportError, match=r"pip install 'permll\[vision\]'"):
        Backbone.load(TINY)
