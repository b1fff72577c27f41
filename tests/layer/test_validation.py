"""Validation: bad input raises a one-sentence error and leaves the layer unchanged."""

import pytest
import torch

from permll import PermutationLayer
from permll.layer.autograd import RecordedLoss, mask_update
from permll.layer.top_k import TopKUpdate

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"labels": [0, 1, 3]}, ValueError, r"labels must be in 0\.\.2, but 1 position \(2\) is not"),
        ({"labels": [0, -1, 2]}, ValueError, r"labels must be in 0\.\.\d, but 1 position \(1\) is not"),
        ({"labels": []}, ValueError, r"N > 0; got int64 of shape \(0,\)"),
        ({"labels": torch.tensor([], dtype=torch.int64)}, ValueError, r"N > 0; got int64 of shape \(0,\)"),
        ({"labels": [[0, 1], [1, 2]]}, ValueError, r"got int64 of shape \(2, 2\)"),
        (
            {"labels": [0.0, 1.5]},
            TypeError,
            r"labels must be integers \(class numbers from 0\), got float64 values: convert",
        ),
        ({"labels": torch.tensor([0.0, 1.0])}, TypeError, r"got torch.float32 values: convert them"),
        (
            {"labels": ["cat", "dog"]},
            TypeError,
            r"got strings: encode them with np\.unique\(names, return_inverse=True\)\[1\]",
        ),
        ({"labels": [True, False]}, TypeError, r"got bool values"),
        ({"num_classes": 1}, ValueError, r"num_classes must be an integer >= 2, got 1"),
        ({"num_classes": 3.0}, ValueError, r">= 2, got 3\.0"),
        ({"num_classes": "3"}, ValueError, r"got '3'"),
        ({"init": 1 / 3}, ValueError, r"init must lie between 1/c = 0\.333333 and 1, both excluded; got 0\.33"),
        ({"init": 1.0}, ValueError, r"got 1\.0"),
        ({"init": NAN}, ValueError, r"got nan"),
        ({"lr": -0.1}, ValueError, r"lr must be a number >= 0, got -0\.1"),
        ({"lr": NAN}, ValueError, r"got nan"),
        (
            {"lr": 0.1, "correct_after": 0.5, "epochs": 10},
            ValueError,
            r"lr and correct_after with epochs both set the step",
        ),
        ({"lr": 0.1, "epochs": 10}, ValueError, r"pass one of them"),
        ({"correct_after": 0.5}, ValueError, r"pass epochs as well"),
        ({"correct_after": 0.0, "epochs": 10}, ValueError, r"correct_after must be positive"),
        ({"epochs": 0}, ValueError, r"epochs an integer >= 1"),
        ({"epochs": "10"}, ValueError, r"epochs='10'"),
        ({"lr": "a"}, ValueError, r"lr must be a number >= 0, got 'a'"),
        ({"epochs": 10, "on": "label"}, ValueError, r"pass lr for on='label'"),
        ({"on": "labels"}, ValueError, r"on must be one of prediction, label; got 'labels'"),
        ({"loss": "mse"}, ValueError, r"loss must be one of ce, kl, l1, l2; got 'mse'"),
        ({"ids": ["a", "b"]}, ValueError, r"3 labels but 2 ids"),
        ({"ids": ["a", "b", "a"]}, ValueError, r"'a' occurs more than once"),
        ({"ids": ["a", 1, "b"]}, TypeError, r"all strings or all integers, got int and str"),
        ({"ids": "abc"}, TypeError, r"got a single string"),
        ({"ids": [1, 2, 2**70]}, ValueError, r"must fit into 64 bits"),
    ],
)
def test_layer_constructor_rejects_bad_input(settings: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        PermutationLayer.paper(**({"labels": [0, 1, 2], "num_classes": 3} | settings))
    assert "\n" not in str(caught.value)


def logits_with(value: float, row: int = 1) -> torch.Tensor:
    logits = torch.zeros(2, 3)
    logits[row, 2] = value
    return logits


@pytest.mark.parametrize(
    ("logits", "index", "error", "message"),
    [
        (
            torch.zeros(2, 4),
            [0, 1],
            ValueError,
            r"shape \(B, 3\), one score per class of num_classes=3; got torch.float32 of shape \(2, 4\)",
        ),
        (torch.zeros(3), [0], ValueError, r"of shape \(3,\)"),
        (torch.zeros(2, 3, dtype=torch.int64), [0, 1], ValueError, r"got torch.int64"),
        (torch.zeros(2, 3), [0], ValueError, r"one position per row of logits, got 1 for 2 rows"),
        (torch.zeros(0, 3), torch.tensor([], dtype=torch.int64), ValueError, r"got 0 for 0 rows"),
        (torch.zeros(2, 3), [[0, 1]], ValueError, r"index must be one position per sample"),
        (torch.zeros(2, 3), [0, 5], IndexError, r"index 5 \(row 1 of the batch\) lies outside the 5 training samples"),
        (torch.zeros(2, 3), [-1, 0], IndexError, r"index -1 \(row 0 of the batch\)"),
        (torch.zeros(2, 3), [0.0, 1.0], TypeError, r"index must be integers"),
        (
            torch.zeros(2, 3),
            torch.tensor([True, False]),
            TypeError,
            r"index must be integers \(positions: call layer\(logits, index\)\), got torch.bool",
        ),
        (torch.zeros(2, 3), ["a", "b"], TypeError, r"the layer has no ids"),
        (torch.zeros(2, 3), None, TypeError, r"index must be positions, one per sample; got NoneType"),
        (torch.zeros(2, 3), 0, ValueError, r"got 1 for 2 rows"),
        ([[0.0, 0, 0]], [0], TypeError, r"logits must be a tensor, got list"),
        (logits_with(NAN), [4, 3], ValueError, r"1 of 2 samples are NaN or infinite, the first is sample 3 \(row 1"),
        (logits_with(INF), [4, 3], ValueError, r"NaN or infinite"),
        (logits_with(-INF, row=0), [4, 3], ValueError, r"the first is sample 4 \(row 0"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_layer_call_rejects_bad_input(logits, index, error: type[Exception], message: str, training: bool) -> None:
    layer = PermutationLayer.paper([0, 1, 2, 0, 1], num_classes=3).train(training)
    before = layer.alpha.clone()
    with pytest.raises(error, match=message) as caught:
        layer(logits, index)
    assert "\n" not in str(caught.value)
    layer.step()
    assert torch.equal(layer.alpha, before)


def test_layer_queries_reject_bad_input() -> None:
    layer = PermutationLayer.paper([0, 1, 2], num_classes=3, ids=["a", "b", "c"])
    with pytest.raises(ValueError, match="reduction must be mean, sum or none; got 'max'"):
        layer(torch.zeros(1, 3), [0], reduction="max")
    with pytest.raises(IndexError, match=r"index 3 .* lies outside the 3 training samples"):
        layer.weights([3])
    with pytest.raises(IndexError, match="index 7"):
        layer.matrix(7)
    with pytest.raises(KeyError, match="unknown id 'd'"):
        layer(torch.zeros(1, 3), ["d"])
    with pytest.raises(ValueError, match=r"logits must have shape \(3, 3\), got \(2, 3\)"):
        layer.label_quality(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="1 of 3 samples are NaN or infinite, the first is sample 1:"):
        layer.label_quality(torch.tensor([[0.0, 0, 0], [NAN, 0, 0], [0, 0, 0]]))
    with pytest.raises(ValueError, match="limit must be an integer >= 0, got -1"):
        layer.suspects(limit=-1)


def test_layer_warns_about_probable_mistakes() -> None:
    layer = PermutationLayer.paper([0, 1, 2], num_classes=3)
    probabilities = torch.randn(2, 3).softmax(-1).requires_grad_()
    with pytest.warns(UserWarning, match="the first logits look like probabilities"):
        loss = layer(probabilities, [0, 1])
    layer(probabilities, [0, 1])  # warns once
    loss.backward()
    for query in (layer.corrected_labels, layer.label_quality, layer.suspects):
        with pytest.warns(
            UserWarning, match=r"the gradients of 1 batches are not applied to α yet: call layer.step\(\) first"
        ):
            query()
    layer.step()
    layer.suspects()


def test_layer_accepts_finite_logits_whose_sum_overflows() -> None:
    layer = PermutationLayer.paper([0, 1], num_classes=2)
    assert layer(torch.full((2, 2), 3e38), [0, 1]).isfinite()


class OnAccelerator(torch.Tensor):
    """A tensor that says it is not on the CPU, where logits are checked before they are used."""

    @property
    def is_cpu(self) -> bool:
        return False


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nonfinite_loss_is_not_recorded(reduction: str) -> None:
    """On an accelerator logits are not checked, since that would synchronize it; α must stay finite."""
    losses = torch.tensor([NAN, 1.0, INF, 2.0]).as_subclass(OnAccelerator)
    masks: list[torch.Tensor | None] = []
    loss = RecordedLoss.apply(torch.zeros(4, 2, requires_grad=True), losses, torch.zeros(4, 2), masks.append, reduction)
    weight = torch.tensor([1.0, 1.0, 1.0, 0.0]) if reduction == "none" else torch.tensor(1.0)
    loss.backward(weight.as_subclass(OnAccelerator))
    (mask,) = masks
    assert mask is not None
    assert mask.tolist() == [False, True, False, reduction != "none"]


@pytest.mark.parametrize("build", [PermutationLayer, PermutationLayer.paper], ids=["default", "paper"])
@pytest.mark.parametrize("bad", [NAN, INF])
def test_nonfinite_logits_on_accelerator_leave_layer_finite(build, bad: float) -> None:
    layer, same = build([0, 1, 2], num_classes=3), build([0, 1, 2], num_classes=3)
    logits = torch.tensor([[1.0, 2.0, 0.0], [0.0, bad, 0.0]])
    loss = layer(logits.as_subclass(OnAccelerator).requires_grad_(), [0, 1], reduction="none")
    assert loss[1].isnan()
    loss.backward(torch.ones(2).as_subclass(OnAccelerator))
    layer.step()
    same(logits[:1].requires_grad_(), [0]).backward()
    same.step()
    assert all(value.isfinite().all() for value in layer.state_dict().values())
    assert torch.equal(layer.alpha, same.alpha)


def test_mask_update_zeroes_samples_outside_mask() -> None:
    gradient = torch.tensor([[1.0, -1.0], [NAN, INF], [2.0, -2.0]])
    assert mask_update(gradient, torch.tensor([True, False, True])).tolist() == [[1, -1], [0, 0], [2, -2]]
    assert mask_update(gradient, torch.tensor(False)).tolist() == [[0, 0], [0, 0], [0, 0]]
    assert torch.equal(mask_update(gradient[::2], torch.tensor(True)), gradient[::2])
    assert mask_update(gradient, None) is gradient


def test_mask_update_of_top_k_update() -> None:
    update = TopKUpdate(torch.tensor([[3, 1], [0, 2]]), torch.ones(2, 2), torch.tensor([1.0, NAN]), torch.ones(2))
    got = mask_update(update, torch.tensor([True, False]))
    assert torch.equal(got.classes, update.classes)
    assert [got.values.tolist(), got.mean.tolist(), got.variance.tolist()] == [[[1, 1], [0, 0]], [1, 0], [1, 0]]
    nothing = mask_update(update, torch.tensor(False))
    assert [nothing.values.tolist(), nothing.mean.tolist(), nothing.variance.tolist()] == [
        [[0, 0], [0, 0]],
        [0, 0],
        [0, 0],
    ]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weight_zero_is_not_recorded(reduction: str) -> None:
    grad_logits, masks = torch.randn(3, 2), []
    for weight in (0.0, 0.5):
        logits = torch.zeros(3, 2, requires_grad=True)
        loss = RecordedLoss.apply(logits, torch.ones(3), grad_logits, masks.append, reduction)
        weights = torch.tensor([weight, 2.0, 0.0]) if reduction == "none" else torch.tensor(weight)
        loss.backward(weights)
        scale = weights[:, None] if reduction == "none" else weights / (3 if reduction == "mean" else 1)
        torch.testing.assert_close(logits.grad, grad_logits * scale)
    if reduction == "none":
        assert [mask.tolist() for mask in masks] == [[False, True, False], [True, True, False]]
    else:
        assert [None if mask is None else mask.item() for mask in masks] == [False, None]


def test_layer_rejects_second_derivative() -> None:
    logits = torch.zeros(1, 3, requires_grad=True)
    loss = PermutationLayer.paper([0], num_classes=3)(logits, [0])
    with pytest.raises(RuntimeError, match="differentiated only once"):
        torch.autograd.grad(loss, logits, create_graph=True)
