"""Names, shapes, options and files that are wrong get one sentence; weights from files begin where others ended."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import permll.networks
from permll.networks import NETWORKS, build_network
from permll.networks.weights import new_head

RIGHT: dict[str, Any] = {"input_shape": (3, 16, 16), "num_classes": 5, "seed": 0}


def test_the_public_names_are_lazy_and_listing_needs_no_torch() -> None:
    assert permll.networks.__all__ == ["NETWORKS", "NetworkInfo", "build_network"]
    code = "import permll.networks, sys; list(permll.networks.NETWORKS); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert shown.stdout.strip() == "False"


def test_records_are_frozen_and_keyed_by_their_names() -> None:
    assert list(NETWORKS) == [info.name for info in NETWORKS.values()]
    with pytest.raises(AttributeError, match="cannot assign to field 'name'"):
        NETWORKS["mlp"].name = "other"  # type: ignore[misc]


def test_vectors_and_options() -> None:
    net = build_network("mlp", input_shape=(20,), num_classes=4, seed=0, widths=[8], dropout=0.1)
    assert net(torch.rand(3, 20)).shape == (3, 4)
    assert [one.p for one in net.modules() if isinstance(one, nn.Dropout)] == [0.1]


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        (
            "resnt18",
            {},
            ValueError,
            r"'resnt18' is no network, did you mean resnet18\? There are mlp, cnn, .*timm:NAME",
        ),
        ("zzz", {}, ValueError, r"'zzz' is no network\. There are mlp, cnn,"),
        ("hub:resnet18", {}, ValueError, r"'hub:resnet18' is no network"),
        ("resnet8", {"input_shape": (20,)}, ValueError, r"resnet8 takes images .*vectors of 20 numbers: take mlp\."),
        ("timm:resnet18", {"input_shape": (20,)}, ValueError, r"timm:resnet18 takes images of shape \(C, H, W\)"),
        ("mlp", {"input_shape": (3, 16)}, ValueError, r"\(F,\) or \(C, H, W\), whole numbers from 1; got \(3, 16\)"),
        ("mlp", {"input_shape": ()}, ValueError, r"got \(\)"),
        ("mlp", {"input_shape": (0,)}, ValueError, r"got \(0,\)"),
        ("mlp", {"input_shape": 20}, ValueError, r"got 20"),
        ("mlp", {"num_classes": 1}, ValueError, r"num_classes must be a whole number, at least 2, got 1"),
        ("mlp", {"num_classes": 2.0}, ValueError, r"at least 2, got 2\.0"),
        ("mlp", {"seed": -1}, ValueError, r"seed must be a whole number, at least 0, got -1"),
        ("mlp", {"width": (3,)}, TypeError, r"mlp has no option 'width', did you mean widths\? It takes widths, batch"),
        ("resnet8", {"widths": (3,)}, TypeError, r"resnet8 has no option 'widths'\. It takes none"),
        ("mlp", {"widths": (0,)}, ValueError, r"widths must be a list of whole numbers from 1; got \(0,\)"),
        ("mlp", {"widths": 256}, ValueError, r"got 256"),
        ("mlp", {"widths": "256"}, ValueError, r"got '256'"),
        ("cnn", {"widths": ()}, ValueError, r"whole numbers from 1, at least 1 of them; got \(\)"),
        ("mlp", {"dropout": 1.0}, ValueError, r"dropout must lie in \[0, 1\), got 1\.0"),
        ("mlp", {"pretrained": True}, ValueError, r"no published weights for mlp: give pretrained a file"),
        ("mlp", {"pretrained": 3}, TypeError, r"pretrained must be True, False or a path, got 3"),
        ("mlp", {"pretrained": "no.pt"}, FileNotFoundError, r"there are no weights at no\.pt: give a \.safetensors"),
    ],
)
def test_wrong_settings(name: str, settings: dict[str, Any], error: type[Exception], message: str) -> None:
    before = torch.get_rng_state()
    with pytest.raises(error, match=message) as caught:
        build_network(name, **(RIGHT | settings))
    assert "\n" not in str(caught.value)
    assert torch.equal(torch.get_rng_state(), before)


def saved(path: Path, state: dict[str, Any]) -> Path:
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("file", ["w.safetensors", "w.pt"])
def test_the_body_comes_from_the_file_and_the_head_from_the_seed(tmp_path: Path, file: str) -> None:
    donor = build_network("resnet8", **RIGHT | {"num_classes": 9, "seed": 1})
    donor(torch.rand(4, 3, 16, 16))  # running statistics are loaded as well
    path = saved(tmp_path / file, donor.state_dict())
    fresh = build_network("resnet8", **RIGHT).state_dict()
    loaded = build_network("resnet8", **RIGHT, pretrained=path).state_dict()
    for name, tensor in loaded.items():
        assert torch.equal(tensor, fresh[name] if name.startswith("head.") else donor.state_dict()[name]), name


def test_a_head_that_fits_comes_from_the_file_too(tmp_path: Path) -> None:
    donor = build_network("mlp", **RIGHT | {"seed": 1})
    loaded = build_network("mlp", **RIGHT, pretrained=str(saved(tmp_path / "w.pt", donor.state_dict())))
    images = torch.rand(2, 3, 16, 16)
    assert torch.equal(loaded.eval()(images), donor.eval()(images))


def test_checkpoints_parallel_names_and_old_files(tmp_path: Path) -> None:
    donor = build_network("resnet8", **RIGHT | {"seed": 1}).eval()
    state = {name: tensor for name, tensor in donor.state_dict().items() if "num_batches" not in name}
    path = saved(tmp_path / "w.pth", {"epoch": 3, "state_dict": {f"module.{name}": x for name, x in state.items()}})
    images = torch.rand(2, 3, 16, 16)
    assert torch.equal(build_network("resnet8", **RIGHT, pretrained=path).eval()(images), donor(images))


def test_a_body_without_a_head(tmp_path: Path) -> None:
    donor = build_network("resnet8", **RIGHT | {"seed": 1}).state_dict()
    body = {name: tensor for name, tensor in donor.items() if not name.startswith("head.")}
    loaded = build_network("resnet8", **RIGHT, pretrained=saved(tmp_path / "w.safetensors", body)).state_dict()
    assert torch.equal(loaded["stem.0.weight"], donor["stem.0.weight"])
    assert torch.equal(loaded["head.weight"], build_network("resnet8", **RIGHT).state_dict()["head.weight"])


def test_rows_that_happen_to_be_as_many_as_classes_are_no_head() -> None:
    own = {"a.weight": (5, 3), "a.bias": (5,), "head.weight": (5, 5), "head.bias": (5,)}
    assert new_head(own, {"a.weight": (5, 3), "a.bias": (5,)}, 5) == {"head.weight", "head.bias"}
    assert new_head(own, {"head.weight": (5, 5), "head.bias": (5,)}, 5) == set()
    assert new_head(own, {"a.weight": (5, 3), "head.bias": (5,)}, 5) == set()
    assert new_head(own, own | {"a.weight": (7, 4)}, 5) == set()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"stem.0.weight": torch.zeros(8, 3, 3, 3)}, r"1 tensor \(stem\.0\.weight\) of another shape\.$"),
        ({"stem.1.bias": None}, r"does not fit this network: 1 tensor \(stem\.1\.bias\) missing\.$"),
        ({"projector.weight": torch.zeros(3)}, r"1 tensor \(projector\.weight\) unknown to it\.$"),
        ({"head.weight": torch.zeros(9, 63)}, r"1 tensor \(head\.weight\) of another shape\.$"),
    ],
)
def test_files_of_other_networks_change_nothing(tmp_path: Path, state: dict[str, Any], message: str) -> None:
    whole = build_network("resnet8", **RIGHT).state_dict() | state
    path = saved(tmp_path / "w.pt", {name: tensor for name, tensor in whole.items() if tensor is not None})
    with pytest.raises(ValueError, match=message):
        build_network("resnet8", **RIGHT, pretrained=path)


class NotTensors:
    """What a checkpoint must not bring along: an object of a class, whose code would run."""


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("w.pt", NotTensors(), r"w\.pt cannot be read as weights: give a \.safetensors file, or what torch\.save"),
        ("w.pt", b"no weights", r"cannot be read as weights"),
        ("w.safetensors", b"no weights", r"cannot be read as weights"),
        ("w.pt", [torch.zeros(3)], r"w\.pt holds no state dict"),
        ("w.pt", {"epoch": 3}, r"w\.pt holds no state dict"),
        ("w.pt", {}, r"w\.pt holds no state dict"),
    ],
)
def test_files_that_hold_no_weights(tmp_path: Path, file: str, content: Any, message: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / file).write_bytes(content)
    else:
        torch.save(content, tmp_path / file)
    with pytest.raises(ValueError, match=message) as caught:
        build_network("mlp", **RIGHT, pretrained=tmp_path / file)
    assert "\n" not in str(caught.value)
