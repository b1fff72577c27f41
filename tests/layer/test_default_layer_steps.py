"""``PermutationLayer``, the default layer: loss and updates, against plain loops."""

import copy
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch.testing import assert_close

from permll import PermutationLayer
from permll.layer import equations, module
from permll.layer.autograd import Reduction
from permll.layer.label_noise import MIN_PROB
from permll.layer.module import AVERAGING, INFLUENCE_ON_WRONG, MAX_MONITORED
from tests.helpers.default_layer import (
    EXACT,
    C,
    N,
    Simulation,
    end_warm_up,
    held_out_rows,
    mean_predictions,
    same_state,
    visit,
)
from tests.helpers.pure_python import log_softmax, softmax


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(N) % C


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
    """The loss has no graph break, and ``step`` is called in a graph, too."""
    x = torch.randn(N, 6)

    def train(compiled: bool) -> list[Tensor]:
        torch.manual_seed(1)
        net, layer = nn.Linear(6, C), end_warm_up(PermutationLayer(labels, C), influence=0.1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

        def loss(x: Tensor, index: Tensor) -> Tensor:
            return layer(net(x), index)

        def step() -> Tensor:
            layer.step()
            return layer.labels.sum()

        if compiled:
            loss, step = (torch.compile(function, backend=BACKEND, fullgraph=True) for function in (loss, step))
        losses = []
        for _ in range(2):
            for index in torch.arange(N).split(90):  # the last batch is smaller
                optimizer.zero_grad()
                losses.append(loss(x[index], index))
                losses[-1].backward()
                optimizer.step()
                step()
        losses = [one.detach() for one in losses]
        assert layer.table.values.any()
        return [*losses, *layer.state_dict().values(), net.weight.detach()]

    for actual, expected in zip(train(compiled=True), train(compiled=False), strict=True):
        assert_close(actual, expected, rtol=1e-4, atol=1e-5)
