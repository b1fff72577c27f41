"""Storage formats of ``PermutationLayer`` (dtype, top_k, file) against the dense layer."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from permll import PermutationLayer
from permll.layer import equations
from permll.layer.paper import PaperPermutationLayer

N, C = 24, 12
FORMATS: dict[str, dict[str, Any]] = {
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16},
    "disk": {"file": True},
    "top_k": {"top_k": 4},
    "all of them": {"top_k": 4, "dtype": torch.bfloat16, "file": True},
}
ALL_FORMATS = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
VARIANTS = [(on, loss) for on in equations.SIDES for loss in equations.LOSSES]


@pytest.fixture
def labels() -> Tensor:
    return torch.randint(C, (N,))


def train_layer(layer: PaperPermutationLayer, steps: int = 30, seed: int = 0, repeats: bool = True) -> list[float]:
    """Update rows with logits that favor one target class per sample; batches may repeat samples."""
    random = torch.Generator().manual_seed(seed)
    target = torch.randint(C, (N,), generator=torch.Generator().manual_seed(7))
    losses = []
    for _ in range(steps):
        index = torch.randint(N, (8,), generator=random) if repeats else torch.randperm(N, generator=random)[:8]
        logits = torch.randn(8, C, generator=random).scatter_add_(1, target[index, None], torch.full((8, 1), 4.0))
        loss = layer(logits.requires_grad_(), index)
        loss.backward()
        layer.step()
        losses.append(loss.item())
    return losses


@ALL_FORMATS
@pytest.mark.parametrize(("on", "loss"), VARIANTS)
def test_initial_layer_matches_dense_layer(labels: Tensor, fmt: dict[str, Any], on: Any, loss: Any) -> None:
    dense, layer = (
        PermutationLayer.paper(labels, C, init=0.4, on=on, loss=loss, lr=0.1, **kwargs) for kwargs in ({}, fmt)
    )
    exact = {"rtol": 1e-5, "atol": 1e-5} if fmt.get("dtype") != torch.bfloat16 else {"rtol": 1e-2, "atol": 1e-2}
    assert_close(layer.alpha, dense.alpha.to(layer.alpha), **exact)
    grads = []
    logits = torch.randn(8, C)
    for one in (dense, layer):
        z = logits.clone().requires_grad_()
        one(z, range(8)).backward()
        grads.append(z.grad)
    assert_close(*grads, **exact)
    assert_close(layer(logits, range(8)), dense(logits, range(8)).to(layer.alpha), **exact)


@pytest.mark.parametrize("top_k", [C, C + 1])
@pytest.mark.parametrize(("on", "loss"), VARIANTS)
def test_top_k_of_all_classes_matches_dense_layer(labels: Tensor, top_k: int, on: Any, loss: Any) -> None:
    settings: dict[str, Any] = {"init": 0.4, "on": on, "loss": loss, "lr": 0.3, "dtype": torch.float64}
    dense, layer = (
        PermutationLayer.paper(labels, C, **settings),
        PermutationLayer.paper(labels, C, top_k=top_k, **settings),
    )
    assert train_layer(layer) == pytest.approx(train_layer(dense), rel=1e-9)
    assert_close(layer.alpha, dense.alpha, rtol=1e-9, atol=1e-9)
    assert torch.equal(layer.corrected_labels(), dense.corrected_labels())


def test_layer_on_disk_equals_dense_layer(labels: Tensor, tmp_path: Path) -> None:
    dense, layer = PermutationLayer.paper(labels, C), PermutationLayer.paper(labels, C, file=tmp_path / "alpha")
    assert train_layer(layer) == train_layer(dense)
    assert torch.equal(layer.alpha, dense.alpha)
    del layer
    reopened = PermutationLayer.paper(labels, C, file=tmp_path / "alpha")
    assert torch.equal(reopened.alpha, dense.alpha)
    with pytest.raises(ValueError, match="alpha was written for another table"):
        PermutationLayer.paper(labels.roll(1), C, file=tmp_path / "alpha")


@ALL_FORMATS
def test_trained_layer_agrees_with_dense_layer(labels: Tensor, fmt: dict[str, Any]) -> None:
    dense, layer = (PermutationLayer.paper(labels, C, init=0.4, lr=0.05, **kwargs) for kwargs in ({}, fmt))
    losses = train_layer(dense, 300), train_layer(layer, 300)
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert not torch.equal(dense.corrected_labels(), labels)
    assert torch.equal(layer.corrected_labels(), dense.corrected_labels())
    assert_close(layer.label_quality(), dense.label_quality().to(layer.alpha), rtol=0.1, atol=0.02)
    logits = torch.randn(N, C)
    assert_close(layer.label_quality(logits), dense.label_quality(logits).to(layer.alpha), rtol=0.2, atol=0.05)
    assert_close(layer.weights([3]), layer.weights()[[3]])
    assert_close(layer.matrix(3).sum(0), torch.ones(C, dtype=layer.alpha.dtype))
    assert layer.suspects(limit=3).shape == (3,)


@ALL_FORMATS
def test_rows_outside_batch_do_not_change(labels: Tensor, fmt: dict[str, Any]) -> None:
    layer = PermutationLayer.paper(labels, C, lr=0.5, **fmt)
    before = layer.alpha.clone()
    layer(torch.randn(3, C, requires_grad=True), [3, 7, 3]).backward()
    assert torch.equal(layer.alpha, before)  # backward records, step updates
    layer.step()
    assert (layer.alpha != before).any(1).nonzero()[:, 0].tolist() == [3, 7]


def test_repeated_sample_is_updated_as_in_dense_layer(labels: Tensor) -> None:
    dense, layer = PermutationLayer.paper(labels, C, lr=0.1), PermutationLayer.paper(labels, C, lr=0.1, top_k=4)
    logits = torch.zeros(4, C)
    logits[:, [1, 5]] = 6.0  # at most top_k entries differ
    for one in (dense, layer):
        one(logits.clone().requires_grad_(), [2, 2, 9, 2]).backward()
        one.step()
    assert_close(layer.alpha, dense.alpha)


def test_sample_with_zero_weight_does_not_change(labels: Tensor) -> None:
    layer = PermutationLayer.paper(labels, C, lr=0.5, top_k=4)
    before = layer.alpha
    keep = torch.tensor([1.0, 0.0, 2.0])
    (layer(torch.randn(3, C, requires_grad=True), [3, 7, 9], reduction="none") * keep).sum().backward()
    layer.step()
    assert (layer.alpha != before).any(1).nonzero()[:, 0].tolist() == [3, 9]
    (0.0 * layer(torch.randn(1, C, requires_grad=True), [1])).backward()
    layer.step()
    assert torch.equal(layer.alpha[1], before[1])


@ALL_FORMATS
def test_state_round_trip_resumes_exactly(labels: Tensor, fmt: dict[str, Any], tmp_path: Path) -> None:
    layer = PermutationLayer.paper(labels, C, **fmt)
    train_layer(layer)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = PermutationLayer.paper(labels, C, **fmt)
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    copied = copy.deepcopy(layer)
    assert torch.equal(other.alpha, layer.alpha)
    for one in (layer, other, copied):
        train_layer(one, seed=1)
    for key, value in layer.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key
    assert torch.equal(copied.alpha, layer.alpha)


@ALL_FORMATS
def test_state_matches_rows_by_id(fmt: dict[str, Any]) -> None:
    """Reordered, one row removed, one row added; within a format, and from and to the dense format."""
    names = list("ebcda")
    for one, two in ((fmt, fmt), ({}, fmt), (fmt, {})):
        saved = PermutationLayer.paper([2, 0, 1, 1, 2], 3, ids=names, **one)
        saved.table.write(torch.arange(5), torch.arange(15.0).view(5, 3) / 2)
        here = PermutationLayer.paper([1, 2, 0, 1], 3, ids=["d", "e", "z", "c"], **two)
        start = here.alpha.clone()
        here.load_state_dict(saved.state_dict())
        assert torch.equal(here.alpha[[0, 1, 3]], saved.alpha[[3, 0, 2]].to(here.alpha))
        assert torch.equal(here.alpha[2], start[2])


def test_unfitting_state_changes_nothing() -> None:
    layer = PermutationLayer.paper([0, 1, 2], 5, top_k=2, init=0.5)
    before = layer.alpha
    with pytest.raises(RuntimeError, match=r"the state has shape \(3, 6\), but this layer has 5 classes"):
        layer.load_state_dict(PermutationLayer.paper([0, 1, 2], 6, top_k=2, init=0.5).state_dict())
    with pytest.raises(RuntimeError, match="other labels: 1 differ"):
        layer.load_state_dict(PermutationLayer.paper([0, 1, 3], 5, top_k=2, init=0.5).state_dict())
    half = layer.state_dict()
    del half["alpha_tail"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "alpha"'):
        layer.load_state_dict(half)
    assert torch.equal(layer.alpha, before)


def test_state_dict_keys() -> None:
    keys = {"alpha_classes", "alpha_kept", "alpha_tail", "alpha_width", "labels", "settings"}
    assert set(PermutationLayer.paper([0, 1], 3, top_k=2).state_dict()) == keys
    assert set(PermutationLayer.paper([0, 1], 3, dtype=torch.bfloat16).state_dict()) == {
        "alpha",
        "alpha_writes",
        "labels",
        "settings",
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k must be an integer >= 1, got 0"),
        (
            {"dtype": torch.float16},
            "dtype must be one of torch.float32, torch.float64, torch.bfloat16; got torch.float16",
        ),
    ],
)
def test_layer_rejects_bad_storage_arguments(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PermutationLayer.paper([0, 1], 3, **settings)
