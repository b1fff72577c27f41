"""Image features of pretrained networks: values, saving, caches and error messages."""

import importlib
import re
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
from permll.networks.weights import load_weights
from tests.helpers.tiny_encoders import TINY, block_downloads, cache_torchvision_weights, need_timm, write_weights


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


@pytest.mark.parametrize(("model", "head"), [("mobilenet_v2", "classifier.1"), ("resnet18", "fc"), ("swin_t", "head")])
def test_backbone_features_match_torchvision(model: str, head: str, empty_caches: Path) -> None:
    images = write_images(empty_caches / "images")
    cache_torchvision_weights(empty_caches, model)
    published = importlib.import_module("torchvision.models").get_model_weights(model).DEFAULT
    net = importlib.import_module("torchvision.models").get_model(model, weights=published).eval()
    expected: list[torch.Tensor] = []
    net.get_submodule(head).register_forward_pre_hook(lambda _, inputs: expected.extend(inputs))
    preprocess = published.transforms()
    x = images.resize(224).batch(torch.arange(3)) / 255
    with torch.no_grad():
        net((x - torch.tensor(preprocess.mean)[:, None, None]) / torch.tensor(preprocess.std)[:, None, None])
    features = Backbone.load(f"torchvision:{model}")(images).values
    assert features.shape == (3, net.get_submodule(head).in_features)
    spread = features.std(0).max()  # tiny with random weights
    assert spread > 0
    assert torch.allclose(features / spread, expected[0] / spread, atol=0.01)


@pytest.mark.parametrize("name", [TINY, "torchvision:mobilenet_v3_small"])
def test_backbone_is_restored_from_arrays(name: str, empty_caches: Path) -> None:
    images, library = write_images(empty_caches / "images"), name.partition(":")[0]
    if library == "timm":
        weights = write_weights(empty_caches / "w.safetensors")
    else:
        weights = cache_torchvision_weights(empty_caches, "mobilenet_v3_small")
    backbone = Backbone.load(name, weights)
    np.savez(empty_caches / "encoder.npz", **backbone.to_arrays())
    weights.unlink()
    with np.load(empty_caches / "encoder.npz", allow_pickle=False) as arrays:
        again = Backbone.from_arrays(dict(arrays))
    assert torch.equal(again(images).values, backbone(images).values)
    assert repr(again) == f"Backbone {name}"
    del again.weights[next(iter(again.weights))]  # type: ignore[attr-defined]
    again.__dict__.pop("_network")
    with pytest.raises(ValueError, match=f"{name} has other layers in this version of {library}: install the version"):
        again(images)


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


def test_find_cached_backbone_uses_torchvision_after_timm(empty_caches: Path) -> None:
    cache_torchvision_weights(empty_caches, "mobilenet_v3_small")
    assert find_cached_backbone() is None, "not among the preferred ones"
    cache_torchvision_weights(empty_caches, "mobilenet_v2")
    assert find_cached_backbone() == "torchvision:mobilenet_v2"
    cache_torchvision_weights(empty_caches, "efficientnet_b0")
    assert find_cached_backbone() == "torchvision:efficientnet_b0"
    cache_torchvision_weights(empty_caches, "resnet18")
    assert find_cached_backbone() == "timm:resnet18.tv_in1k"


def test_torchvision_backbone_uses_newest_cached_weights(empty_caches: Path) -> None:
    first_tensor = "features.0.0.weight"
    for seed, version in enumerate(["IMAGENET1K_V1", "IMAGENET1K_V2"]):
        file = cache_torchvision_weights(empty_caches, "mobilenet_v2", version, seed)
        loaded = Backbone.load("torchvision:mobilenet_v2").weights[first_tensor]
        assert torch.equal(loaded, torch.load(file)[first_tensor])
    other = cache_torchvision_weights(empty_caches / "other", "mobilenet_v2", seed=2)
    loaded = Backbone.load("torchvision:mobilenet_v2", other).weights[first_tensor]
    assert torch.equal(loaded, torch.load(other)[first_tensor]), "a file that is named comes first"


def test_published_densenet_is_read_as_by_torchvision(empty_caches: Path) -> None:
    file = cache_torchvision_weights(empty_caches, "densenet121")
    state = {name: value for name, value in torch.load(file).items() if not name.endswith("num_batches_tracked")}
    old_names = {re.sub(r"(denselayer\d+\.(?:norm|conv))([12])", r"\1.\2", name): state[name] for name in state}
    assert old_names.keys() != state.keys()
    torch.save(old_names, file)
    net = importlib.import_module("torchvision.models").densenet121(weights="DEFAULT")
    weights = Backbone.load("torchvision:densenet121").weights
    assert weights.keys() == {name for name in net.state_dict() if not name.startswith("classifier.")}
    assert all(torch.equal(weights[name], net.state_dict()[name]) for name in weights)


def test_published_vision_transformer_is_read_as_by_torchvision() -> None:
    need_timm()
    transformer = importlib.import_module("torchvision.models").VisionTransformer
    size = {"image_size": 8, "patch_size": 4, "num_layers": 2, "num_heads": 1, "hidden_dim": 6, "mlp_dim": 7}
    donor, expected, net = (transformer(**size, num_classes=5) for _ in range(3))
    state = {
        name.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): value
        for name, value in donor.state_dict().items()
    }
    assert state.keys() != donor.state_dict().keys()
    expected.load_state_dict(dict(state))
    load_weights(net, state, 5, "old file")
    assert all(torch.equal(net.state_dict()[name], value) for name, value in expected.state_dict().items())


def test_preferred_backbones_exist() -> None:
    need_timm()
    timm, models = importlib.import_module("timm"), importlib.import_module("torchvision.models")
    for library, _, model in (name.partition(":") for name in PREFERRED_BACKBONES):
        if library == "timm":
            assert timm.get_pretrained_cfg(model).hf_hub_id == f"timm/{model}"
        else:
            # The cache is searched for files that start with the model's name.
            assert all(one.url.rpartition("/")[2].startswith(model) for one in models.get_model_weights(model))


def test_backbone_rejects_invalid_arguments(empty_caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = write_weights(empty_caches / "other.safetensors", "test_vit")
    damaged = cache_torchvision_weights(empty_caches, "resnet34")
    damaged.write_bytes(damaged.read_bytes()[:1000])
    messages = {
        ("resnet18", None): r"named timm:NAME or torchvision:NAME, such as timm:resnet50; got 'resnet18'\.$",
        ("torchvision:", None): r"such as timm:resnet50; got 'torchvision:'\.$",
        ("timm:resnt18", None): r"timm has no classifier 'resnt18', did you mean resnet18\?$",
        ("timm:test_resnet.me", None): r"timm has no weights 'test_resnet.me'; choose from test_resnet.r160_in1k\.$",
        (TINY, "nowhere.pt"): r"no weights file at nowhere.pt: pass a .safetensors file",
        (TINY, str(other)): r"other.safetensors does not match this network: .* missing; .* unexpected\.$",
        (TINY, None): r"timm:test_resnet are not cached and cannot be downloaded \(.*--weights FILE\.$",
        ("torchvision:resnt18", None): r"torchvision has no classifier 'resnt18', did you mean resnet18\?$",
        ("torchvision:inception_v3", None): r"use a network of timm, e\.g\. timm:inception_v3\.$",
        ("torchvision:resnet18", None): r"torchvision:resnet18 are not cached .*\(network access\).*--weights FILE\.$",
        ("torchvision:resnet34", None): rf"{damaged} cannot be read as weights: pass a \.safetensors file",
        ("torchvision:resnet18", str(other)): r"other.safetensors does not match this network: .* unexpected\.$",
    }
    for (name, file), message in messages.items():
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            Backbone.load(name, file)
    damaged.unlink()
    cache_torchvision_weights(empty_caches, "mobilenet_v2")
    assert find_cached_backbone() == "torchvision:mobilenet_v2"
    libraries = {"timm": TINY, "torchvision": "torchvision:resnet18"}
    for library, found in zip(libraries, ("torchvision:mobilenet_v2", None), strict=True):
        monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.setitem(sys.modules, f"{library}.models", None)
        assert find_cached_backbone() == found
    for name in libraries.values():
        with pytest.raises(ImportError, match=r"pip install 'permll\[vision\]'"):
            Backbone.load(name)
