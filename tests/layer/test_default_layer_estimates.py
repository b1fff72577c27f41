"""``PermutationLayer``: warm-up, held-out samples and estimates."""

import copy
import math
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot
from torch.testing import assert_close
from torch.utils.data.distributed import DistributedSampler

from permll import PermutationLayer
from permll.layer import transition
from tests.helpers.default_layer import ALL_FORMATS, C, N, Simulation, held_out_rows, same_state, visit


@pytest.mark.parametrize(("memorization", "ends"), [(0.0, False), (0.1, False), (2.0, True), (4.0, True)])
def test_warm_up_ends_with_memorization(memorization: float, ends: bool) -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 6, memorization)
    assert layer.is_warm_up is not ends
    if not ends:
        assert torch.equal(layer.log_likelihood, transition.log_identity(3))
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


@pytest.mark.parametrize("epoch", range(3))
def test_held_out_samples_are_spread_over_epoch_of_distributed_sampler(epoch: int) -> None:
    """If they came first, the network would differ between their predictions and those of trained samples."""
    layer = PermutationLayer(torch.arange(2000) % 10, 10)
    sampler = DistributedSampler(range(2000), num_replicas=1, rank=0)
    sampler.set_epoch(epoch)
    place = torch.tensor(list(sampler)).argsort()
    assert len(held_out_rows(layer)) == 100
    assert abs(float(place[held_out_rows(layer)].double().mean()) - 1000) < 4 * 2000 / math.sqrt(12 * 100)


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
        impossible = layer.log_likelihood <= transition.IMPOSSIBLE
        closed = (is_slow[:, None] | is_slow) if epoch else torch.ones(C, C, dtype=torch.bool)
        assert torch.equal(impossible, closed & ~torch.eye(C, dtype=torch.bool))
    layer.update_estimates(logits, labels, memorized, range(N))
    assert layer.learned.all()
    assert (layer.log_likelihood > transition.IMPOSSIBLE).all()


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
    monkeypatch.setattr(transition, "MAX_CLASSES", 2)
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
