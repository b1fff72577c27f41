"""Registry of networks: options, error messages, and weights from files."""

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
from permll.networks.weights import find_new_head

VALID: dict[str, Any] = {"input_shape": (3, 16, 16), "num_classes": 5, "seed": 0}


def test_registry_does_not_import_torch() -> None:
    assert permll.networks.__all__ == ["NETWORKS", "NetworkInfo", "build_network"]
    code = "import permll.networks, sys; list(permll.networks.NETWORKS); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "False"


def test_registry_entries_are_frozen_and_keyed_by_name() -> None:
    assert list(NETWORKS) == [info.name for info in NETWORKS.values()]
    with pytest.raises(AttributeError, match="cannot assign to field 'name'"):
        NETWORKS["mlp"].name = "other"  # type: ignore[misc]


def test_build_network_passes_options() -> None:
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
            r"unknown network 'resnt18', did you mean resnet18\? Choose from mlp, cnn, .*timm:NAME",
        ),
        ("zzz", {}, ValueError, r"unknown network 'zzz'\. Choose from mlp, cnn,"),
        ("hub:resnet18", {}, ValueError, r"unknown network 'hub:resnet18'"),
        ("resnet8", {"input_shape": (20,)}, ValueError, r"resnet8 takes images .*vectors of 20 features: use mlp\."),
        ("timm:resnet18", {"input_shape": (20,)}, ValueError, r"timm:resnet18 takes images of shape \(C, H, W\)"),
        ("mlp", {"input_shape": (3, 16)}, ValueError, r"\(F,\) or \(C, H, W\) with integers >= 1; got \(3, 16\)"),
        ("mlp", {"input_shape": ()}, ValueError, r"got \(\)"),
        ("mlp", {"input_shape": (0,)}, ValueError, r"got \(0,\)"),
        ("mlp", {"input_shape": 20}, ValueError, r"got 20"),
        ("mlp", {"num_classes": 1}, ValueError, r"num_classes must be an integer >= 2, got 1"),
        ("mlp", {"num_classes": 2.0}, ValueError, r">= 2, got 2\.0"),
        ("mlp", {"seed": -1}, ValueError, r"seed must be an integer >= 0, got -1"),
        ("mlp", {"width": (3,)}, TypeError, r"mlp has no option 'width', did you mean widths\? It takes widths, batch"),
        ("resnet8", {"widths": (3,)}, TypeError, r"resnet8 has no option 'widths'\. It takes none"),
        ("mlp", {"widths": (0,)}, ValueError, r"widths must be a list of integers >= 1; got \(0,\)"),
        ("mlp", {"widths": 256}, ValueError, r"got 256"),
        ("mlp", {"widths": "256"}, ValueError, r"got '256'"),
        ("cnn", {"widths": ()}, ValueError, r"integers >= 1, at least 1 of them; got \(\)"),
        ("mlp", {"dropout": 1.0}, ValueError, r"dropout must lie in \[0, 1\), got 1\.0"),
        ("mlp", {"pretrained": True}, ValueError, r"mlp has no published weights: set pretrained to a file"),
        ("mlp", {"pretrained": 3}, TypeError, r"pretrained must be True, False or a path, got 3"),
        ("mlp", {"pretrained": "no.pt"}, FileNotFoundError, r"no weights file at no\.pt: pass a \.safetensors"),
    ],
)
def test_build_network_rejects_invalid_arguments(
    name: str, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = torch.get_rng_state()
    with pytest.raises(error, match=message) as caught:
        build_network(name, **(VALID | settings))
    assert "\n" not in str(caught.value)
    assert torch.equal(torch.get_rng_state(), before)


def save_weights(path: Path, state: dict[str, Any]) -> Path:
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("file", ["w.safetensors", "w.pt"])
def test_weights_file_replaces_body_only(tmp_path: Path, file: str) -> None:
    donor = build_network("resnet8", **VALID | {"num_classes": 9, "seed": 1})
    donor(torch.rand(4, 3, 16, 16))  # running statistics are loaded as well
    path = save_weights(tmp_path / file, donor.state_dict())
    fresh = build_network("resnet8", **VALID).state_dict()
    loaded = build_network("resnet8", **VALID, pretrained=path).state_dict()
    for name, tensor in loaded.items():
        assert torch.equal(tensor, fresh[name] if name.startswith("head.") else donor.state_dict()[name]), name


def test_weights_file_replaces_matching_head(tmp_path: Path) -> None:
    donor = build_network("mlp", **VALID | {"seed": 1})
    loaded = build_network("mlp", **VALID, pretrained=str(save_weights(tmp_path / "w.pt", donor.state_dict())))
    images = torch.rand(2, 3, 16, 16)
    assert torch.equal(loaded.eval()(images), donor.eval()(images))


def test_weights_are_found_in_checkpoints(tmp_path: Path) -> None:
    donor = build_network("resnet8", **VALID | {"seed": 1}).eval()
    state = {name: tensor for name, tensor in donor.state_dict().items() if "num_batches" not in name}
    path = save_weights(
        tmp_path / "w.pth", {"epoch": 3, "state_dict": {f"module.{name}": x for name, x in state.items()}}
    )
    images = torch.rand(2, 3, 16, 16)
    assert torch.equal(build_network("resnet8", **VALID, pretrained=path).eval()(images), donor(images))


def test_weights_file_may_lack_head(tmp_path: Path) -> None:
    donor = build_network("resnet8", **VALID | {"seed": 1}).state_dict()
    body = {name: tensor for name, tensor in donor.items() if not name.startswith("head.")}
    loaded = build_network("resnet8", **VALID, pretrained=save_weights(tmp_path / "w.safetensors", body)).state_dict()
    assert torch.equal(loaded["stem.0.weight"], donor["stem.0.weight"])
    assert torch.equal(loaded["head.weight"], build_network("resnet8", **VALID).state_dict()["head.weight"])


def test_find_new_head_ignores_other_layers_of_class_size() -> None:
    expected = {"a.weight": (5, 3), "a.bias": (5,), "head.weight": (5, 5), "head.bias": (5,)}
    assert find_new_head(expected, {"a.weight": (5, 3), "a.bias": (5,)}, 5) == {"head.weight", "head.bias"}
    assert find_new_head(expected, {"head.weight": (5, 5), "head.bias": (5,)}, 5) == set()
    assert find_new_head(expected, {"a.weight": (5, 3), "head.bias": (5,)}, 5) == set()
    assert find_new_head(expected, expected | {"a.weight": (7, 4)}, 5) == set()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"stem.0.weight": torch.zeros(8, 3, 3, 3)}, r"1 tensor \(stem\.0\.weight\) with another shape\.$"),
        ({"stem.1.bias": None}, r"does not match this network: 1 tensor \(stem\.1\.bias\) missing\.$"),
        ({"projector.weight": torch.zeros(3)}, r"1 tensor \(projector\.weight\) unexpected\.$"),
        ({"head.weight": torch.zeros(9, 63)}, r"1 tensor \(head\.weight\) with another shape\.$"),
    ],
)
def test_weights_of_other_networks_are_rejected(tmp_path: Path, state: dict[str, Any], message: str) -> None:
    changed = build_network("resnet8", **VALID).state_dict() | state
    path = save_weights(tmp_path / "w.pt", {name: tensor for name, tensor in changed.items() if tensor is not None})
    with pytest.raises(ValueError, match=message):
        build_network("resnet8", **VALID, pretrained=path)


class CustomObject:
    """Object in a checkpoint, which would run code when it is unpickled."""


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "w.pt",
            CustomObject(),
            r"w\.pt cannot be read as weights: pass a \.safetensors file, or a file that torch\.save",
        ),
        ("w.pt", b"no weights", r"cannot be read as weights"),
        ("w.safetensors", b"no weights", r"cannot be read as weights"),
        ("w.pt", [torch.zeros(3)], r"w\.pt contains no state dict"),
        ("w.pt", {"epoch": 3}, r"w\.pt contains no state dict"),
        ("w.pt", {}, r"w\.pt contains no state dict"),
    ],
)
def test_files_without_weights_are_rejected(tmp_path: Path, file: str, content: Any, message: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / file).write_bytes(content)
    else:
        torch.save(content, tmp_path / file)
    with pytest.raises(ValueError, match=message) as caught:
        build_network("mlp", **VALID, pretrained=tmp_path / file)
    assert "\n" not in str(caught.value)
