"""Estimators of the noise: against loops, against what was put in, and where there is nothing to see."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.functional.noise_rate import (
    conservative_noise_rate,
    fit_joint,
    joint_by_likelihood,
    joint_from_label_probs,
    noise_rate,
    noise_rate_from_joint,
    noise_rate_from_mixture,
    smoothed_transition,
    transition_from_joint,
)

PAIR = torch.tensor([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]], dtype=torch.float64)
EVEN = 0.6 * torch.eye(3, dtype=torch.float64) + 0.4 / 3


def drawn(T: Tensor, rows: int, temperature: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, given labels and clean classes, where softmax(logits / temperature) is right about the classes."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, len(T), generator=generator)
    clean = (logits.softmax(1)).multinomial(1, generator=generator)[:, 0]
    given_labels = T[clean].multinomial(1, generator=generator)[:, 0]
    return temperature * logits, given_labels, clean


@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 99))
def test_the_joint_of_beliefs_is_what_loops_make(rows: int, classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    beliefs = torch.rand(rows, classes, generator=generator).softmax(1)
    labels = torch.randint(classes, (rows,), generator=generator)
    joint = joint_from_label_probs(beliefs, labels)
    for i in range(classes):
        for j in range(classes):
            expected = sum(beliefs[n, i].item() for n in range(rows) if labels[n] == j) / rows
            assert joint[i, j].item() == pytest.approx(expected, abs=1e-6)
    assert joint.sum().item() == pytest.approx(1, abs=1e-6)
    wrong = sum(1 - beliefs[n, labels[n]].item() for n in range(rows)) / rows
    assert noise_rate_from_joint(joint) == pytest.approx(wrong, abs=1e-6)
    torch.testing.assert_close(transition_from_joint(joint).sum(1), torch.ones(classes, dtype=torch.float64))


@pytest.mark.parametrize("T", [PAIR, EVEN], ids=["pair", "even"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 4.0])
def test_noise_is_found_whatever_the_temperature(T: Tensor, temperature: float) -> None:
    logits, labels, clean = drawn(T, 4000, temperature)
    fit = fit_joint(logits, labels)
    truth = (labels != clean).double().mean().item()
    assert noise_rate_from_joint(fit.joint) == pytest.approx(truth, abs=0.03)
    torch.testing.assert_close(transition_from_joint(fit.joint), T, atol=0.06, rtol=0)
    assert fit.temperature == pytest.approx(temperature, rel=0.2)
    assert noise_rate(logits, labels) == pytest.approx(noise_rate_from_joint(fit.joint))


@pytest.mark.parametrize("T", [PAIR, EVEN], ids=["pair", "even"])
def test_em_ends_where_another_step_leads_nowhere(T: Tensor) -> None:
    """A step by loops: c rows of symmetric noise for each class beside those that were seen."""
    logits, labels, _ = drawn(T, 300, 1.0)
    fit = fit_joint(logits, labels)
    p = (logits.double() / fit.temperature).softmax(1).tolist()
    found, rate = [], noise_rate_from_joint(fit.joint)
    for i in range(3):
        counts = [300 * fit.joint[i, j].item() + 3 * (1 - rate if i == j else rate / 2) for j in range(3)]
        found.append([count / sum(counts) for count in counts])
    torch.testing.assert_close(smoothed_transition(fit.joint, 300), torch.tensor(found, dtype=torch.float64))
    joint = torch.zeros(3, 3, dtype=torch.float64)
    for n, y in enumerate(labels.tolist()):
        r = [p[n][i] * found[i][y] for i in range(3)]
        for i in range(3):
            joint[i, y] += r[i] / sum(r) / 300
    torch.testing.assert_close(joint, fit.joint, atol=2e-4, rtol=0)


def test_few_rows_of_many_classes_do_not_pass_for_noise() -> None:
    """A network that knows how often it errs, and labels without noise: 1,200 rows for 6,400 pairs of classes."""
    generator = torch.Generator().manual_seed(0)
    logits = 3.5 * torch.randn(1200, 80, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    assert noise_rate(logits, labels) < 0.05
    assert noise_rate_from_joint(fit_joint(logits, labels, groups=1, smoothing=0.0).joint) > 0.1


@pytest.mark.parametrize("T", [PAIR, EVEN], ids=["pair", "even"])
def test_a_network_that_knows_is_believed(T: Tensor) -> None:
    logits, labels, _ = drawn(T, 4000, 1.0)
    assert conservative_noise_rate(logits, labels) == noise_rate(logits, labels) < noise_rate_from_mixture(logits, labels)


def test_what_a_network_does_not_know_is_not_all_noise() -> None:
    """All labels are right, but the network hardly knows them."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (1000,), generator=generator)
    logits = torch.randn(1000, 10, generator=generator)
    logits[torch.arange(1000), labels] += 0.3
    assert noise_rate(logits, labels) > 0.7
    assert conservative_noise_rate(logits, labels) < 0.6


def test_one_row_tells_nothing() -> None:
    fit = fit_joint(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    assert fit.error == 1.0
    assert fit.joint.isfinite().all()


def test_the_standard_error_is_that_of_many_draws() -> None:
    fits = [fit_joint(*drawn(EVEN, 200, 1.0, seed)[:2], groups=10) for seed in range(12)]
    spread = torch.tensor([noise_rate_from_joint(fit.joint) for fit in fits]).std().item()
    mean = sum(fit.error for fit in fits) / len(fits)
    assert spread / 2 < mean < 2 * spread


def test_without_noise_there_is_none() -> None:
    logits = 8 * torch.eye(4).repeat(25, 1)
    labels = torch.arange(4).repeat(25)
    assert noise_rate(logits, labels) == pytest.approx(0, abs=0.01)
    assert noise_rate_from_mixture(logits, labels) == 0.0, "one value makes no two humps"


def test_many_rows_are_as_good_as_enough() -> None:
    logits, labels, clean = drawn(EVEN, 50_000, 1.0)
    assert noise_rate_from_joint(joint_by_likelihood(logits, labels)) == pytest.approx(
        (labels != clean).double().mean().item(), abs=0.02
    )


def test_labels_that_the_network_excludes_do_no_harm() -> None:
    logits = torch.tensor([[1000.0, 0.0, -1000.0]]).repeat(10, 1)
    labels = torch.tensor([0] * 8 + [2] * 2)
    joint = joint_by_likelihood(logits, labels)
    assert joint.isfinite().all()
    assert noise_rate_from_joint(joint) == pytest.approx(0.2, abs=1e-6)


def test_the_mixture_counts_the_upper_hump() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 6 * torch.eye(3).repeat(100, 1) + 0.5 * torch.randn(300, 3, generator=generator)
    labels = torch.arange(3).repeat(100)
    labels[:60] = (labels[:60] + 1) % 3
    assert noise_rate_from_mixture(logits, labels) == pytest.approx(0.2, abs=0.02)
