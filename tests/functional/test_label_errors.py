"""Errors in labels against plain loops, on simulated noise of each kind."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional import posterior as posterior_module
from permll.functional.label_errors import RateInterval, disagreement_weight, find_errors
from permll.functional.posterior import label_log_odds, label_posterior, shift_for_rate
from permll.functional.transition_fit import EM_STEPS, POWERS, PSEUDO_SAMPLES, fit_power, fit_transition

Matrix = list[list[float]]


def random_rows(seed: int, classes: int, rows: int, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and labels that mostly agree."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (rows,), generator=generator)
    logits = sharpness * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    logits.scatter_add_(1, labels[:, None], torch.full((rows, 1), 3.0, dtype=torch.float64))
    return logits.log_softmax(1), labels


def slow_posterior(log_p: Matrix, labels: list[int], power: float, T: Matrix, shift: float) -> Matrix:
    rows = []
    for row, y in zip(log_p, labels, strict=True):
        scores = [math.exp(power * value) * T[k][y] * math.exp(-shift * (k == y)) for k, value in enumerate(row)]
        rows.append([score / sum(scores) for score in scores])
    return rows


def slow_transition(log_p: Matrix, labels: list[int], power: float) -> Matrix:
    classes = len(log_p[0])
    T = [[0.3 / classes + 0.7 * (k == y) for y in range(classes)] for k in range(classes)]
    for _ in range(EM_STEPS):
        r = slow_posterior(log_p, labels, power, T, 0.0)
        counts = [
            [sum(row[k] for row, label in zip(r, labels, strict=True) if label == y) for y in range(classes)]
            for k in range(classes)
        ]
        rate = 1 - sum(counts[k][k] for k in range(classes)) / len(labels)
        for k in range(classes):
            for y in range(classes):
                counts[k][y] += PSEUDO_SAMPLES * (1 - rate if k == y else rate / (classes - 1))
        T = [[value / sum(row) for value in row] for row in counts]
    return T


def log_likelihood(log_p: Matrix, labels: list[int], power: float, rate: float) -> float:
    total = 0.0
    for row, y in zip(log_p, labels, strict=True):
        powers = [math.exp(power * value) for value in row]
        q = powers[y] / sum(powers)
        total += math.log((1 - rate) * q + rate * (1 - q) / (len(row) - 1))
    return total


@given(st.integers(0, 2**31), st.integers(2, 5), st.integers(1, 40), st.sampled_from([1.0, 1.7]))
def test_transition_and_posterior_match_loops(seed: int, classes: int, rows: int, power: float) -> None:
    log_p, labels = random_rows(seed, classes, rows)
    T = fit_transition(log_p, labels, power)
    expected = slow_transition(log_p.tolist(), labels.tolist(), power)
    assert_close(T, torch.tensor(expected).double(), rtol=1e-6, atol=1e-9)
    shifts = torch.randn(rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    r = label_posterior(log_p, labels, power, T, shifts)
    log_odds = label_log_odds(log_p, labels, power, T)
    for i in range(rows):
        arguments = log_p[i : i + 1].tolist(), [int(labels[i])], power, T.tolist()
        assert_close(r[i], torch.tensor(slow_posterior(*arguments, float(shifts[i]))[0]), rtol=1e-4, atol=1e-6)
        quality = slow_posterior(*arguments, 0.0)[0][int(labels[i])]
        assert float(torch.sigmoid(log_odds[i])) == pytest.approx(quality, rel=1e-9)


@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from([0.5, 2.0, 5.0]))
def test_power_is_the_likeliest(seed: int, classes: int, sharpness: float) -> None:
    log_p, labels = random_rows(seed, classes, 30, sharpness)
    rates = [i / 40 * (1 - 1 / classes) for i in range(40)]
    fits = {
        power: max(log_likelihood(log_p.tolist(), labels.tolist(), power, rate) for rate in rates) for power in POWERS
    }
    power, best = fit_power(log_p, labels), max(fits, key=lambda one: fits[one])
    if power > 1:
        assert fits[power] > fits[best] - 0.2  # the grid of rates is coarse
    else:
        assert best <= 1 or fits[best] - max(fit for one, fit in fits.items() if one <= 1) < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_power_of_overconfident_classifier_with_noise_by_class(seed: int) -> None:
    """Labels that are wrong by class do not make a calibrated classifier look overconfident; overconfidence shows."""
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(4000, 5, generator=generator, dtype=torch.float64)
    truth = logits.softmax(1).multinomial(1, generator=generator)[:, 0]
    wrong = torch.rand(4000, generator=generator) < 0.3
    labels = torch.where(wrong, (truth + 1) % 5, truth)
    assert fit_power(logits.log_softmax(1), labels) == pytest.approx(1, abs=0.2)
    assert fit_power((2 * logits).log_softmax(1), labels) == pytest.approx(0.5, abs=0.1)
    assert find_errors((2 * logits).log_softmax(1), labels).rate == pytest.approx(0.3, abs=0.03)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_weight_of_disagreement(low: float, disagreement: float, majority: float) -> None:
    weight = disagreement_weight(low, disagreement, majority)
    assert 0 <= weight <= disagreement_weight(low, disagreement) <= 1
    if 1 - disagreement <= majority or low >= 0.6 * disagreement:
        assert weight == pytest.approx(0, abs=1e-9)
    if low <= 0.3 * disagreement and 0 < disagreement <= 0.5:
        assert disagreement_weight(low, disagreement) == pytest.approx(1)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_classifier_that_knows_nothing_finds_nothing(classes: int) -> None:
    labels = torch.arange(600) % classes
    uniform = torch.zeros(600, classes)
    chance = torch.randn(600, classes, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    for log_p in (uniform, chance):
        errors = find_errors(log_p, labels)
        assert errors.rate == 0
        assert errors.quality.min() > 0.5


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_labels_that_are_all_wrong_have_finite_quality(floor: float) -> None:
    labels = torch.arange(40) % 2
    p = torch.nn.functional.one_hot(1 - labels, 2).double().clamp(floor, 1 - floor)
    errors = find_errors(p.clamp_min(1e-12).log(), labels)
    assert errors.quality.isfinite().all()
    assert errors.posterior.isfinite().all()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.floats(0, 1))
def test_shift_does_not_separate_equal_values(values: list[int], rate: float) -> None:
    log_odds = torch.tensor(values, dtype=torch.float64)
    shifted = log_odds - shift_for_rate(log_odds, rate)
    assert (shifted != 0).all()
    count, ties = int((shifted < 0).sum()), max(values.count(value) for value in values)
    assert abs(count - round(rate * len(values))) <= ties / 2


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=30, unique=True), st.floats(0, 1))
def test_shift_makes_the_rate_negative(values: list[float], rate: float) -> None:
    log_odds = torch.tensor(values, dtype=torch.float64)
    shifted = log_odds - shift_for_rate(log_odds, rate)
    count = round(rate * len(values))
    assert int((shifted < 0).sum()) <= count <= int((shifted <= 0).sum())


def simulate(kind: str, seed: int, rows: int = 6000, classes: int = 6, rate: float = 0.25) -> tuple[Tensor, ...]:
    """Return log-probabilities of an imperfect classifier, labels and classes.

    ``random``: labels are replaced at random, and the classifier is less certain of the classes than it could be.
    ``people``: each sample has its own distribution of labels, which the classifier knows; the class is the most
    frequent label.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    if kind == "people":
        p = (0.45 * logits).softmax(1)
        return p.log(), p.multinomial(1, generator=generator)[:, 0], p.argmax(1)
    q = (1.5 * logits).softmax(1)
    truth = q.multinomial(1, generator=generator)[:, 0]
    offset = torch.randint(1, classes, (rows,), generator=generator)
    labels = torch.where(torch.rand(rows, generator=generator) < rate, (truth + offset) % classes, truth)
    return (0.7 * logits).log_softmax(1), labels, truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["random", "people"])
def test_rate_of_simulated_noise(kind: str, seed: int) -> None:
    log_p, labels, truth = simulate(kind, seed)
    wrong = labels != truth
    errors = find_errors(log_p, labels)
    low, high = errors.limits
    assert errors.rate == pytest.approx(float(wrong.double().mean()), rel=0.1)
    assert low <= errors.rate <= high
    flagged = errors.quality < 0.5
    assert float(flagged.double().mean()) == pytest.approx(errors.rate, rel=0.2)
    f1 = 2 * float((flagged & wrong).sum()) / float(flagged.sum() + wrong.sum())
    assert f1 > 0.85
    after = torch.where(flagged, errors.posterior.argmax(1), labels)
    assert float((after == truth).double().mean()) > float((~wrong).double().mean()) + 0.05
    assert float(1 - errors.joint.trace()) == pytest.approx(errors.rate)
    assert_close(errors.joint.sum(0), labels.bincount(minlength=6) / len(labels), check_dtype=False)
    assert_close(errors.transition.sum(1), torch.ones(6, dtype=torch.float64))


def test_certain_classifier_that_agrees_finds_nothing() -> None:
    labels = torch.arange(300) % 3
    log_p = (0.98 * torch.nn.functional.one_hot(labels, 3) + 0.02 / 3).log()
    errors = find_errors(log_p, labels)
    assert errors.rate == 0
    assert (errors.quality > 0.5).all()
    assert torch.equal(errors.posterior.argmax(1), labels)


def test_trained_rows_have_the_rate_of_the_others() -> None:
    """The classifier memorized the labels of its training rows in part."""
    log_p, labels, _ = simulate("people", 5)
    memorized = log_p.clone()
    memorized[:4000].scatter_add_(1, labels[:4000, None], torch.full((4000, 1), 1.5, dtype=torch.float64))
    memorized = memorized.log_softmax(1)
    errors, outside = find_errors(memorized, labels, 4000), find_errors(log_p[4000:], labels[4000:])
    assert errors.rate == pytest.approx(outside.rate, abs=0.02)
    flagged = errors.quality < 0.5
    assert float(flagged[:4000].double().mean()) == pytest.approx(float(flagged[4000:].double().mean()), abs=1e-3)


@given(st.integers(0, 2**31), st.permutations(range(4)))
def test_renaming_classes_changes_nothing_else(seed: int, order: list[int]) -> None:
    log_p, labels = random_rows(seed, 4, 60)
    index = torch.tensor(order)
    renamed = find_errors(log_p[:, index], index.argsort()[labels])
    errors = find_errors(log_p, labels)
    assert renamed.rate == pytest.approx(errors.rate)
    assert_close(renamed.quality, errors.quality)
    assert_close(renamed.posterior, errors.posterior[:, index])


def test_chunks_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    log_p, labels = random_rows(3, 4, 100)
    whole = find_errors(log_p, labels, 40)
    monkeypatch.setattr(posterior_module, "CHUNK_ROWS", 7)
    parts = find_errors(log_p, labels, 40)
    assert_close(parts.quality, whole.quality)
    assert_close(parts.posterior, whole.posterior)


def test_trusted_labels_are_correct_and_no_evidence_about_others() -> None:
    log_p, labels, _ = simulate("people", 0)
    trusted = torch.zeros(len(labels), dtype=torch.bool)
    trusted[find_errors(log_p, labels).quality.argsort()[:200]] = True
    errors, rest = find_errors(log_p, labels, trusted=trusted), find_errors(log_p[~trusted], labels[~trusted])
    assert bool((errors.quality[trusted] == 1).all())
    assert torch.equal(errors.posterior[trusted].argmax(1), labels[trusted])
    assert torch.equal(errors.quality[~trusted], rest.quality)
    assert torch.equal(errors.confidence[~trusted], rest.confidence)
    part = float((~trusted).double().mean())
    assert errors.rate == pytest.approx(part * rest.rate)
    assert 1 - float(errors.joint.trace()) == pytest.approx(errors.rate, abs=1e-6)
    assert float(errors.joint.sum()) == pytest.approx(1)


def test_known_rate_determines_the_issues() -> None:
    log_p, labels, _ = simulate("people", 0)
    for rate in (0.0, 0.05, 0.4):
        errors = find_errors(log_p, labels, known=RateInterval(rate, rate / 2, 2 * rate))
        assert float((errors.quality <= 0.5).double().mean()) == pytest.approx(rate, abs=0.01)
        assert (errors.rate, errors.limits) == (rate, (rate / 2, 2 * rate))
