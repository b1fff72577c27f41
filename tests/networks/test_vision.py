"""Networks from timm and torchvision: built for our classes, trained a step, refused in one sentence."""

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
from tests.helpers.tiny_encoders import import_torchvision

FOURTEEN: dict[str, Any] = {"num_classes": 14, "seed": 0}
COLOUR, GREY = {"input_shape": (3, 64, 64)}, {"input_shape": (1, 64, 64)}


@pytest.fixture
def torchvision() -> None:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed (pip install 'permll[vision]')")
    import_torchvision()


@pytest.fixture
def timm(torchvision: None) -> None:
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed (pip install 'permll[vision]')")


def takes_a_step(net: nn.Module, shape: tuple[int, ...]) -> None:
    assert net.training
    images, labels = torch.rand(2, *shape), torch.tensor([0, 13])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    ends = [next(net.parameters()), list(net.parameters())[-1]]  # of the stem and of the head
    before = [weights.detach().clone() for weights in ends]
    logits = net(images)
    assert logits.shape == (2, 14)
    cross_entropy(logits, labels).backward()
    optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, ends, strict=True))


@pytest.mark.usefixtures("torchvision")
def test_a_torchvision_resnet50_takes_a_step() -> None:
    takes_a_step(build_network("torchvision:resnet50", **FOURTEEN, **COLOUR), (3, 64, 64))


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("images", [COLOUR, GREY])
def test_a_timm_resnet18_takes_a_step(images: dict[str, Any]) -> None:
    takes_a_step(build_network("timm:resnet18", **FOURTEEN, **images), images["input_shape"])


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_the_seed_decides(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (build_network(name, num_classes=14, seed=seed, **COLOUR).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_weights_from_a_file_get_a_new_head(name: str, tmp_path: Path) -> None:
    donor = build_network(name, num_classes=1000, seed=1, **COLOUR).state_dict()
    save_file(donor, tmp_path / "w.safetensors")
    fresh = build_network(name, **FOURTEEN, **COLOUR).state_dict()
    loaded = build_network(name, **FOURTEEN, **COLOUR, pretrained=tmp_path / "w.safetensors").state_dict()
    for key, tensor in loaded.items():
        assert torch.equal(tensor, fresh[key] if key.startswith("fc.") else donor[key]), key


@pytest.mark.usefixtures("torchvision")
def test_published_weights_of_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = importlib.import_module("torchvision.models")
    published = models.get_model_weights("resnet18").DEFAULT.url
    donor = models.resnet18(weights=None).state_dict()  # lies where a download would have put it
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(donor, folder / published.rpartition("/")[2])
    loaded = build_network("torchvision:resnet18", **FOURTEEN, **COLOUR, pretrained=True).state_dict()
    assert loaded["fc.weight"].shape == (14, 512)
    assert all(torch.equal(loaded[key], donor[key]) for key in donor if not key.startswith("fc."))


@pytest.mark.usefixtures("timm")
def test_options_reach_the_network() -> None:
    net = build_network("timm:vit_tiny_patch16_224", **FOURTEEN, input_shape=(3, 32, 32), img_size=32, depth=2)
    assert len(net.blocks) == 2  # type: ignore[arg-type]
    net = build_network("torchvision:mobilenet_v3_small", **FOURTEEN, **COLOUR, dropout=0.7)
    assert [one.p for one in net.modules() if isinstance(one, nn.Dropout)] == [0.7]


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("timm:resnt18", {}, ValueError, r"^timm has no classifier 'resnt18', did you mean resnet18\?$"),
        ("torchvision:resnt18", {}, ValueError, r"^torchvision has no classifier 'resnt18', did you mean resnet18\?$"),
        ("torchvision:deeplabv3_resnet50", {}, ValueError, r"has no classifier 'deeplabv3_resnet50'"),
        ("torchvision:inception_v3", {}, ValueError, r"gives more than logits while it trains: take one from timm"),
        ("torchvision:resnet18", GREY, ValueError, r"takes images of 3 channels, these have 1: take one from timm\.$"),
        ("torchvision:vit_b_16", {}, ValueError, r"fails on an image of shape \(3, 64, 64\): Wrong image height"),
        ("timm:resnet18", {"drop_rat": 0.1}, TypeError, r"has no option 'drop_rat', did you mean drop_rate\? It takes"),
        ("torchvision:resnet18", {"group": 2}, TypeError, r"has no option 'group', did you mean groups\? It takes"),
        ("timm:resnet18", {"in_chans": 3}, TypeError, r"no option 'in_chans' here: say it with input_shape\.$"),
        ("torchvision:resnet18", {"weights": "DEFAULT"}, TypeError, r"'weights' here: say it with pretrained\.$"),
        ("timm:resnet18", {"features_only": True}, ValueError, r"logits of shape \(1, 14\) .* it gives list\.$"),
        (
            "timm:resnet18",
            {"drop_rate": "a"},
            ValueError,
            r"fails on an image .*could not convert string to float: 'a'",
        ),
        ("torchvision:resnet50", {"width_per_group": "a"}, TypeError, r"^unsupported operand"),
    ],
)
def test_wrong_settings(name: str, settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_network(name, **FOURTEEN, **(COLOUR | settings))


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_a_missing_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = name.partition(":")[0]
    for module in (collection, f"{collection}.models"):
        monkeypatch.setitem(sys.modules, module, None)  # how Python notes that there is no such module
    with pytest.raises(ImportError, match=rf"networks from {collection} need it .* pip install 'permll\[vision\]'"):
        build_network(name, **FOURTEEN, **COLOUR)


def test_a_torchvision_for_another_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator nms does not exist')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="torchvision was built for another torch than 2"):
        build_network("torchvision:resnet18", **FOURTEEN, **COLOUR)
