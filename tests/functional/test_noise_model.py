"""Noise model and label posterior against their definitions and against simulated noise."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.functional.noise_model import (
    CONSERVATIVE_FACTOR,
    MAX_LABEL_BIAS,
    SMOOTHING,
    NoiseModel,
    calibrated_class_probs,
    confusion_prior,
    conservative_noise_model,
    fit_label_bias,
    fit_noise_model,
    label_posterior,
)
from permll.functional.noise_rate import smoothed_transition


def random_case(rows: int, classes: int, seed: int) -> tuple[Tensor, Tensor, NoiseModel]:
    draw = torch.Generator().manual_seed(seed)
    log_p = torch.randn(rows, classes, generator=draw).mul(3).log_softmax(-1)
    transition = (torch.rand(classes, classes, generator=draw) + 3 * torch.eye(classes)).double()
    noise_model = NoiseModel(
        transition / transition.sum(1, keepdim=True), 0.5 + seed % 5 / 2, 0.2, 0.01, error_floor=seed % 3 / 50
    )
    return log_p, torch.randint(classes, (rows,), generator=draw), noise_model


def sample_noise_model(seed: int, rows: int = 20_000, classes: int = 4) -> tuple[Tensor, Tensor, Tensor, NoiseModel]:
    """Draw true classes from the predictions and labels from a known transition matrix."""
    draw = torch.Generator().manual_seed(seed)
    log_p = torch.randn(rows, classes, generator=draw).mul(2).log_softmax(-1)
    clean = torch.multinomial(log_p.exp(), 1, generator=draw)[:, 0]
    transition = torch.full((classes, classes), 0.05).fill_diagonal_(0.85)
    labels = torch.multinomial(transition[clean], 1, generator=draw)[:, 0]
    return log_p, clean, labels, NoiseModel(transition.double(), 1.0, 0.15, 0.0)


@given(st.integers(1, 30), st.integers(2, 8), st.integers(0, 1000), st.floats(0, 8))
def test_label_posterior_matches_definition(rows: int, classes: int, seed: int, label_bias: float) -> None:
    log_p, labels, noise_model = random_case(rows, classes, seed)
    posterior = label_posterior(log_p, labels, noise_model, label_bias)
    for n in range(rows):
        y = int(labels[n])
        p = [math.exp(float(log_p[n, k].double()) / noise_model.temperature) for k in range(classes)]
        parts = [
            ((1 - noise_model.error_floor) * p[k] / sum(p) + noise_model.error_floor / classes)
            * float(noise_model.transition[k, y])
            * (math.exp(-label_bias) if k == y else 1.0)
            for k in range(classes)
        ]
        for k in range(classes):
            assert float(posterior[n, k]) == pytest.approx(parts[k] / sum(parts), rel=1e-9)


@given(st.integers(5, 60), st.integers(2, 8), st.integers(0, 1000), st.floats(0.01, 0.9))
def test_fit_label_bias_matches_rate(rows: int, classes: int, seed: int, rate: float) -> None:
    log_p, labels, noise_model = random_case(rows, classes, seed)
    before = 1 - label_posterior(log_p, labels, noise_model).gather(1, labels[:, None]).mean().item()
    label_bias = fit_label_bias(log_p, labels, noise_model, rate)
    after = 1 - label_posterior(log_p, labels, noise_model, label_bias).gather(1, labels[:, None]).mean().item()
    assert 0 <= label_bias <= MAX_LABEL_BIAS
    if rate > before and label_bias < MAX_LABEL_BIAS - 1e-6:
        assert after == pytest.approx(rate, abs=1e-6)
    elif rate <= before:
        assert label_bias == pytest.approx(0, abs=1e-6)


def test_fit_noise_model_recovers_rate_and_is_calibrated() -> None:
    log_p, clean, labels, _ = sample_noise_model(seed=0)
    noise_model = fit_noise_model(log_p, labels)
    assert noise_model.rate == pytest.approx((labels != clean).double().mean().item(), abs=0.02)
    r = label_posterior(log_p, labels, noise_model)
    quality = r.gather(1, labels[:, None])[:, 0]
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        inside = (quality >= low) & (quality < low + 0.2)
        right = (labels == clean)[inside].double().mean().item()
        assert right == pytest.approx(quality[inside].mean().item(), abs=0.04)
    assert fit_label_bias(log_p, labels, noise_model) < 0.1  # no label is memorized


def test_fit_label_bias_recovers_bias() -> None:
    """Predictions with a label bias of three nats."""
    fair, _, labels, noise_model = sample_noise_model(seed=1)
    biased = (fair + 3 * torch.nn.functional.one_hot(labels, fair.shape[1])).log_softmax(-1)
    assert fit_label_bias(biased, labels, noise_model) == pytest.approx(3, abs=0.15)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.1))
def test_shrunk_rate_keeps_significant_rates(rate: float, error: float, error_floor: float) -> None:
    left = NoiseModel(torch.eye(2), 1.0, rate, error, error_floor).shrunk_rate
    assert error_floor / 10 <= left <= max(rate, error_floor / 10)
    if error <= rate / 10 and rate > error_floor:
        assert left >= 0.989 * rate
    if error >= rate:
        assert left == pytest.approx(error_floor / 10, abs=1e-12)


@pytest.mark.parametrize("confident", [3.0, 30.0])
def test_single_confident_error_is_not_a_label_error(confident: float) -> None:
    labels = torch.arange(4).repeat(50)
    log_p = (confident * torch.eye(4)).repeat(50, 1).log_softmax(-1)
    noise_model = fit_noise_model(log_p, labels)
    assert noise_model.rate < 0.02
    confused = label_posterior(log_p[:1], torch.tensor([1]), noise_model)
    assert confused.argmax() == 1
    assert (
        label_posterior(log_p[:1], torch.tensor([0]), noise_model)[0, 0] > confused[0, 1]
    )  # labels still have an order


def test_transition_has_shrunk_rate() -> None:
    log_p, clean, labels, _ = sample_noise_model(seed=2, rows=300)
    noise_model = fit_noise_model(log_p, labels)
    assert 0 < noise_model.shrunk_rate < noise_model.rate
    assert torch.allclose(noise_model.transition.sum(1), torch.ones(4).double())
    weights = torch.bincount(clean, minlength=4) / len(clean)
    wrong = 1 - float((weights * noise_model.transition.diagonal()).sum())
    assert wrong == pytest.approx(noise_model.shrunk_rate, rel=0.2)


@given(st.integers(1, 20), st.integers(2, 6), st.integers(0, 1000))
def test_confusion_prior_matches_definition(rows: int, classes: int, seed: int) -> None:
    log_p, _, noise_model = random_case(rows, classes, seed)
    p = (log_p.double() / noise_model.temperature).softmax(-1)
    posterior, expected = (
        confusion_prior(log_p, noise_model.temperature),
        CONSERVATIVE_FACTOR * (1 - p.max(1).values).mean(),
    )
    for k in range(classes):
        members = [row for row in p if row.argmax() == k]
        other_classes = torch.ones(classes, dtype=torch.float64) if not members else torch.stack(members).sum(0)
        other_classes[k] = 0
        assert torch.allclose(posterior[k], expected * other_classes / other_classes.sum(), atol=1e-12)


@given(st.integers(1, 20), st.integers(2, 6), st.integers(0, 1000))
def test_confusion_is_mixed_into_predictions(rows: int, classes: int, seed: int) -> None:
    log_p, labels, noise_model = random_case(rows, classes, seed)
    noise_model = noise_model._replace(confusion=confusion_prior(log_p, noise_model.temperature), temperature=1.0)
    p = log_p.double().softmax(-1)
    mixed = torch.stack(
        [(1 - noise_model.confusion[row.argmax()].sum()) * row + noise_model.confusion[row.argmax()] for row in p]
    )
    plain = noise_model._replace(confusion=None)
    assert torch.allclose(
        label_posterior(log_p, labels, noise_model), label_posterior(mixed.log(), labels, plain), atol=1e-9
    )


def test_conservative_model_has_lowest_plausible_rate() -> None:
    log_p = (0.98 * torch.eye(3) + 0.01).log().repeat(100, 1)
    labels = torch.arange(3).repeat(100)
    labels[:30:3] = 1  # noise from class 0 to class 1
    noise_model = fit_noise_model(log_p, labels)
    conservative = conservative_noise_model(noise_model, log_p, labels)
    assert 0 < conservative.rate == conservative.shrunk_rate < noise_model.interval[0] < noise_model.shrunk_rate
    assert torch.allclose(conservative.transition.sum(1), torch.ones(3, dtype=torch.float64))
    assert conservative.transition[0, 1] > 3 * conservative.transition[0, 2]
    assert fit_label_bias(log_p, labels, conservative) <= fit_label_bias(log_p, labels, noise_model)
    right = torch.arange(3).repeat(100)
    nothing_wrong = conservative_noise_model(fit_noise_model(log_p, right), log_p, right)
    assert (
        label_posterior(log_p, right, nothing_wrong, fit_label_bias(log_p, right, nothing_wrong)).argmax(1).equal(right)
    )


def test_conservative_model_matches_em_by_loops() -> None:
    log_p, _, labels, _ = sample_noise_model(seed=3, rows=400)
    noise_model = fit_noise_model(log_p, labels)
    conservative = conservative_noise_model(noise_model, log_p, labels)
    q, labels = calibrated_class_probs(log_p, conservative).numpy(), labels.numpy()
    T = noise_model.transition.double().numpy()
    for _ in range(500):  # EM
        r = q * T[:, labels].T
        r /= r.sum(1, keepdims=True)
        joint = np.stack([r[labels == y].sum(0) for y in range(4)], 1) / len(q)
        T = smoothed_transition(torch.from_numpy(joint), len(q), SMOOTHING).numpy()
    rate = 1 - np.trace(joint)
    assert 0 < rate < noise_model.rate
    assert conservative.rate == pytest.approx(rate - 1.96 * noise_model.error, abs=1e-3)
    off = ~np.eye(4, dtype=bool)
    assert np.allclose(conservative.transition.numpy()[off], T[off] * conservative.rate / rate, atol=2e-3)


def test_conservative_model_distrusts_confused_classes() -> None:
    """Classes 0 and 1 are confused, random_case of them with high confidence; class 2 is separate."""
    draw = torch.Generator().manual_seed(0)
    fraction = torch.rand(3000, generator=draw).double()
    p = torch.stack([fraction, 1 - fraction, torch.zeros(3000)], 1)
    p[::3] = torch.tensor([0.0, 0.0, 1.0])
    labels = torch.multinomial(p, 1, generator=draw)[:, 0]
    logits = (0.999 * p + 0.001 / 3).log()
    confident = (labels < 2) & (torch.rand(3000, generator=draw) < 0.05)
    logits[confident] = 8 * torch.nn.functional.one_hot(1 - labels[confident], 3).double()
    noise_model = fit_noise_model(logits.log_softmax(-1), labels)
    confused = logits[confident].log_softmax(-1)
    confidence = label_posterior(confused, labels[confident], noise_model).amax(1)
    conservative_probs = label_posterior(
        confused, labels[confident], conservative_noise_model(noise_model, logits.log_softmax(-1), labels)
    )
    conservative_probs = conservative_probs.gather(1, 1 - labels[confident][:, None])
    assert confidence.mean() > 0.95  # although no label is wrong
    assert conservative_probs.max() < 0.9
