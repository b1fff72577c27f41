"""Confidence of automatic changes against plain loops, and how it depends on the evidence."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.conservative import (
    CONFIDENT_ERRORS,
    SHARPENING,
    add_confident_errors,
    class_confusion,
    conservative_confidence,
    shift_to_mean,
)
from permll.functional.label_errors import find_errors
from permll.functional.transition_fit import EM_STEPS, PSEUDO_SAMPLES

Matrix = list[list[float]]


def random_rows(seed: int, classes: int, rows: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(classes, (rows,), generator=generator)
    logits = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    logits.scatter_add_(1, truth[:, None], torch.full((rows, 1), 4.0, dtype=torch.float64))
    wrong = torch.rand(rows, generator=generator) < 0.3
    return logits.log_softmax(1), torch.where(wrong, torch.randint(classes, (rows,), generator=generator), truth)


def slow_probs(log_p: Matrix, power: float, rows: int) -> Matrix:
    """Return q of the module for rows that are all out of sample."""
    classes = len(log_p[0])
    probs = [[math.exp(power * value) for value in row] for row in log_p]
    probs = [[value / sum(row) for value in row] for row in probs]
    best = [row.index(max(row)) for row in probs]
    confusion = [[0.0] * classes for _ in range(classes)]
    for k in range(classes):
        mine = [row for row, top in zip(probs, best, strict=True) if top == k]
        for j in range(classes):
            if j != k and mine:
                confusion[k][j] = sum(row[j] for row in mine) / len(mine)
    floor, result = 1 / (2 * rows + 2), []
    for row, k in zip(probs, best, strict=True):
        errors = [CONFIDENT_ERRORS * value for value in confusion[k]]
        result.append(
            [
                (1 - floor) * (p * (1 - sum(errors)) + error) + floor / classes
                for p, error in zip(row, errors, strict=True)
            ]
        )
    return result


def slow_posterior(q: Matrix, labels: list[int], T: Matrix) -> Matrix:
    scores = [[p * T[k][y] for k, p in enumerate(row)] for row, y in zip(q, labels, strict=True)]
    return [[score / sum(row) for score in row] for row in scores]


def slow_confidence(log_p: Matrix, labels: list[int], proposals: list[int], power: float) -> list[float]:
    rows, classes = len(labels), len(log_p[0])
    q = slow_probs(log_p, SHARPENING * power, rows)
    T = [[0.3 / classes + 0.7 * (k == y) for y in range(classes)] for k in range(classes)]
    for _ in range(EM_STEPS):
        r = slow_posterior(q, labels, T)
        counts = [
            [sum(row[k] for row, label in zip(r, labels, strict=True) if label == y) for y in range(classes)]
            for k in range(classes)
        ]
        rate = 1 - sum(counts[k][k] for k in range(classes)) / rows
        for k in range(classes):
            for y in range(classes):
                counts[k][y] += PSEUDO_SAMPLES * (1 - rate if k == y else rate / (classes - 1))
        T = [[value / sum(row) for value in row] for row in counts]
    rate = sum(1 - row[y] for row, y in zip(slow_posterior(q, labels, T), labels, strict=True)) / rows
    scale = max(rate - 1.96 * math.sqrt(rate * (1 - rate) / rows), 0) / rate
    for k in range(classes):
        T[k] = [scale * value for value in T[k]]
        T[k][k] = 1 - sum(value for y, value in enumerate(T[k]) if y != k)
    r = slow_posterior(q, labels, [[max(value, 1e-12) for value in row] for row in T])
    return [1.0 if new == y else row[new] for row, new, y in zip(r, proposals, labels, strict=True)]


@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(10, 40), st.sampled_from([0.7, 1.0, 2.0]))
def test_confidence_matches_loops(seed: int, classes: int, rows: int, power: float) -> None:
    log_p, labels = random_rows(seed, classes, rows)
    proposals = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))
    confidence = conservative_confidence(log_p, labels, proposals, power)
    expected = slow_confidence(log_p.tolist(), labels.tolist(), proposals.tolist(), power)
    assert_close(confidence, torch.tensor(expected), rtol=1e-4, atol=1e-7)


@given(st.integers(0, 2**31), st.integers(2, 5), st.integers(1, 20), st.integers(1, 500))
def test_confident_errors_match_loops(seed: int, classes: int, rows: int, held_out: int) -> None:
    log_p, _ = random_rows(seed, classes, rows)
    q = add_confident_errors(log_p, 1.3, class_confusion(log_p, 1.3), held_out)
    assert_close(q, torch.tensor(slow_probs(log_p.tolist(), 1.3, held_out)).double(), rtol=1e-6, atol=1e-12)
    assert_close(q.sum(1), torch.ones(rows, dtype=torch.float64))


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_shift_gives_the_mean(values: list[float], rate: float) -> None:
    log_odds = torch.tensor(values, dtype=torch.float64)
    shift = shift_to_mean(log_odds, rate)
    mean = float(torch.sigmoid(shift - log_odds).mean())
    assert 0 <= shift <= 20
    assert mean == pytest.approx(rate, abs=1e-6) or (shift == 0 and mean > rate) or (shift > 19.9 and mean < rate)


def simulate(noise: float, sharpness: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities of a calibrated classifier, right for 85 % (sharpness 5) or 97 % (30), labels, truth."""
    rows, classes = 4000, 5
    generator = torch.Generator().manual_seed(seed)
    log_p = (sharpness * torch.randn(rows, classes, generator=generator, dtype=torch.float64)).log_softmax(1)
    truth = log_p.exp().multinomial(1, generator=generator)[:, 0]
    wrong = torch.rand(rows, generator=generator) < noise
    return log_p, torch.where(wrong, torch.randint(classes, (rows,), generator=generator), truth), truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sharpness", [5, 30])
def test_clean_labels_are_not_changed(sharpness: float, seed: int) -> None:
    log_p, labels, _ = simulate(0.0, sharpness, seed)
    errors = find_errors(log_p, labels)
    assert int((errors.quality <= 0.5).sum()) > 50  # questions to a person
    assert errors.confidence[errors.posterior.argmax(1) != labels].max() < 0.8


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_most_noise_is_repaired_without_harm(noise: float) -> None:
    log_p, labels, truth = simulate(noise, 30)
    errors = find_errors(log_p, labels)
    changed = (errors.posterior.argmax(1) != labels) & (errors.confidence >= 0.8)
    wrong = labels != truth
    assert float(wrong[changed].double().mean()) >= 0.98
    assert int(changed.sum()) > 0.5 * int(wrong.sum())


def test_few_rows_change_nothing() -> None:
    """One wrong label of fifty is not evidence of noise."""
    labels = torch.arange(50) % 2
    log_p = (0.998 * torch.nn.functional.one_hot(labels, 2) + 0.001).log()
    labels[0] = 1
    confidence = conservative_confidence(log_p, labels, log_p.argmax(1), 1.0)
    assert confidence[0] < 0.5


def test_labels_of_trained_rows_are_as_often_wrong_as_others() -> None:
    log_p, labels, truth = simulate(0.3, 30)
    memorized = log_p.clone()
    memorized[:3000].scatter_add_(1, labels[:3000, None], torch.full((3000, 1), 2.0, dtype=torch.float64))
    memorized = memorized.log_softmax(1)
    confidence = conservative_confidence(memorized, labels, truth, 1.0, 3000)
    uncorrected = conservative_confidence(memorized, labels, truth, 1.0)
    is_high = (truth != labels) & (confidence >= 0.8)
    parts = [float(is_high[rows].double().mean()) for rows in (slice(3000), slice(3000, None))]
    assert parts[0] == pytest.approx(parts[1], rel=0.25)
    assert int(is_high[:3000].sum()) > int((uncorrected[:3000][truth[:3000] != labels[:3000]] >= 0.8).sum())
