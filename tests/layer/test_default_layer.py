"""``PermutationLayer``, the default layer: steps, warm-up, estimates, state and verdict on labels."""

import copy
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch.testing import assert_close

from permll import PermutationLayer
from permll.layer import equations, label_noise, module
from permll.layer.autograd import Reduction
from permll.layer.label_noise import MIN_PROB
from permll.layer.module import AVERAGING, INFLUENCE_ON_WRONG, MAX_MONITORED
from tests.helpers.pure_python import log_softmax, softmax

N, C = 400, 4  # the smallest data set with held-out samples
EXACT = {"rtol": 1e-10, "atol": 1e-12}
FORMATS: dict[str, dict[str, Any]] = {
    "dense": {},
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16},
    "disk": {"file": True},
    "top_k": {"top_k": 2},
    "all of them": {"top_k": 2, "dtype": torch.bfloat16, "file": True},
}
ALL_FORMATS = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(N) % C


def held_out_rows(layer: PermutationLayer) -> Tensor:
    return (layer.loss_weight.values == 0).nonzero().flatten()


def end_warm_up(layer: PermutationLayer, *, influence: float = 0.0, accuracy: float = 0.7) -> PermutationLayer:
    """Set the estimates by hand, with a random transition matrix; all classes are learned."""
    generator = torch.Generator().manual_seed(5)
    off_diagonal = torch.rand(C, C, generator=generator).fill_diagonal_(0.0)
    T = 0.6 * torch.eye(C) + 0.4 * off_diagonal / off_diagonal.sum(1, keepdim=True)
    layer.estimates.is_warm_up = 0.0
    layer.estimates.influence, layer.estimates.accuracy = influence, accuracy
    layer.log_likelihood.copy_(T.T.log())
    layer.learned.fill_(True)
    return layer


def visit(layer: PermutationLayer, logits: Tensor, index: Any, **kwargs: Any) -> Tensor:
    """Run ``backward``; return the gradient of the logits."""
    z = logits.clone().requires_grad_()
    layer(z, index, **kwargs).backward()
    assert z.grad is not None
    return z.grad


def mean_predictions(layer: PermutationLayer) -> Tensor:
    """Return t (N, c), with all visits so far."""
    return layer.state_dict()["predictions.values"]


def same_state(one: PermutationLayer, two: PermutationLayer) -> bool:
    first, second = one.state_dict(), two.state_dict()
    return first.keys() == second.keys() and all(
        first[key].shape == second[key].shape and first[key].allclose(second[key], rtol=0, atol=0, equal_nan=True)
        for key in first
    )


class Simulation:
    """Logits of a network that knows the true classes, and memorizes labels and is overconfident from epoch 2 on."""

    def __init__(
        self,
        rows: int = 600,
        classes: int = 3,
        noise: float = 0.3,
        seed: int = 0,
        shares: tuple[float, ...] | None = None,
    ) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.classes = classes
        self.truth = torch.randint(classes, (rows,), generator=self.generator)
        if shares is not None:  # fraction of samples of each class
            self.truth = torch.multinomial(torch.tensor(shares), rows, replacement=True, generator=self.generator)
        wrong = torch.rand(rows, generator=self.generator) < noise
        shift = torch.randint(1, classes, (rows,), generator=self.generator)
        self.labels = torch.where(wrong, (self.truth + shift) % classes, self.truth)
        self.noise = 0.7 * torch.randn(rows, classes, generator=self.generator)

    def logits(self, trained: Tensor, memorization: float) -> Tensor:
        known = 4.0 * one_hot(self.truth, self.classes) + self.noise
        confident = (1 + memorization / 4) * known  # so that held-out labels become less likely
        return confident + memorization * trained[:, None] * one_hot(self.labels, self.classes)

    def train(
        self, layer: PermutationLayer, epochs: int, memorization: float = 2.0, first: int = 0, batch: int = 100
    ) -> PermutationLayer:
        """Visit all samples in every epoch; ``first`` is the number of earlier epochs."""
        trained = layer.loss_weight.values != 0
        for epoch in range(first, first + epochs):
            logits = self.logits(trained, memorization if epoch else 0.0)
            order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(epoch))
            for index in order.split(batch):
                visit(layer, logits[index], index)
                layer.step()
        return layer


# --- One step -------------------------------------------------------------------------------------------------------


def test_training_matches_manual_steps(labels: Tensor) -> None:
    """A linear network, held-out samples, and a sample that occurs twice; everything in Python floats."""
    dim, batch, steps, net_lr = 3, 9, 40, 0.5
    labels = labels.clone()
    labels[:250] = 0  # the other classes have 12.5 % each, the prior is not uniform
    layer = end_warm_up(PermutationLayer(labels, C, dtype=torch.float64).double(), influence=0.1)
    held_out = held_out_rows(layer)
    assert len(held_out) == 20
    weight = layer.loss_weight.values.tolist()
    assert weight == pytest.approx([0.0 if i in set(held_out.tolist()) else N / 380 for i in range(N)])
    assert_close(layer.targets.values, layer.loss_weight.values[:, None] * one_hot(labels, C))
    layer.targets.write(torch.arange(N), layer.loss_weight.values[:, None] * torch.rand(N, C).double().softmax(-1))
    x, net = torch.randn(N, dim, dtype=torch.float64), nn.Linear(dim, C, bias=False, dtype=torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=net_lr)

    W, inputs, y = net.weight.tolist(), x.tolist(), labels.tolist()
    targets, t = layer.targets.values.tolist(), [[0.0] * C for _ in range(N)]
    assert layer.prior.tolist() == pytest.approx([y.count(k) / N for k in range(C)])
    visited = set()
    for _ in range(steps):
        rows = torch.cat([torch.randint(30, (batch - 2,)), held_out[torch.randint(20, (1,))]])
        index = torch.cat([rows, rows[:1]])
        visited |= set(index.tolist())

        optimizer.zero_grad()
        loss = layer(net(x[index]), index)
        loss.backward()
        optimizer.step()
        layer.step()

        total, gradient = 0.0, [[0.0] * dim for _ in range(C)]
        for i in index.tolist():
            z = [sum(w * value for w, value in zip(row, inputs[i], strict=True)) for row in W]
            p, log_p, r = softmax(z), log_softmax(z), targets[i]  # r: times the weight of the sample
            total -= sum(r[k] * log_p[k] for k in range(C)) / batch
            for k in range(C):
                for d in range(dim):
                    gradient[k][d] += (sum(r) * p[k] - r[k]) * inputs[i][d] / batch
                t[i][k] += AVERAGING * (p[k] - t[i][k])
        assert net.weight.grad is not None
        assert_close(net.weight.grad, torch.tensor(gradient, dtype=torch.float64), **EXACT)
        assert loss.item() == pytest.approx(total, rel=1e-10)
        W = [[W[k][d] - net_lr * gradient[k][d] for d in range(dim)] for k in range(C)]

    assert_close(mean_predictions(layer), torch.tensor(t, dtype=torch.float64), **EXACT)
    assert_close(net.weight.detach(), torch.tensor(W, dtype=torch.float64), **EXACT)
    assert layer.estimates.visits == batch * steps < N  # δ, targets and π are not updated yet
    assert not layer.table.values.any()
    assert layer.targets.values.tolist() == targets
    assert torch.equal(layer.predicted_prior, layer.prior)
    assert set(layer.visited.values.nonzero().flatten().tolist()) == visited


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_update_matches_loop(noise: float) -> None:
    """The step that completes N visits, with held-out, repeated and missing samples; everything in Python floats."""
    rows, classes = 600, 6
    simulation = Simulation(rows, classes, noise, shares=(0.9, 0.02, 0.02, 0.02, 0.02, 0.02))
    layer = PermutationLayer(simulation.labels, classes, dtype=torch.float64, held_out=0.2).double()
    held_out = held_out_rows(layer)
    trained = layer.loss_weight.values != 0
    order = torch.randperm(590)  # ten samples are never visited
    for memorization in (0.0, 2.0, 2.0, 0.2, 0.2):
        index = torch.cat([order, order[:10]])
        visit(layer, simulation.logits(trained, memorization)[index], index)
        layer.step()
    assert not layer.is_warm_up

    index, logits = torch.cat([order[:500], order[:100]]), simulation.logits(trained, 0.2).double()
    visit(layer, logits[index[:500]], index[:500])
    layer.step()
    assert layer.estimates.visits == 500
    visit(layer, logits[index[500:]], index[500:])
    before = copy.deepcopy(layer)
    layer.step()
    assert layer.estimates.visits == 0
    assert layer.estimates.influence > 0
    influence = layer.estimates.influence

    y, weight, q = simulation.labels.tolist(), layer.loss_weight.values.tolist(), layer.prior.tolist()
    assert max(q) > 1.2 * min(q)
    t, delta, targets = mean_predictions(before).tolist(), before.table.values.tolist(), before.targets.values.tolist()
    log_T = layer.log_likelihood.T.tolist()  # log_T[k][y]
    for i in index[500:].tolist():
        p = softmax(logits[i].tolist())
        t[i] = [(1 - AVERAGING) * t[i][k] + AVERAGING * p[k] for k in range(classes)]
    assert_close(mean_predictions(layer), torch.tensor(t, dtype=torch.float64), **EXACT)
    sums = [sum(row[k] for row in t) for k in range(classes)]
    pi = [value / sum(sums) for value in sums]
    cuts = set()

    def weights(i: int) -> list[float]:
        """Return softmax(α)."""
        alpha = [log_T[k][y[i]] + delta[i][k] for k in range(classes)]
        lead = alpha[y[i]] - max(alpha[k] for k in range(classes) if k != y[i])
        cut = min(max(lead, 0.0), INFLUENCE_ON_WRONG * influence)
        cuts.add("none" if lead <= 0 else "part" if cut < lead else "all")
        alpha[y[i]] -= cut
        return softmax(alpha)

    def posterior(i: int) -> list[float]:
        joint = [a * max(t[i][k], MIN_PROB) * q[k] / pi[k] for k, a in enumerate(weights(i))]
        return [value / sum(joint) for value in joint]

    for i in sorted(set(index.tolist())):
        change = [r - a for r, a in zip(posterior(i), weights(i), strict=True)]
        delta[i] = [delta[i][k] + 0.25 * change[k] for k in range(classes)]
        targets[i] = [weight[i] * value for value in posterior(i)]
    assert cuts == {"none", "part", "all"}
    assert_close(layer.predicted_prior, torch.tensor(pi, dtype=torch.float64), **EXACT)
    assert_close(layer.table.values, torch.tensor(delta, dtype=torch.float64), **EXACT)
    assert_close(layer.targets.values, torch.tensor(targets, dtype=torch.float64), **EXACT)
    assert not layer.visited.values.any()
    assert not layer.targets.values[held_out].any()
    assert layer.table.values[held_out].any()
    late = order[500:]  # not visited since the last update
    assert torch.equal(layer.table.values[late], before.table.values[late])
    assert before.table.values[late].any()
    assert not layer.table.values[590:].any()


@pytest.mark.parametrize("max_queued", [1, 1000, 2**30])
def test_queue_of_predictions_does_not_change_result(max_queued: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The visits of one step, of several steps, or of an epoch are averaged at once."""
    simulation = Simulation()
    expected = PermutationLayer(simulation.labels, 3)
    layer = copy.deepcopy(expected)
    for epoch in range(4):
        simulation.train(expected, 1, first=epoch)
    monkeypatch.setattr(module, "MAX_QUEUED", max_queued)
    simulation.train(layer, 4)
    assert not layer.is_warm_up
    assert same_state(layer, expected)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@given(st.integers(0, 2**31), st.integers(1, 40))
@settings(max_examples=20)
def test_loss_is_cross_entropy_with_stored_targets(reduction: Reduction, seed: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    layer = PermutationLayer(torch.arange(N) % C, C, dtype=torch.float64)
    targets = torch.rand(N, C, generator=generator).double()
    layer.targets.write(torch.arange(N), targets)
    index = torch.randint(N, (batch,), generator=generator)
    logits = (9 * torch.randn(batch, C, generator=generator)).double().requires_grad_()
    factors = torch.rand(batch, generator=generator).double() if reduction == "none" else torch.tensor(2.0).double()
    losses = -(targets[index] * logits.log_softmax(-1)).sum(-1)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    got = layer(logits, index, reduction)
    assert_close(got, expected, **EXACT)
    gradients = [torch.autograd.grad((factors * loss).sum(), logits)[0] for loss in (got, expected)]
    assert_close(*gradients, **EXACT)


def test_warm_up_is_weighted_cross_entropy(labels: Tensor) -> None:
    layer, index = PermutationLayer(labels, C), torch.randint(N, (64,))
    weight = layer.loss_weight.values[index].float()
    assert len(held_out_rows(layer)) == 20
    before = layer.targets.values.clone()
    for _ in range(3):
        logits = (5 * torch.randn(64, C)).requires_grad_()
        losses = weight * cross_entropy(logits, labels[index], reduction="none")
        assert_close(layer(logits.detach(), index, reduction="none"), losses.detach(), rtol=1e-6, atol=0)
        losses.mean().backward()
        assert_close(visit(layer, logits.detach(), index), logits.grad, rtol=1e-6, atol=1e-8)
        layer.step()
    for _ in range(3):  # estimates, without memorization
        visit(layer, torch.randn(N, C), range(N))
        layer.step()
    assert layer.label_accuracy < 1
    assert torch.equal(layer.table.values, torch.zeros(N, C))  # δ starts after the warm-up
    assert torch.equal(layer.targets.values, before)


@pytest.mark.parametrize(("rows", "held_out"), [(N, 0), (N, 0.04), (N - 1, 0.05), (40, 0.45)])
def test_layer_without_held_out_samples_is_cross_entropy(rows: int, held_out: float) -> None:
    labels = torch.randint(C, (rows,))
    layer = PermutationLayer(labels, C, held_out=held_out)
    for _ in range(4):  # epochs
        logits = (5 * torch.randn(rows, C)).scatter_add(1, labels[:, None], torch.full((rows, 1), 3.0)).requires_grad_()
        expected = cross_entropy(logits, labels)
        assert_close(layer(logits, range(rows)), expected)
        expected.backward()
        assert_close(visit(layer, logits.detach(), range(rows)), logits.grad, rtol=1e-6, atol=1e-8)
        layer.step()
    assert layer.is_warm_up
    assert layer.label_accuracy == 1.0


@pytest.mark.parametrize(
    ("rows", "classes", "held_out", "count"),
    [
        (400, 2, 0.05, 20),
        (1000, 2, 0.2, 200),
        (30_000, 2, 0.05, 1000),
        (30_000, 60, 0.05, 1200),
        (40_000, 100, 0.05, 2000),
        (40, 2, 0.5, 20),
    ],
)
def test_number_of_held_out_samples(rows: int, classes: int, held_out: float, count: int) -> None:
    """Trained samples that are compared with them are others."""
    layer = PermutationLayer(torch.arange(rows) % classes, classes, held_out=held_out)
    chosen, monitored = set(held_out_rows(layer).tolist()), layer._monitored.tolist()
    assert len(chosen) == count
    assert len(set(monitored)) == len(monitored) == min(rows - count, MAX_MONITORED)
    assert not chosen & set(monitored)
    assert_close(layer.loss_weight.values.double().mean(), torch.tensor(1.0).double(), rtol=1e-6, atol=0)
    assert_close(layer.targets.values.double().sum(1), layer.loss_weight.values.double(), rtol=1e-6, atol=0)


def test_noise_of_many_classes_is_estimated() -> None:
    """With 100 classes 2,000 samples are held out, as many as trained ones are compared with them."""
    rows, classes = 40_000, 100
    truth = torch.arange(rows) % classes
    labels = torch.where(torch.rand(rows) < 0.3, torch.randint(classes, (rows,)), truth)
    layer = PermutationLayer(labels, classes)
    visit(layer, 9.0 * one_hot(truth, classes) + torch.randn(rows, classes), range(rows))
    layer.step()
    assert layer.label_accuracy == pytest.approx(0.7, abs=0.1)
    assert layer.held_out_log_prob.shape[1] == 2000


def test_first_update_is_that_of_paper(labels: Tensor) -> None:
    """With b = 0, t = p and q = π."""
    layer = end_warm_up(PermutationLayer(labels, C, dtype=torch.float64), accuracy=0.3).double()
    logits = 2 * torch.randn(N // C, C, dtype=torch.float64)
    logits = torch.stack([logits.roll(k, 1) for k in range(C)], 1).reshape(N, C)  # the mean prediction is uniform
    index = torch.arange(0, N, 3)
    layer.predictions.write(torch.arange(N), logits.softmax(-1))
    layer.visited.write(index, torch.ones(len(index)))
    expected = equations.prediction_ce(layer.alpha[index], logits[index])
    layer._update_targets()
    assert_close(layer.predicted_prior, layer.prior, rtol=1e-7, atol=0)
    assert_close(layer.table.values[index], -0.25 * expected.grad_alpha, rtol=1e-6, atol=1e-7)
    weight = layer.loss_weight.values[index, None]
    r = equations.posterior(layer.alpha[index], logits[index])
    assert_close(layer.targets.values[index], weight * r, rtol=1e-6, atol=1e-7)
    loss = equations.prediction_ce(layer.alpha[index], logits[index])
    gradient = visit(layer, logits[index], index, reduction="sum")
    assert_close(gradient, weight * loss.grad_logits, rtol=1e-6, atol=1e-7)


def test_step_updates_batch_rows_only(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C), influence=0.1)
    held_out, targets = int(held_out_rows(layer)[0]), layer.targets.values.clone()
    index = [3, 7, held_out]
    visit(layer, torch.randn(3, C), index)
    assert not mean_predictions(layer).any()  # backward records, step averages
    layer.step()
    for rows in (mean_predictions(layer), layer.visited.values[:, None]):
        assert sorted((rows != 0).any(1).nonzero().flatten().tolist()) == sorted(index)
    assert not layer.table.values.any()  # δ and targets are updated after N visits
    assert torch.equal(layer.targets.values, targets)
    before = copy.deepcopy(layer)
    layer.step()
    assert same_state(layer, before)  # no visit is left
    layer._update_targets()
    assert sorted((layer.table.values != 0).any(1).nonzero().flatten().tolist()) == sorted(index)
    assert sorted((layer.targets.values != targets).any(1).nonzero().flatten().tolist()) == [3, 7]
    assert not layer.targets.values[held_out].any()


def test_index_may_be_reused_after_backward(labels: Tensor) -> None:
    """As with a preallocated buffer of the data loader."""
    layer, index = PermutationLayer(labels, C), torch.tensor([1, 2])
    visit(layer, torch.randn(2, C), index)
    index.fill_(7)
    layer.step()
    index.fill_(8)
    assert mean_predictions(layer).any(1).nonzero().flatten().tolist() == [1, 2]


def test_held_out_sample_has_no_gradient(labels: Tensor) -> None:
    for layer in (PermutationLayer(labels, C), end_warm_up(PermutationLayer(labels, C))):
        held_out = held_out_rows(layer)
        assert layer(torch.randn(20, C), held_out) == 0
        assert not visit(layer, torch.randn(20, C), held_out).any()


@pytest.mark.parametrize("scale", [2.0**16, 1e-3])
def test_loss_scale_does_not_change_updates(labels: Tensor, scale: float) -> None:
    plain, scaled = (end_warm_up(PermutationLayer(labels, C), influence=0.1) for _ in range(2))
    logits = torch.randn(N, C, requires_grad=True)
    plain(logits, range(N)).backward()
    (scale * scaled(logits, range(N))).backward()
    plain.step()
    scaled.step()
    assert same_state(plain, scaled)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_accumulated_batches_match_one_large_batch(size: int) -> None:
    simulation = Simulation()
    large, small = (PermutationLayer(simulation.labels, 3) for _ in range(2))
    trained = large.loss_weight.values != 0
    for epoch in range(4):
        logits = simulation.logits(trained, 2.0 if epoch else 0.0)
        for rows in torch.randperm(600).split(120):
            visit(large, logits[rows], rows)
            large.step()
            for part in rows.split(size):
                visit(small, logits[part], part)
            small.step()
    assert not small.is_warm_up
    assert small.table.values.any()
    expected = large.state_dict()
    for key, value in small.state_dict().items():
        assert_close(value, expected[key])


def test_repeated_sample_is_updated_per_occurrence(labels: Tensor) -> None:
    """As with a weighted sampler: t moves half of the way to each prediction in turn."""
    layer = PermutationLayer(labels, C)
    certain = 20.0 * one_hot(torch.tensor([0, 1, 2]), C)
    visit(layer, certain[:1], [3])
    layer.step()
    visit(layer, certain[1:], [3, 3])
    layer.step()
    assert_close(mean_predictions(layer)[3], torch.tensor([0.125, 0.25, 0.5, 0.0]))


@pytest.mark.parametrize("occurrences", [3, 6])
def test_mean_prediction_of_repeated_sample_is_a_distribution(labels: Tensor, occurrences: int) -> None:
    """As with several views of a sample in a batch, or with accumulated batches of a weighted sampler."""
    layer = PermutationLayer(labels, C)
    for _ in range(10):
        visit(layer, 2 * torch.randn(occurrences, C), [3] * occurrences)
        layer.step()
    t = mean_predictions(layer)[3]
    assert (t >= 0).all()
    assert float(t.sum()) == pytest.approx(1 - 0.5 ** (10 * occurrences))


def test_sample_with_zero_weight_is_not_updated(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C))
    index = (layer.loss_weight.values != 0).nonzero().flatten()[:4]
    logits, targets = torch.randn(4, C, requires_grad=True), layer.targets.values.clone()
    (layer(logits, index, reduction="none") * torch.tensor([1.0, 0.0, 0.5, 0.0])).sum().backward()
    layer.step()
    t = mean_predictions(layer)
    layer._update_targets()
    for rows in (t, layer.visited.values[:, None], layer.table.values, layer.targets.values - targets):
        assert (rows[index] != 0).any(1).tolist() == [True, False, True, False]
    before = copy.deepcopy(layer)
    (0.0 * layer(logits, index)).backward()
    layer.step()
    before.estimates.visits += 4  # batches are counted, whatever their weights
    assert same_state(layer, before)


def test_zero_grad_and_missing_backward_leave_no_trace(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C))
    before = copy.deepcopy(layer)
    visit(layer, torch.randn(N, C), range(N))
    layer.zero_grad()
    layer(torch.randn(N, C, requires_grad=True), range(N))
    layer.step()
    assert same_state(layer, before)


def test_eval_mode_is_plain_cross_entropy(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C)).eval()
    before, logits = copy.deepcopy(layer), torch.randn(N, C)
    assert_close(layer(logits, range(N)), cross_entropy(logits, labels))
    visit(layer, logits, range(N))
    layer.step()
    assert same_state(layer, before)


def test_casts_of_network_keep_precision() -> None:
    """Estimates and per-sample state stay in float32."""
    simulation = Simulation()
    layer, cast = PermutationLayer(simulation.labels, 3), PermutationLayer(simulation.labels, 3)
    nn.ModuleList([cast]).bfloat16()
    for one in (layer, cast):
        simulation.train(one, 4)
    assert not layer.is_warm_up
    assert cast.predicted_prior.dtype == cast.log_likelihood.dtype == cast.targets.values.dtype == torch.float32
    assert same_state(cast, layer)


def test_layer_follows_casts_to_double_and_back(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C), influence=0.1)
    logits, before = torch.randn(N, C), copy.deepcopy(layer)
    assert layer.double()(logits, range(N)).dtype == torch.float64
    assert layer.alpha.dtype == layer.log_likelihood.dtype == torch.float64
    assert torch.equal(layer.float()(logits, range(N)), before(logits, range(N)))
    assert layer.alpha.dtype == layer.log_likelihood.dtype == layer.predicted_prior.dtype == torch.float32
    assert same_state(layer, before)


# Inductor needs a C++ compiler; without one, everything up to code generation is still exercised.
BACKEND = "inductor" if shutil.which("g++") or shutil.which("c++") else "aot_eager"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # deprecations inside the compiler
def test_compiled_training_step_matches_eager(labels: Tensor) -> None:
    """The steps that update targets are eager: the compiler cannot trace the shape checks that tests add to them."""
    x = torch.randn(N, 6)

    def train(compiled: bool) -> list[Tensor]:
        torch.manual_seed(1)
        net, layer = nn.Linear(6, C), end_warm_up(PermutationLayer(labels, C), influence=0.1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

        def training_step(x: Tensor, index: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = layer(net(x), index)
            loss.backward()
            optimizer.step()
            layer.step()
            return loss

        step = torch.compile(training_step, backend=BACKEND) if compiled else training_step
        *batches, last = torch.arange(N).split(80)
        losses = []
        for _ in range(2):
            losses += [step(x[index], index).detach() for index in batches]
            losses.append(training_step(x[last], last).detach())
        assert layer.table.values.any()
        return [*losses, *layer.state_dict().values(), net.weight.detach()]

    for actual, expected in zip(train(compiled=True), train(compiled=False), strict=True):
        assert_close(actual, expected, rtol=1e-4, atol=1e-5)


# --- Estimates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memorization", "ends"), [(0.0, False), (0.1, False), (2.0, True), (4.0, True)])
def test_warm_up_ends_with_memorization(memorization: float, ends: bool) -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 6, memorization)
    assert layer.is_warm_up is not ends
    if not ends:
        assert torch.equal(layer.log_likelihood, label_noise.log_identity(3))
        assert torch.equal(layer.corrected_labels(), simulation.labels)


def test_warm_up_goes_on_when_labels_are_learned_equally() -> None:
    """Held-out labels gain log-odds as trained ones do; the draw of the held-out samples does not count."""
    for seed in range(5):
        simulation = Simulation(noise=0.0, seed=seed)
        layer = PermutationLayer(simulation.labels, 3)
        for scale in (0.2, 0.5, 1.0, 2.0, 3.0):
            visit(layer, scale * simulation.logits(torch.ones(600), 0.0), range(600))
            layer.step()
        assert layer.is_warm_up, seed


@pytest.mark.parametrize(("change", "ends"), [(0.1, False), (0.0, False), (-0.1, True)])
def test_warm_up_waits_until_held_out_labels_become_less_likely(change: float, ends: bool) -> None:
    """The labels of trained samples have much larger log-odds all the time."""
    labels, noise = torch.arange(N) % C, torch.randn(N, C)
    layer = PermutationLayer(labels, C, held_out=0)
    for epoch in range(5):
        logits = noise + (1 + change * epoch) * one_hot(labels, C)
        layer.update_estimates(logits, labels, noise + 5.0 * one_hot(labels, C), range(N))
        assert layer.estimates.influence > 1
        assert layer.is_warm_up is not (ends and epoch > 0)  # the first estimate has none before it
        assert layer.learned.tolist() == [ends and epoch > 0] * C
    for _ in range(2):
        logits = logits - 0.2 * one_hot(labels, C)
        layer.update_estimates(logits, labels, noise + 5.0 * one_hot(labels, C), range(N))
        assert not layer.is_warm_up
        assert layer.learned.all()
    layer.update_estimates(2 * logits, labels, noise + 5.0 * one_hot(labels, C), range(N))
    assert layer.learned.all()  # a class that is learned remains learned


def test_likelihood_of_held_out_labels_is_compared_with_its_maximum() -> None:
    """It falls by less than a standard error between epochs, since samples alternate, and by more in two epochs."""
    labels, noise = torch.arange(N) % C, torch.randn(N, C)
    layer = PermutationLayer(labels, C, held_out=0)
    sign = torch.where(torch.arange(N) // C % 2 == 0, 0.5, -0.5)[:, None]
    for epoch in range(4):
        logits = noise + (1 - 0.02 * epoch + sign * (-1) ** epoch) * one_hot(labels, C)
        layer.update_estimates(logits, labels, noise + 5.0 * one_hot(labels, C), range(N))
        assert layer.is_warm_up is (epoch < 2)


@pytest.mark.parametrize("slow", range(C))
def test_class_waits_while_its_held_out_labels_become_more_likely(slow: int) -> None:
    """One class is learned later than the others; until then its labels are correct, and no other is of this class."""
    labels, noise = torch.arange(N) % C, torch.randn(N, C)
    layer = PermutationLayer(labels, C, held_out=0)
    visit(layer, noise + one_hot((labels + 1) % C, C), range(N))
    layer.step()
    signs = torch.where(labels == slow, 1.0, -1.0)[:, None]
    memorized, is_slow = noise + 5.0 * one_hot(labels, C), torch.arange(C) == slow
    for epoch in range(4):
        logits = noise + (1 + 0.1 * epoch * signs) * one_hot(labels, C)
        layer.update_estimates(logits, labels, memorized, range(N))
        assert layer.is_warm_up is (epoch == 0)
        assert layer.learned.tolist() == [epoch > 0 and k != slow for k in range(C)]
        impossible = layer.log_likelihood <= label_noise.IMPOSSIBLE
        closed = (is_slow[:, None] | is_slow) if epoch else torch.ones(C, C, dtype=torch.bool)
        assert torch.equal(impossible, closed & ~torch.eye(C, dtype=torch.bool))
    layer.update_estimates(logits, labels, memorized, range(N))
    assert layer.learned.all()
    assert (layer.log_likelihood > label_noise.IMPOSSIBLE).all()


def test_labels_of_unlearned_class_are_kept() -> None:
    """The predictions for held-out samples with label 2 become more likely, those for other labels less likely."""
    simulation = Simulation()
    y = simulation.labels
    layer = PermutationLayer(y, 3, held_out=0.2)
    trained, start = layer.loss_weight.values != 0, layer.targets.values.clone()
    signs, is_slow = torch.where(y == 2, 1.0, -1.0)[:, None], y == 2

    def train(change: float, memorization: float) -> None:
        logits = simulation.logits(trained, 0.0) + (memorization * trained[:, None] + change * signs) * one_hot(y, 3)
        visit(layer, logits, range(600))
        layer.step()

    for epoch in range(6):
        train(0.5 * epoch, 5.0 if epoch else 0.0)
    assert not layer.is_warm_up
    assert layer.learned.tolist() == [True, True, False]
    assert (layer.targets.values[~is_slow, 2] == 0).all()
    assert torch.equal(layer.targets.values[is_slow], start[is_slow])
    assert not layer.table.values[is_slow].any()
    assert torch.equal(layer.class_probs()[is_slow], one_hot(y, 3).float()[is_slow])
    fast = ~is_slow & trained
    assert (layer.targets.values[fast] != start[fast]).any(1).float().mean() > 0.9
    assert layer.table.values[fast].any()
    assert (layer.targets.values.argmax(1) != y)[fast].any()
    for change in (1.5, 1.0, 0.5, 0.0):
        train(change, 5.0)
    assert layer.learned.all()
    assert (layer.targets.values != start)[is_slow & trained].any()
    assert layer.table.values[is_slow].any()


def test_masked_class_is_not_a_target() -> None:
    """Class 3 has no samples; its logits are masked as the error message for infinite logits says."""
    simulation = Simulation()
    layer = PermutationLayer(simulation.labels, 4)
    trained = layer.loss_weight.values != 0
    for epoch in range(5):
        logits = simulation.logits(trained, 2.0 if epoch else 0.0)
        visit(layer, torch.cat([logits, torch.full((600, 1), -1e4)], 1), range(600))
        layer.step()
    assert not layer.is_warm_up
    assert layer.targets.values[:, 3].max() < 0.01


def test_first_epoch_measures_sampling_bias() -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 1)
    probs = simulation.logits(torch.ones(600), 0.0).softmax(-1)
    odds = [math.log(float(p) / (1 - float(p))) for p in probs.gather(1, simulation.labels[:, None])]
    is_held_out = (layer.loss_weight.values == 0).tolist()
    held_out = [value for value, out in zip(odds, is_held_out, strict=True) if out]
    trained = [value for value, out in zip(odds, is_held_out, strict=True) if not out]
    mean = sum(held_out) / len(held_out)
    std = math.sqrt(sum((value - mean) ** 2 for value in held_out) / (len(held_out) - 1))
    bias = (sum(trained) / len(trained) - mean) / std
    assert layer.estimates.sampling_bias == pytest.approx(bias, rel=1e-3)
    assert layer.estimates.influence == pytest.approx(0.0, abs=1e-4)
    simulation.train(layer, 1, memorization=0.0, first=1)
    assert layer.estimates.influence == pytest.approx(0.0, abs=0.05)  # the same predictions again


def test_estimates_are_updated_after_n_visits() -> None:
    simulation = Simulation()
    layer = PermutationLayer(simulation.labels, 3)
    logits = simulation.logits(torch.ones(600), 0.0)
    visit(layer, logits[:599], range(599))
    layer.step()
    assert layer.estimates.visits == 599
    assert layer.label_accuracy == 1.0
    visit(layer, logits[599:], [599])
    layer.step()
    assert layer.estimates.visits == 0
    assert 0.6 < layer.label_accuracy < 0.8


@ALL_FORMATS
def test_memorizing_network_corrects_labels(fmt: dict[str, Any]) -> None:
    simulation = Simulation(rows=2000)
    layer = simulation.train(PermutationLayer(simulation.labels, 3, **fmt), 5)
    assert not layer.is_warm_up
    assert layer.label_accuracy == pytest.approx(0.7, abs=0.1)
    corrected = layer.corrected_labels()
    wrong = simulation.labels != simulation.truth
    assert wrong.sum() > 500
    assert (corrected != simulation.truth).sum() < wrong.sum() / 5
    assert all(value.isfinite().all() for value in layer.state_dict().values())
    r, weight = layer.targets.values.float(), layer.loss_weight.values
    assert (r >= 0).all()
    assert_close(r.sum(1), weight, rtol=0.02, atol=0)  # rounded in bfloat16
    trained = wrong & (weight != 0)
    assert (r.argmax(1) == simulation.truth)[trained].float().mean() > 0.9


def test_many_classes_use_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation()
    full = simulation.train(PermutationLayer(simulation.labels, 3), 5)
    monkeypatch.setattr(label_noise, "MAX_CLASSES", 2)
    layer = PermutationLayer(simulation.labels, 3)
    assert layer.log_likelihood.shape == (2, 3)
    index, logits = torch.arange(64), torch.randn(64, 3)
    weight = layer.loss_weight.values[index].float()
    expected = weight * cross_entropy(logits, simulation.labels[index], reduction="none")
    assert_close(layer(logits, index, reduction="none"), expected)

    simulation.train(layer, 5)
    assert not layer.is_warm_up
    agreement = (layer.corrected_labels() == full.corrected_labels()).float().mean()
    assert agreement > 0.98  # wrong labels are drawn evenly, as this form of T assumes
    other = PermutationLayer(simulation.labels, 3)
    other.load_state_dict(layer.state_dict())
    assert same_state(other, layer)
    assert torch.equal(other.alpha, layer.alpha)
    D, frequencies = layer.log_likelihood[0].exp().tolist(), layer.frequencies.tolist()
    layer.estimates.influence = 0.0
    y = int(simulation.labels[0])
    for k in range(3):
        chance = D[k] if k == y else (1 - D[k]) * frequencies[y] / (1 - frequencies[k])
        assert float(layer.alpha[0, k] - layer.table.values[0, k]) == pytest.approx(math.log(chance), abs=1e-4)


def test_update_estimates_with_validation_samples() -> None:
    train, validation = Simulation(), Simulation(rows=200, seed=1)
    layer = PermutationLayer(train.labels, 3, held_out=0)
    assert (layer.loss_weight.values == 1).all()
    for memorization in (0.0, 2.0):
        logits = train.logits(torch.ones(600), memorization)
        validation_logits = validation.logits(torch.zeros(200), memorization)
        visit(layer, logits, range(600))
        layer.step()
        assert layer.is_warm_up
        layer.update_estimates(validation_logits, validation.labels, logits[::2], range(0, 600, 2))
    assert not layer.is_warm_up
    assert layer.label_accuracy == pytest.approx(0.7, abs=0.1)
    assert layer.estimates.influence > 0.2
    wrong = train.labels != train.truth
    assert (layer.corrected_labels() != train.truth).sum() < wrong.sum() / 4


def test_update_estimates_needs_20_samples() -> None:
    simulation = Simulation()
    layer = PermutationLayer(simulation.labels, 3, held_out=0)
    logits = simulation.logits(torch.ones(600), 5.0)
    visit(layer, logits, range(600))
    layer.step()
    before = copy.deepcopy(layer)
    zeros = torch.zeros(20, 3)
    layer.update_estimates(zeros[:19], simulation.labels[:19], logits, range(600))
    layer.update_estimates(zeros, simulation.labels[:20], logits[:19], range(19))
    assert same_state(layer, before)
    layer.update_estimates(zeros, simulation.labels[:20], logits[:20], range(20))
    assert not same_state(layer, before)


def test_update_estimates_rejects_positions_outside_labels() -> None:
    layer = PermutationLayer([0, 1] * 20, 2, held_out=0)
    with pytest.raises(IndexError, match=r"index 40 .* lies outside the 40 training samples"):
        layer.update_estimates(torch.zeros(20, 2), torch.zeros(20).long(), torch.zeros(20, 2), range(21, 41))


# --- State ----------------------------------------------------------------------------------------------------------


@ALL_FORMATS
@pytest.mark.parametrize("visits", [250, 600, 2650])
def test_state_round_trip_resumes_exactly(fmt: dict[str, Any], visits: int, tmp_path: Path) -> None:
    """In the middle of the first epoch, after it, and in the middle of the fifth."""
    simulation = Simulation()
    trained, order = torch.ones(600), torch.randperm(600).repeat(6)

    def run(layer: PermutationLayer, start: int, stop: int) -> None:
        for at in range(start, stop, 50):
            index = order[at : at + 50]
            visit(layer, simulation.logits(trained, 0.0 if at < 600 else 2.0)[index], index)
            layer.step()

    layer = PermutationLayer(simulation.labels, 3, **fmt)
    trained = (layer.loss_weight.values != 0).float()
    run(layer, 0, visits)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    loaded, copied = PermutationLayer(simulation.labels, 3, **fmt), copy.deepcopy(layer)
    run(loaded, 0, 50)  # visits that the state replaces
    loaded.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    assert same_state(loaded, layer)
    assert torch.equal(loaded.learned, layer.learned)
    assert torch.equal(loaded.held_out_log_prob, layer.held_out_log_prob)
    assert layer.held_out_log_prob.shape[1] == (0 if visits < 600 else 30)
    assert layer.learned.any() == (visits > 2000)
    for one in (layer, loaded, copied):
        run(one, visits, 3600)
    assert not layer.is_warm_up
    assert same_state(loaded, layer)
    assert same_state(copied, layer)
    assert torch.equal(loaded.corrected_labels(), layer.corrected_labels())
    assert torch.equal(loaded.alpha, layer.alpha)


def test_loaded_state_is_separate_from_saved_one(labels: Tensor) -> None:
    saved, layer = end_warm_up(PermutationLayer(labels, C)), PermutationLayer(labels, C)
    layer.load_state_dict(saved.state_dict())
    assert layer.learned.all()
    saved.learned.fill_(False)
    assert layer.learned.all()


def test_copy_has_separate_state(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C))
    visit(layer, torch.randn(N, C), range(N))
    other, before = copy.deepcopy(layer), copy.deepcopy(layer.state_dict())
    other.step()
    other.estimates.accuracy = 0.1
    assert all(torch.equal(layer.state_dict()[key], before[key]) for key in before if key != "estimates")
    assert layer.estimates.accuracy == 0.7
    layer.step()
    assert torch.equal(layer.table.values, other.table.values)
    assert layer.table.values.any()


@pytest.mark.parametrize("as_text", [True, False])
def test_state_matches_rows_by_id(as_text: bool) -> None:
    """Reversed, 100 rows removed, 50 added; held-out samples stay held out."""
    simulation = Simulation(rows=700)
    ids: list[Any] = [f"{row}.png" if as_text else 10 * row for row in range(700)]
    saved = PermutationLayer(simulation.labels[:600], 3, ids=ids[:600])
    trained = torch.ones(700)
    trained[held_out_rows(saved)] = 0
    for memorization in (0.0, 2.0, 2.0, 2.0, 2.0):
        visit(saved, simulation.logits(trained, memorization)[:600], range(600))
        saved.step()
    visit(saved, simulation.logits(trained, 2.0)[:300], range(300))
    saved.step()
    assert not saved.is_warm_up
    state = saved.state_dict()

    rows = torch.arange(100, 650).flip(0)  # row of the simulation of each new row
    layer = PermutationLayer(simulation.labels[rows], 3, ids=[ids[row] for row in rows])
    start = copy.deepcopy(layer)
    layer.load_state_dict(state)
    old = rows < 600
    for name in ("predictions", "loss_weight", "targets", "visited"):
        loaded, kept, initial = (getattr(one, name).values for one in (layer, saved, start))
        assert torch.equal(loaded[old], kept[rows[old]])
        assert torch.equal(loaded[~old], initial[~old])
    assert torch.equal(layer.table.values[old], saved.table.values[rows[old]])
    assert not layer.table.values[~old].any()
    assert layer.visited.values.sum() == 200
    held_out = {int((rows == row).nonzero()) for row in held_out_rows(saved).tolist() if row >= 100}
    assert held_out <= set(held_out_rows(layer).tolist())
    assert layer.estimates == saved.estimates
    assert torch.equal(layer.learned, saved.learned)
    for name in ("log_likelihood", "verdict_log_likelihood", "predicted_prior"):
        assert torch.equal(getattr(layer, name), getattr(saved, name))
    assert torch.equal(layer.corrected_labels()[old], saved.corrected_labels()[rows[old]])


def test_growth_is_measured_per_sample_after_reordering() -> None:
    """The labels of all held-out samples become a little more likely."""
    simulation = Simulation(noise=0.0)
    saved = PermutationLayer(simulation.labels, 3, ids=range(600), held_out=0.2)
    trained = saved.loss_weight.values != 0
    for epoch in range(10):
        visit(saved, 0.3 * min(epoch, 2) * simulation.logits(trained, 5.0 if epoch else 0.0), range(600))
        saved.step()
    order = torch.randperm(600)
    layer = PermutationLayer(simulation.labels[order], 3, ids=order.tolist(), held_out=0.2)
    layer.load_state_dict(saved.state_dict())
    for one, rows in ((saved, torch.arange(600)), (layer, order)):
        visit(one, 0.6 * simulation.logits(trained, 5.0)[rows], range(600))
        one.step()
        assert one.estimates.influence > 1
        assert one.is_warm_up
        assert not one.learned.any()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"held_out": 0.1},
            r"saved with held_out=0.1 instead of 0.05: build the layer with the settings of the state\.",
        ),
        ({"labels": (torch.arange(N) + 1) % C}, "the state was saved for other labels: 400 differ"),
        ({"labels": torch.arange(N + 1) % C}, "the state has 401 rows and this layer 400"),
        ({"num_classes": C + 1}, rf"the state has shape \({N}, {C + 1}\), but this layer has {C} classes"),
        ({"ids": range(N)}, "the state has ids and this layer does not"),
    ],
)
def test_unfitting_state_is_rejected_and_changes_nothing(labels: Tensor, other: dict[str, Any], message: str) -> None:
    layer, saved = (PermutationLayer(**({"labels": labels, "num_classes": C} | more)) for more in ({}, other))
    visit(saved, torch.randn(N, saved.num_classes), range(N))
    saved.step()
    before = copy.deepcopy(layer)
    with pytest.raises(RuntimeError, match=message):
        layer.load_state_dict(saved.state_dict())
    assert same_state(layer, before)


@pytest.mark.parametrize(
    "key",
    [
        "estimates",
        "delta",
        "predictions.values",
        "loss_weight.values",
        "targets.values",
        "visited.values",
        "predicted_prior",
        "log_likelihood",
        "verdict_log_likelihood",
        "learned",
        "held_out_log_prob",
    ],
)
def test_state_without_a_key_is_rejected(labels: Tensor, key: str) -> None:
    layer = PermutationLayer(labels, C)
    state = layer.state_dict()
    del state[key]
    with pytest.raises(RuntimeError, match=rf'Missing key\(s\) in state_dict: "{key}"'):
        layer.load_state_dict(state)


def test_state_moves_between_formats() -> None:
    simulation = Simulation()
    dense = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    for name in ("float64", "disk", "top_k"):
        layer = PermutationLayer(simulation.labels, 3, **FORMATS[name])
        layer.load_state_dict(dense.state_dict())
        assert layer.estimates == dense.estimates
        assert (layer.corrected_labels() == dense.corrected_labels()).float().mean() > 0.99, name
        assert torch.equal(layer.loss_weight.values, dense.loss_weight.values)


def test_top_k_of_all_classes_matches_dense_layer() -> None:
    simulation = Simulation()
    settings: dict[str, Any] = {"dtype": torch.float64}
    dense = simulation.train(PermutationLayer(simulation.labels, 3, **settings), 5)
    layer = simulation.train(PermutationLayer(simulation.labels, 3, top_k=3, **settings), 5)
    assert not layer.is_warm_up
    assert_close(layer.alpha, dense.alpha, rtol=1e-6, atol=1e-6)
    assert_close(layer.label_quality(), dense.label_quality(), rtol=1e-6, atol=1e-6)
    assert layer.table.values.any()


# --- Queries and bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"held_out": -0.1}, r"held_out must be a fraction in \[0, 1\), got -0.1"),
        ({"held_out": 1.0}, r"held_out must be a fraction in \[0, 1\), got 1.0"),
        ({"held_out": 50}, "got 50"),
        ({"held_out": float("nan")}, "got nan"),
        ({"held_out": "0.1"}, "got '0.1'"),
        ({"held_out": None}, "got None"),
        (
            {"dtype": torch.float16},
            "dtype must be one of torch.float32, torch.float64, torch.bfloat16; got torch.float16",
        ),
        ({"file": "rows.bin"}, "file must be True or None for this layer, got 'rows.bin'"),
        ({"file": Path("rows.bin")}, "file must be True or None for this layer"),
        ({"labels": [0, 1, 3]}, r"labels must be in 0\.\.2, but 1 position \(2\) is not"),
        ({"labels": [0, -1, 2]}, r"labels must be in 0\.\.\d, but 1 position \(1\) is not"),
        ({"labels": []}, r"N > 0; got int64 of shape \(0,\)"),
        ({"num_classes": 1}, "num_classes must be an integer >= 2, got 1"),
        ({"top_k": 0}, "top_k must be an integer >= 1, got 0"),
        ({"ids": ["a", "b", "a"]}, "'a' occurs more than once"),
    ],
)
def test_constructor_rejects_bad_input(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        PermutationLayer(**({"labels": [0, 1, 2], "num_classes": 3} | settings))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_warm_up_gives_no_verdict(labels: Tensor) -> None:
    layer = PermutationLayer(labels, C)
    for _ in range(2):
        visit(layer, 9.0 * one_hot((labels + 1) % C, C) + torch.randn(N, C), range(N))  # contradicts all labels
        layer.step()
    assert layer.is_warm_up
    assert torch.equal(layer.corrected_labels(), labels)
    assert torch.equal(layer.label_quality(), torch.ones(N))
    assert torch.equal(layer.class_probs(), one_hot(labels, C).float())
    assert torch.equal(layer.suspects(), torch.arange(N))
    assert torch.equal(layer.weights(), one_hot(labels, C).float())
    assert torch.equal(layer.alpha.amax(1), torch.zeros(N))
    assert (layer.alpha.sort(1).values[:, :-1] == label_noise.IMPOSSIBLE).all()


def test_class_probs_match_loop() -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    assert layer.learned.all()
    layer.estimates.credibility, layer.estimates.temperature = 0.8, 1.7
    layer.predictions.write(torch.tensor([5]), torch.zeros(1, 3))  # a sample that was not seen yet
    T = layer.verdict_log_likelihood.exp().T.tolist()
    t, y = mean_predictions(layer).tolist(), simulation.labels.tolist()
    probs = layer.class_probs()
    assert torch.equal(layer.corrected_labels(), probs.argmax(1))
    quality = layer.label_quality()
    assert_close(quality, probs[torch.arange(600), simulation.labels])
    assert ((quality >= 0) & (quality <= 1)).all()
    order = layer.suspects()
    assert sorted(order.tolist()) == list(range(600))
    assert (quality[order].diff() >= 0).all()
    assert torch.equal(layer.suspects(limit=7), order[:7])
    wrong_labels = simulation.labels != simulation.truth
    assert wrong_labels[order[:100]].float().mean() > 0.9

    for i in range(100):
        joint = [T[k][y[i]] * max(t[i][k], MIN_PROB) ** (1 / 1.7) for k in range(3)]
        w = 0.8 if i != 5 else 0.0
        expected = [w * joint[k] / sum(joint) + (1 - w) * (k == y[i]) for k in range(3)]
        assert probs[i].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_queries_contain_all_visits() -> None:
    """Predictions that wait to be averaged count in every query."""
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    logits = 9.0 * one_hot((simulation.labels + 1) % 3, 3) + simulation.noise
    visit(layer, logits[:300], range(300))
    layer.step()
    averaged = copy.deepcopy(layer)
    averaged.state_dict()
    for name in ("class_probs", "corrected_labels", "label_quality", "suspects"):
        waiting = copy.deepcopy(layer)
        assert torch.equal(getattr(waiting, name)(), getattr(averaged, name)())


def test_weak_classifier_changes_no_label() -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    assert not torch.equal(layer.corrected_labels(), simulation.labels)
    layer.estimates.credibility = label_noise.credibility(0.67)
    assert torch.equal(layer.corrected_labels(), simulation.labels)


def test_queries_warn_about_pending_updates(labels: Tensor) -> None:
    layer = PermutationLayer(labels, C)
    visit(layer, torch.randn(2, C), [0, 1])
    for query in (layer.corrected_labels, layer.label_quality, layer.suspects, layer.class_probs):
        with pytest.warns(UserWarning, match=r"1 batches are not applied .*: call layer.step\(\) first"):
            query()
    layer.step()
    layer.suspects()


# --- A class is not lost --------------------------------------------------------------------------------------------


def slow_class_data(sizes: tuple[int, int, int], slowdown: float, extra: int = 0) -> tuple[Tensor, Tensor]:
    """Return features and clean labels; class 1 is class 0 plus a feature that is learned ``slowdown`` times slower.

    ``extra`` random features identify the samples, so that labels can be memorized.
    """
    y = torch.arange(3).repeat_interleave(torch.tensor(sizes))
    x = torch.zeros(len(y), 3)
    x[y != 2, 0] = 1.0
    x[y == 1, 1] = slowdown**-0.5  # its weight moves and acts with this factor
    x[y == 2, 2] = 1.0
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([x, 0.3 * torch.randn(len(y), extra, generator=generator)], 1)
    order = torch.randperm(len(y), generator=generator)
    return x[order], y[order]


def class_accuracies(x: Tensor, y: Tensor, layer: Any = None, epochs: int = 150) -> list[float]:
    """Train a linear network with full batches, with cross-entropy or a layer; return its accuracy for each class."""
    weight, rows = torch.zeros(3, x.shape[1], requires_grad=True), torch.arange(len(y))
    for _ in range(epochs):
        logits = x @ weight.T
        loss = cross_entropy(logits, y) if layer is None else layer(logits, rows)
        (gradient,) = torch.autograd.grad(loss, weight)
        weight.data -= 3.0 * gradient
        if layer is not None:
            layer.step()
    hits = (x @ weight.T).argmax(1) == y
    return [float(hits[y == k].float().mean()) for k in range(3)]


@given(st.floats(20, 40), st.integers(480, 600), st.integers(120, 200))
@settings(max_examples=5)
def test_slowly_learned_class_is_not_lost(slowdown: float, fast: int, slow: int) -> None:
    """Until class 1 is learned, the network takes it for class 0; its clean labels must outlast that."""
    x, y = slow_class_data((fast, slow, 300), slowdown)
    layer, paper = PermutationLayer(y, 3), PermutationLayer.paper(y, 3, epochs=150)
    expected, got, of_paper = (class_accuracies(x, y, one) for one in (None, layer, paper))
    assert expected[1] == 1.0
    assert all(abs(a - b) <= 0.005 for a, b in zip(got, expected, strict=True))
    assert torch.equal(layer.corrected_labels(), y)
    assert (paper.corrected_labels() != y)[y == 1].float().mean() > 0.5
    assert of_paper[1] < 0.5


@pytest.mark.parametrize(
    ("sizes", "slowdown", "extra"),
    [((400, 300, 300), 20.0, 50), ((600, 400, 1000), 40.0, 200), ((1000, 700, 1000), 40.0, 400)],
)
def test_slowly_learned_class_is_not_lost_with_memorization(
    sizes: tuple[int, int, int], slowdown: float, extra: int
) -> None:
    """As before, with features by which labels are memorized while class 1 is learned."""
    x, y = slow_class_data(sizes, slowdown, extra)
    layer = PermutationLayer(y, 3)
    expected, got = class_accuracies(x, y), class_accuracies(x, y, layer)
    assert all(a >= b - 0.025 for a, b in zip(got, expected, strict=True))
    assert torch.equal(layer.corrected_labels(), y)
