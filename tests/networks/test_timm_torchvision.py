"""Networks of timm and torchvision: training steps, weights, options and error messages."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import cross_entropy

from permll.networks import build_network
from tests.helpers.tiny_encoders import import_torchvision, need_timm

CLASSES: dict[str, Any] = {"num_classes": 14, "seed": 0}
COLOR, GRAY = {"input_shape": (3, 64, 64)}, {"input_shape": (1, 64, 64)}


@pytest.fixture
def torchvision() -> None:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed (pip install 'permll[vision]')")
    import_torchvision()


@pytest.fixture
def timm() -> None:
    need_timm()


def check_training_step(net: nn.Module, shape: tuple[int, ...]) -> None:
    """Take a step, which must change the stem and the head."""
    assert net.training
    images, labels = torch.rand(2, *shape), torch.tensor([0, 13])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    stem_and_head = [next(net.parameters()), list(net.parameters())[-1]]
    before = [weights.detach().clone() for weights in stem_and_head]
    logits = net(images)
    assert logits.shape == (2, 14)
    cross_entropy(logits, labels).backward()
    optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, stem_and_head, strict=True))


@pytest.mark.usefixtures("torchvision")
def test_torchvision_network_trains() -> None:
    check_training_step(build_network("torchvision:resnet50", **CLASSES, **COLOR), (3, 64, 64))


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("images", [COLOR, GRAY])
def test_timm_network_trains(images: dict[str, Any]) -> None:
    check_training_step(build_network("timm:resnet18", **CLASSES, **images), images["input_shape"])


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_vision_network_weights_depend_on_seed_only(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (build_network(name, num_classes=14, seed=seed, **COLOR).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_vision_network_loads_weights_with_new_head(name: str, tmp_path: Path) -> None:
    donor = build_network(name, num_classes=1000, seed=1, **COLOR).state_dict()
    save_file(donor, tmp_path / "w.safetensors")
    fresh = build_network(name, **CLASSES, **COLOR).state_dict()
    loaded = build_network(name, **CLASSES, **COLOR, pretrained=tmp_path / "w.safetensors").state_dict()
    for key, tensor in loaded.items():
        assert torch.equal(tensor, fresh[key] if key.startswith("fc.") else donor[key]), key


@pytest.mark.usefixtures("torchvision")
def test_torchvision_network_loads_published_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = importlib.import_module("torchvision.models")
    published = models.get_model_weights("resnet18").DEFAULT.url
    donor = models.resnet18(weights=None).state_dict()  # in the place of the download
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(donor, folder / published.rpartition("/")[2])
    loaded = build_network("torchvision:resnet18", **CLASSES, **COLOR, pretrained=True).state_dict()
    assert loaded["fc.weight"].shape == (14, 512)
    assert all(torch.equal(loaded[key], donor[key]) for key in donor if not key.startswith("fc."))


@pytest.mark.usefixtures("timm")
def test_vision_network_passes_options() -> None:
    net = build_network("timm:vit_tiny_patch16_224", **CLASSES, input_shape=(3, 32, 32), img_size=32, depth=2)
    assert len(net.blocks) == 2  # type: ignore[arg-type]
    net = build_network("torchvision:mobilenet_v3_small", **CLASSES, **COLOR, dropout=0.7)
    assert [one.p for one in net.modules() if isinstance(one, nn.Dropout)] == [0.7]


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("timm:resnt18", {}, ValueError, r"^timm has no classifier 'resnt18', did you mean resnet18\?$"),
        ("torchvision:resnt18", {}, ValueError, r"^torchvision has no classifier 'resnt18', did you mean resnet18\?$"),
        ("torchvision:deeplabv3_resnet50", {}, ValueError, r"has no classifier 'deeplabv3_resnet50'"),
        ("torchvision:inception_v3", {}, ValueError, r"returns more than logits in training: use a network of timm"),
        ("torchvision:resnet18", GRAY, ValueError, r"takes images with 3 channels, not 1: use a network of timm\.$"),
        ("torchvision:vit_b_16", {}, ValueError, r"fails on an image of shape \(3, 64, 64\): Wrong image height"),
        ("timm:resnet18", {"drop_rat": 0.1}, TypeError, r"has no option 'drop_rat', did you mean drop_rate\? It takes"),
        ("torchvision:resnet18", {"group": 2}, TypeError, r"has no option 'group', did you mean groups\? It takes"),
        ("timm:resnet18", {"in_chans": 3}, TypeError, r"the option 'in_chans' here: use input_shape\.$"),
        ("torchvision:resnet18", {"weights": "DEFAULT"}, TypeError, r"'weights' here: use pretrained\.$"),
        ("timm:resnet18", {"features_only": True}, ValueError, r"logits of shape \(1, 14\) .* it returns list\.$"),
        (
            "timm:resnet18",
            {"drop_rate": "a"},
            ValueError,
            r"fails on an image .*could not convert string to float: 'a'",
        ),
        ("torchvision:resnet50", {"width_per_group": "a"}, TypeError, r"^unsupported operand"),
    ],
)
def test_vision_network_rejects_invalid_arguments(
    name: str, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_network(name, **CLASSES, **(COLOR | settings))


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_vision_network_names_missing_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = name.partition(":")[0]
    for module in (library, f"{library}.models"):
        monkeypatch.setitem(sys.modules, module, None)  # makes the import fail
    with pytest.raises(ImportError, match=rf"networks of {library} need {library}: pip install 'permll\[vision\]'"):
        build_network(name, **CLASSES, **COLOR)


def test_vision_network_names_incompatible_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator nms does not exist')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="torchvision was built for another torch than 2"):
        build_network("torchvision:resnet18", **CLASSES, **COLOR)
