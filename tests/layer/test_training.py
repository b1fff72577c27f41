"""The layer in a training loop: when α is updated, and by how much."""

import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from permll import PermutationLayer
from permll.layer import equations
from permll.layer.paper import PaperPermutationLayer
from permll.layer.reference import reference_loss

N, C, D = 24, 4, 6
VARIANTS = [(on, loss) for on in equations.SIDES for loss in equations.LOSSES]


@pytest.fixture
def x() -> Tensor:
    return torch.randn(N, D)


@pytest.fixture
def labels() -> Tensor:
    return torch.randint(C, (N,))


@pytest.fixture
def layer(labels: Tensor) -> PaperPermutationLayer:
    return PermutationLayer.paper(labels, num_classes=C, init=0.4, lr=0.3)


def tiny_net(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, C)).to(dtype)


def row_gradient(layer: PaperPermutationLayer, logits: Tensor, index: Tensor) -> Tensor:
    """Gradient of losses sample's loss in its row, by autograd through the definition."""
    alpha = layer.alpha[index].clone().requires_grad_()
    loss = reference_loss(alpha, logits.detach(), layer.labels[index], layer.on, layer.loss)
    return torch.autograd.grad(loss.sum(), alpha)[0]


@pytest.mark.parametrize(("on", "loss"), VARIANTS)
def test_training_matches_plain_implementation(x: Tensor, labels: Tensor, on: str, loss: str) -> None:
    """α as a dense parameter, two SGD optimizers, the loss averaged over the batch, η = lr * B."""
    batch, lr = 8, 0.05
    nets = tiny_net(torch.float64), tiny_net(torch.float64)
    x = x.double()
    layer = PermutationLayer.paper(labels, num_classes=C, init=0.4, lr=lr, on=on, loss=loss).double()
    alpha = nn.Parameter(equations.initial_alpha(labels, C, 0.4, torch.float64))
    ours = torch.optim.SGD(nets[0].parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    theirs = torch.optim.SGD(nets[1].parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    theirs_alpha = torch.optim.SGD([alpha], lr=lr * batch)
    for _ in range(100):
        index = torch.randperm(N)[:batch]

        ours.zero_grad()
        our_loss = layer(nets[0](x[index]), index)
        our_loss.backward()
        ours.step()
        layer.step()

        theirs.zero_grad()
        theirs_alpha.zero_grad()
        their_loss = reference_loss(alpha[index], nets[1](x[index]), labels[index], on, loss).mean()
        their_loss.backward()
        theirs.step()
        theirs_alpha.step()
        assert_close(our_loss, their_loss, rtol=1e-6, atol=1e-6)

    assert_close(layer.alpha, alpha.data, rtol=1e-6, atol=1e-6)
    for actual, expected in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert_close(actual, expected, rtol=1e-6, atol=1e-6)
    assert (layer.alpha - equations.initial_alpha(labels, C, 0.4, torch.float64)).abs().max() > 0.05  # α has changed


def test_step_updates_batch_rows_only(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, index, before = tiny_net(), torch.tensor([3, 7, 20]), layer.alpha.clone()
    logits = net(x[index])
    expected = before.index_add(0, index, row_gradient(layer, logits, index), alpha=-layer.lr)
    layer(logits, index).backward()
    assert torch.equal(layer.alpha, before)  # backward records, step updates
    layer.step()
    assert_close(layer.alpha, expected)
    outside = torch.ones(N, dtype=torch.bool).index_fill(0, index, False)
    assert torch.equal(layer.alpha[outside], before[outside])
    layer.step()
    assert_close(layer.alpha, expected)  # no gradient is left


def test_network_gradient_is_that_of_batch_mean(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, index = tiny_net(), torch.arange(10)
    layer(net(x[index]), index).backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    reference_loss(layer.alpha[index], net(x[index]), layer.labels[index], "prediction", "ce").mean().backward()
    for actual, expected in zip(got, net.parameters(), strict=True):
        assert_close(actual, expected.grad)


@pytest.mark.parametrize("scale", [1.0, 2.0**16, 1e-3])
def test_loss_scale_does_not_change_step(labels: Tensor, x: Tensor, scale: float) -> None:
    """As with a gradient scaler, or a division by the number of accumulated batches."""
    net, index = tiny_net(), torch.arange(8)
    plain, scaled = (PermutationLayer.paper(labels, num_classes=C, lr=0.3) for _ in range(2))
    plain(net(x[index]), index).backward()
    plain.step()
    (scaled(net(x[index]), index) * scale).backward()
    scaled.step()
    assert torch.equal(plain.alpha, scaled.alpha)


def test_skipped_grad_scaler_step_keeps_alpha_finite(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, index = tiny_net(), torch.arange(8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1e38)  # overflows: the optimizer's step is skipped
    before, start = net[0].weight.clone(), layer.alpha.clone()
    scaler.scale(layer(net(x[index]) * 1e4, index)).backward()
    scaler.step(optimizer)
    scaler.update()
    layer.step()
    assert torch.equal(net[0].weight, before)
    assert layer.alpha.isfinite().all()
    assert not torch.equal(layer.alpha, start)  # the row gradient was never scaled


def test_accumulated_batches_match_one_large_batch(labels: Tensor, x: Tensor) -> None:
    net = tiny_net()
    large, small = (PermutationLayer.paper(labels, num_classes=C, lr=0.3) for _ in range(2))
    large(net(x), torch.arange(N)).backward()
    large.step()
    net.zero_grad()
    for index in torch.arange(N).split(7):
        (small(net(x[index]), index) / 4).backward()
    small.step()
    assert_close(large.alpha, small.alpha)


def test_repeated_index_is_updated_twice(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, before = tiny_net(), layer.alpha.clone()
    index = torch.tensor([5, 5, 9])
    logits = net(x[index])
    step = -layer.lr * row_gradient(layer, logits, index)
    layer(logits, index).backward()
    layer.step()
    assert_close(layer.alpha[5], before[5] + step[0] + step[1])
    assert_close(layer.alpha[9], before[9] + step[2])


def test_weighted_sampler_updates_row_per_draw(layer: PaperPermutationLayer, x: Tensor) -> None:
    sampler = torch.utils.data.WeightedRandomSampler(torch.arange(1.0, N + 1), num_samples=64, replacement=True)
    draws = torch.tensor(list(sampler))
    logits = torch.zeros(N, C).scatter(1, ((layer.labels + 1) % C)[:, None], 2.0).requires_grad_()
    per_draw = -layer.lr * row_gradient(layer, logits, torch.arange(N))
    before = layer.alpha.clone()
    layer(logits[draws], draws).backward()
    layer.step()
    counts = draws.bincount(minlength=N)
    assert counts.max() > 1
    assert_close(layer.alpha - before, per_draw * counts[:, None], rtol=1e-5, atol=1e-6)


def test_loss_without_backward_leaves_no_trace(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, before = tiny_net(), layer.alpha.clone()
    layer(net(x[:8]), torch.arange(8))  # the loss is discarded
    with torch.no_grad():
        layer(net(x[8:16]), torch.arange(8, 16))
    layer(net(x[16:]), torch.arange(16, N)).backward()
    layer.step()
    assert torch.equal(layer.alpha[:16], before[:16])
    assert not torch.equal(layer.alpha[16:], before[16:])


def test_index_may_be_overwritten_before_step(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, before, index = tiny_net(), layer.alpha.clone(), torch.tensor([1, 2])
    layer(net(x[index]), index).backward()
    index.copy_(torch.tensor([3, 4]))
    layer(net(x[index]), index).backward()
    layer.step()
    assert (layer.alpha != before).any(-1).nonzero().flatten().tolist() == [1, 2, 3, 4]


def test_missing_step_warns(layer: PaperPermutationLayer) -> None:
    logits = torch.zeros(1, C, requires_grad=True)
    for _ in range(999):
        layer(logits, [0]).backward()
    loss = layer(logits, [0])
    with pytest.warns(UserWarning, match=r"1000 batches went through backward since the last layer.step\(\)"):
        loss.backward()


def test_zero_grad_discards_pending_gradients(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, before = tiny_net(), layer.alpha.clone()
    layer(net(x), torch.arange(N)).backward()
    layer.zero_grad()
    layer.step()
    assert torch.equal(layer.alpha, before)


def test_sample_with_zero_weight_does_not_change(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, index, before = tiny_net(), torch.arange(6), layer.alpha.clone()
    keep = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.5, 2.0])
    (layer(net(x[index]), index, reduction="none") * keep).sum().backward()
    layer.step()
    moved = (layer.alpha[index] != before[index]).any(-1)
    assert moved.tolist() == [True, False, True, False, True, True]


def test_batch_with_zero_weight_does_not_change(layer: PaperPermutationLayer, x: Tensor) -> None:
    """As with a loss weight of 0 during warm-up."""
    net, before = tiny_net(), layer.alpha.clone()
    (0.0 * layer(net(x), torch.arange(N))).backward()
    layer.step()
    assert torch.equal(layer.alpha, before)


def test_every_backward_is_an_update(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, index, before = tiny_net(), torch.arange(N), layer.alpha.clone()
    loss = layer(net(x), index)
    step = -layer.lr * row_gradient(layer, net(x), index)
    loss.backward(retain_graph=True)
    loss.backward()
    layer.step()
    assert_close(layer.alpha, before + 2 * step)


def test_float64_logits_with_float32_rows(layer: PaperPermutationLayer) -> None:
    logits = torch.randn(N, C, dtype=torch.float64, requires_grad=True)
    loss = layer(logits, torch.arange(N))
    assert loss.dtype == torch.float64
    before = layer.alpha.clone()
    loss.backward()
    layer.step()
    assert layer.alpha.dtype == torch.float32
    assert not torch.equal(layer.alpha, before)


def test_reductions(layer: PaperPermutationLayer, x: Tensor) -> None:
    logits, index = tiny_net()(x), torch.arange(N)
    losses = layer(logits, index, reduction="none")
    assert losses.shape == (N,)
    assert_close(layer(logits, index), losses.mean())
    assert_close(layer(logits, index, reduction="sum"), losses.sum())


def slow_plain_loss(logits: Tensor, labels: Tensor, loss: str) -> Tensor:
    if loss in ("ce", "kl"):
        return nn.functional.cross_entropy(logits, labels)
    difference = logits.softmax(-1) - nn.functional.one_hot(labels, C)
    return (difference.abs().sum(-1) if loss == "l1" else difference.square().sum(-1).sqrt()).mean()


@pytest.mark.parametrize(("on", "loss"), VARIANTS)
def test_eval_mode_disables_layer(labels: Tensor, x: Tensor, on: str, loss: str) -> None:
    layer = PermutationLayer.paper(labels, num_classes=C, lr=0.3, on=on, loss=loss).eval()
    net, before = tiny_net(), layer.alpha.clone()
    logits = net(x)
    got = layer(logits, torch.arange(N))
    assert_close(got, slow_plain_loss(logits, labels, loss))
    got.backward()
    assert net[0].weight.grad is not None
    layer.step()
    assert torch.equal(layer.alpha, before)
    assert not torch.equal(layer.train()(logits, torch.arange(N)), got)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_upcast(layer: PaperPermutationLayer, dtype: torch.dtype) -> None:
    logits, index = (3 * torch.randn(N, C)).to(dtype).requires_grad_(), torch.arange(N)
    got = layer(logits, index)
    assert got.dtype == torch.float32
    assert_close(got, layer(logits.float(), index))
    assert layer.eval()(logits, index).dtype == torch.float32
    layer.train()
    got.backward()
    assert logits.grad.dtype == dtype
    layer.step()
    assert layer.alpha.dtype == torch.float32


def test_autocast_loss_is_float32(layer: PaperPermutationLayer, x: Tensor) -> None:
    net, index, before = tiny_net(), torch.arange(N), layer.alpha.clone()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
        loss = layer(logits, index)
    assert logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    expected = before.index_add(0, index, row_gradient(layer, logits.float(), index), alpha=-layer.lr)
    loss.backward()
    layer.step()
    assert_close(layer.alpha, expected)


# Inductor needs a C++ compiler; without one, everything up to code generation is still exercised.
BACKEND = "inductor" if shutil.which("g++") or shutil.which("c++") else "aot_eager"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # deprecations inside the compiler
@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"on": "label", "loss": "l2"}], ids=["ce", "top_k", "label-l2"])
def test_compiled_training_step_matches_eager(labels: Tensor, x: Tensor, settings: dict[str, Any]) -> None:
    """The loss has no graph break; batches of two sizes, two of them accumulated, and weights of zero."""

    def train(compiled: bool) -> tuple[Tensor, Tensor]:
        net, layer = tiny_net(), PermutationLayer.paper(labels, num_classes=C, lr=0.3, **settings)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def loss(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
            return (weights * layer(net(x), index, reduction="none")).mean()

        loss = torch.compile(loss, backend=BACKEND, fullgraph=True) if compiled else loss
        for number, index in enumerate([*torch.arange(N - 4).split(8), torch.arange(N - 4, N)]):
            weights = (index != 2).float()
            loss(x[index], index, weights).backward()
            if number:  # the first two batches are one step
                optimizer.step()
                layer.step()
                optimizer.zero_grad()
        return layer.alpha, net[0].weight.detach()

    for actual, expected in zip(train(compiled=True), train(compiled=False), strict=True):
        assert_close(actual, expected)
