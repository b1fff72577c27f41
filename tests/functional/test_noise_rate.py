"""Noise estimators against loops and against simulated noise."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.functional.noise_rate import (
    conservative_noise_rate,
    estimate_noise_rate,
    fit_joint,
    joint_from_label_probs,
    noise_rate_from_joint,
    noise_rate_from_mixture,
    smoothed_transition,
    transition_from_joint,
)

PAIR = torch.tensor([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]], dtype=torch.float64)
SYMMETRIC = 0.6 * torch.eye(3, dtype=torch.float64) + 0.4 / 3


def sample_labels(T: Tensor, rows: int, temperature: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, given labels and clean classes; softmax(logits / temperature) is calibrated."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, len(T), generator=generator)
    clean = (logits.softmax(1)).multinomial(1, generator=generator)[:, 0]
    given_labels = T[clean].multinomial(1, generator=generator)[:, 0]
    return temperature * logits, given_labels, clean


@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 99))
def test_joint_from_label_probs_matches_loops(rows: int, classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    label_probs = torch.rand(rows, classes, generator=generator).softmax(1)
    labels = torch.randint(classes, (rows,), generator=generator)
    joint = joint_from_label_probs(label_probs, labels)
    for i in range(classes):
        for j in range(classes):
            expected = sum(label_probs[n, i].item() for n in range(rows) if labels[n] == j) / rows
            assert joint[i, j].item() == pytest.approx(expected, abs=1e-6)
    assert joint.sum().item() == pytest.approx(1, abs=1e-6)
    wrong = sum(1 - label_probs[n, labels[n]].item() for n in range(rows)) / rows
    assert noise_rate_from_joint(joint) == pytest.approx(wrong, abs=1e-6)
    torch.testing.assert_close(transition_from_joint(joint).sum(1), torch.ones(classes, dtype=torch.float64))


@pytest.mark.parametrize("T", [PAIR, SYMMETRIC], ids=["pair", "even"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 4.0])
def test_fit_joint_recovers_noise_at_any_temperature(T: Tensor, temperature: float) -> None:
    logits, labels, clean = sample_labels(T, 4000, temperature)
    fit = fit_joint(logits, labels)
    truth = (labels != clean).double().mean().item()
    assert noise_rate_from_joint(fit.joint) == pytest.approx(truth, abs=0.03)
    torch.testing.assert_close(transition_from_joint(fit.joint), T, atol=0.06, rtol=0)
    assert fit.temperature == pytest.approx(temperature, rel=0.2)
    assert estimate_noise_rate(logits, labels) == pytest.approx(noise_rate_from_joint(fit.joint))


@pytest.mark.parametrize("T", [PAIR, SYMMETRIC], ids=["pair", "even"])
def test_fit_joint_is_a_fixed_point_of_em(T: Tensor) -> None:
    """One EM step with loops, smoothed by c rows of symmetric noise per class."""
    logits, labels, _ = sample_labels(T, 300, 1.0)
    fit = fit_joint(logits, labels)
    p = (logits.double() / fit.temperature).softmax(1).tolist()
    T_smoothed, rate = [], noise_rate_from_joint(fit.joint)
    for i in range(3):
        counts = [300 * fit.joint[i, j].item() + 3 * (1 - rate if i == j else rate / 2) for j in range(3)]
        T_smoothed.append([count / sum(counts) for count in counts])
    torch.testing.assert_close(smoothed_transition(fit.joint, 300), torch.tensor(T_smoothed, dtype=torch.float64))
    joint = torch.zeros(3, 3, dtype=torch.float64)
    for n, y in enumerate(labels.tolist()):
        r = [p[n][i] * T_smoothed[i][y] for i in range(3)]
        for i in range(3):
            joint[i, y] += r[i] / sum(r) / 300
    torch.testing.assert_close(joint, fit.joint, atol=2e-4, rtol=0)


def test_smoothing_prevents_noise_from_few_rows() -> None:
    """A calibrated network and clean labels: 1,200 rows for 6,400 pairs of classes."""
    generator = torch.Generator().manual_seed(0)
    logits = 3.5 * torch.randn(1200, 80, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    assert estimate_noise_rate(logits, labels) < 0.05
    assert noise_rate_from_joint(fit_joint(logits, labels, smoothing=0.0).joint) > 0.1


@pytest.mark.parametrize("T", [PAIR, SYMMETRIC], ids=["pair", "even"])
def test_conservative_rate_of_accurate_network_is_likelihood_rate(T: Tensor) -> None:
    logits, labels, _ = sample_labels(T, 4000, 1.0)
    assert (
        conservative_noise_rate(logits, labels)
        == estimate_noise_rate(logits, labels)
        < noise_rate_from_mixture(logits, labels)
    )


def test_conservative_rate_is_lower_for_undertrained_network() -> None:
    """All labels are correct, but the network is inaccurate."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (1000,), generator=generator)
    logits = torch.randn(1000, 10, generator=generator)
    logits[torch.arange(1000), labels] += 0.3
    assert estimate_noise_rate(logits, labels) > 0.7
    assert conservative_noise_rate(logits, labels) < 0.6


def test_fit_joint_of_one_row() -> None:
    fit = fit_joint(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    assert fit.joint.isfinite().all()


def test_noise_rate_of_clean_labels_is_zero() -> None:
    logits = 8 * torch.eye(4).repeat(25, 1)
    labels = torch.arange(4).repeat(25)
    assert estimate_noise_rate(logits, labels) == pytest.approx(0, abs=0.01)
    assert noise_rate_from_mixture(logits, labels) == 0.0, "one value gives no mixture"


def test_fit_joint_subsamples_many_rows() -> None:
    logits, labels, clean = sample_labels(SYMMETRIC, 50_000, 1.0)
    assert noise_rate_from_joint(fit_joint(logits, labels).joint) == pytest.approx(
        (labels != clean).double().mean().item(), abs=0.02
    )


def test_fit_joint_with_zero_probabilities() -> None:
    logits = torch.tensor([[1000.0, 0.0, -1000.0]]).repeat(10, 1)
    labels = torch.tensor([0] * 8 + [2] * 2)
    joint = fit_joint(logits, labels).joint
    assert joint.isfinite().all()
    assert noise_rate_from_joint(joint) == pytest.approx(0.2, abs=1e-6)


def test_noise_rate_from_mixture_counts_upper_component() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 6 * torch.eye(3).repeat(100, 1) + 0.5 * torch.randn(300, 3, generator=generator)
    labels = torch.arange(3).repeat(100)
    labels[:60] = (labels[:60] + 1) % 3
    assert noise_rate_from_mixture(logits, labels) == pytest.approx(0.2, abs=0.02)
