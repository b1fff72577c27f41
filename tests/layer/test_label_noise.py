"""Noise estimates against plain loops, and on simulated labels with known noise."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import one_hot
from torch.testing import assert_close

from permll.layer import label_noise, transition
from permll.layer.label_noise import (
    CLASS_SHRINKAGE,
    CONFIDENT,
    ERROR_RATIO,
    MAX_TRUST,
    PRIOR_STD,
    estimate_noise,
)
from tests.helpers.slow_transition import Matrix, full_matrix, slow_counts, slow_transition

CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # float32 against Python floats


class Predictions(NamedTuple):
    """Predictions for held-out and for trained samples, with their labels and the frequency of each label."""

    held_out_probs: Tensor
    held_out_labels: Tensor
    train_probs: Tensor
    train_labels: Tensor
    frequencies: Tensor


@st.composite
def predictions(draw: st.DrawFn, max_classes: int = 6, max_samples: int = 60) -> Predictions:
    """Draw predictions that agree with the labels to a random degree, more among trained samples."""
    classes = draw(st.integers(2, max_classes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    sharpness = draw(st.sampled_from([0.5, 2.0, 5.0]))
    parts: list[Tensor] = []
    for _ in range(2):
        rows = draw(st.integers(20, max_samples))
        skew = torch.rand(classes, generator=generator) + 0.1
        labels = torch.multinomial(skew, rows, replacement=True, generator=generator)
        agreement = draw(st.sampled_from([-1.0, 0.0, 1.0, 4.0]))
        logits = sharpness * torch.randn(rows, classes, generator=generator)
        logits.scatter_add_(1, labels[:, None], torch.full((rows, 1), agreement))
        parts += [logits.softmax(-1), labels]
    counts = parts[3].bincount(minlength=classes) + 1
    return Predictions(*parts, counts / counts.sum())


def largest(row: list[float]) -> int:
    return row.index(max(row))


def slow_confident(probs: Matrix, weights: list[float], fraction: float) -> list[int]:
    chosen = []
    for k in range(len(probs[0])):
        members = [i for i, row in enumerate(probs) if largest(row) == k]
        members.sort(key=lambda i: -max(probs[i]))
        total, before = sum(weights[i] for i in members), 0.0
        for i in members:
            if before >= fraction * total - 1e-9:
                break
            chosen.append(i)
            before += weights[i]
    return chosen


def slow_class_accuracy(hits: list[float], sizes: list[float], accuracy: float) -> list[float]:
    mean = (sum(hits) + 1) / (sum(sizes) + 1)
    result = []
    for hit, size in zip(hits, sizes, strict=True):
        shrunk = (hit + CLASS_SHRINKAGE * mean) / (size + CLASS_SHRINKAGE)
        scaled = shrunk * accuracy / mean
        result.append(min(max(scaled, 1 / len(hits)), 1 - 1 / (2 * sum(sizes) + 4)))
    return result


class SlowEstimate(NamedTuple):
    """A, strength and T: for training, for the verdict and for the temperature."""

    accuracy: float
    strength: float
    training: Matrix
    verdict: Matrix
    lowered: Matrix


def slow_estimate(data: Predictions) -> SlowEstimate:
    """Estimate the noise by the rules that the docstrings state."""
    held_out, y, trained, train_y, frequencies = (part.tolist() for part in data)
    classes, n = len(frequencies), len(y)
    hits = [largest(row) == label for row, label in zip(held_out, y, strict=True)]
    train_hits = [largest(row) == label for row, label in zip(trained, train_y, strict=True)]
    overall, agreement = (sum(hits) + 0.5) / (n + 1), (sum(train_hits) + 0.5) / (len(train_hits) + 1)
    chosen = slow_confident(held_out, [1.0] * n, CONFIDENT)
    confident = (sum(hits[i] for i in chosen) + 0.5) / (len(chosen) + 1)
    error = math.sqrt(confident * (1 - confident) / len(chosen))
    values = (confident - 2 * error, confident)
    bounds = [(value - ERROR_RATIO * overall) / (1 - ERROR_RATIO) for value in values]
    limit = 1 - 1 / (2 * len(chosen) + 4)
    accuracy, for_verdict = (max(min(max(agreement, bound), limit), 1 / classes) for bound in bounds)

    variance = max(overall * (1 - overall), 1 / (4 * n))
    bias = max(agreement - overall - math.sqrt(variance / n), 0.0)
    effective = 1 / (1 / len(train_y) + bias**2 / variance)
    weights = [1.0] * n + [effective / len(train_y)] * len(train_y)
    probs, labels = held_out + trained, y + train_y
    rows = slow_confident(probs, weights, CONFIDENT)
    counts = slow_counts(
        [largest(probs[i]) for i in rows], [labels[i] for i in rows], [weights[i] for i in rows], classes
    )
    hits_by_class, sizes = [counts[k][k] for k in range(classes)], [sum(row) for row in counts]
    diagonal, verdict = (slow_class_accuracy(hits_by_class, sizes, value) for value in (accuracy, for_verdict))
    limited = [min(value, MAX_TRUST) for value in diagonal]
    low = max(overall - math.sqrt(overall * (1 - overall) / n), 0.0)
    matrices = (slow_transition(counts, one, frequencies) for one in (limited, verdict, diagonal))
    confidence = sum(max(row) for row in held_out) / n
    return SlowEstimate(accuracy, math.sqrt(min(low / accuracy, 1.0) * confidence), *matrices)


def test_label_probs_match_loop() -> None:
    probs, labels = torch.rand(30, 4), torch.randint(4, (30,))
    expected = [row[y] for row, y in zip(probs.tolist(), labels.tolist(), strict=True)]
    assert label_noise.label_probs(probs, labels).tolist() == expected


def test_label_log_odds_match_loop() -> None:
    probs, labels = torch.randn(30, 4, dtype=torch.float64).mul(9).softmax(-1), torch.randint(4, (30,))
    probs[0], probs[1] = torch.eye(4)[2], torch.eye(4)[labels[1]]
    given = [min(max(row[y], 1e-6), 1 - 1e-6) for row, y in zip(probs.tolist(), labels.tolist(), strict=True)]
    expected = torch.tensor([math.log(p / (1 - p)) for p in given], dtype=torch.float64)
    assert_close(label_noise.label_log_odds(probs, labels), expected)


@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(1, 40), st.sampled_from([0.2, 0.5, 1.0]), st.booleans())
def test_confident_samples_match_loop(seed: int, classes: int, rows: int, fraction: float, equal: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    probs = torch.randn(rows, classes, generator=generator).softmax(-1).mul(8).round().div(8)  # with ties
    weights = torch.ones(rows) if equal else torch.rand(rows, generator=generator) + 0.01
    got = label_noise.confident_samples(probs, weights, fraction)
    assert got.tolist() == slow_confident(probs.tolist(), weights.tolist(), fraction)
    assert set(probs[got].argmax(1).tolist()) == set(probs.argmax(1).tolist())  # at least one of each class


@given(st.integers(0, 2**31), st.integers(2, 6), st.floats(0.05, 0.999))
def test_class_accuracy_matches_loop(seed: int, classes: int, accuracy: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = 50 * torch.rand(classes, generator=generator)
    sizes[0] = 0.0  # a class that is never predicted
    hits = sizes * torch.rand(classes, generator=generator)
    got = label_noise.class_accuracy(hits, sizes, accuracy)
    assert_close(got, torch.tensor(slow_class_accuracy(hits.tolist(), sizes.tolist(), accuracy)), **CLOSE)


def slow_is_growing(differences: list[float], labels: list[int], classes: int) -> tuple[list[float], float]:
    """Return the mean less its standard error, for each label and for all samples."""
    n = len(differences)
    mean = sum(differences) / n
    variance = sum((value - mean) ** 2 for value in differences) / (n - 1)
    margins = []
    for k in range(classes):
        group = [value for value, y in zip(differences, labels, strict=True) if y == k]
        group_mean = sum(group) / max(len(group), 1)
        squares = [(value - group_mean) ** 2 for value in group] + [variance]  # one more sample
        margins.append(group_mean - math.sqrt(sum(squares) / max(len(group), 1) ** 2))
    return margins, mean - math.sqrt(variance / n)


@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(2, 60), st.floats(-1, 1))
def test_is_growing_matches_loop(seed: int, classes: int, rows: int, drift: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (rows,), generator=generator)
    by_class = torch.randn(classes, generator=generator, dtype=torch.float64)
    noise = torch.randn(rows, generator=generator, dtype=torch.float64)
    differences = drift + 0.5 * by_class[labels] + noise
    by_label, overall = label_noise.is_growing(differences, labels, classes)
    margins, margin = slow_is_growing(differences.tolist(), labels.tolist(), classes)
    few = [labels.tolist().count(k) < 2 for k in range(classes)]
    assert by_label.tolist() == [value > 0 or without for value, without in zip(margins, few, strict=True)]
    assert overall is (margin > 0)


@given(st.floats(-3, 3), st.integers(2, 40), st.integers(0, 2**31))
def test_label_with_fewer_than_two_samples_counts_as_growing(drift: float, rows: int, seed: int) -> None:
    differences = drift + torch.randn(rows, generator=torch.Generator().manual_seed(seed))
    labels = torch.zeros(rows, dtype=torch.int64)
    labels[0] = 1
    by_label, _ = label_noise.is_growing(differences, labels, 3)
    assert by_label[1:].tolist() == [True, True]


@pytest.mark.parametrize(("change", "grows"), [(0.1, True), (0.0, False), (-0.1, False)])
def test_equal_differences_grow_if_positive(change: float, grows: bool) -> None:
    labels = torch.arange(30) % 3
    by_label, overall = label_noise.is_growing(torch.full((30,), change), labels, 3)
    assert by_label.tolist() == [grows] * 3
    assert overall is grows


def log_posterior(log_probs: Matrix, likelihood: Matrix, tau: float) -> float:
    """Return the log-likelihood of the labels and the log-prior of τ, by loops."""
    total = -0.5 * (math.log(tau) / PRIOR_STD) ** 2
    for row, chances in zip(log_probs, likelihood, strict=True):
        powers = [math.exp(value / tau) for value in row]
        total += math.log(sum(p * t for p, t in zip(powers, chances, strict=True)) / sum(powers))
    return total


@given(st.integers(0, 2**31), st.sampled_from([1.0, 4.0, 10.0]), st.integers(1, 40), st.floats(0.4, 0.95))
@settings(max_examples=20)
def test_fit_temperature_matches_finer_search(seed: int, sharpness: float, rows: int, accuracy: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (rows,), generator=generator)
    log_probs = (sharpness * torch.randn(rows, 3, generator=generator)).log_softmax(-1)
    T = torch.full((3, 3), (1 - accuracy) / 2).fill_diagonal_(accuracy)
    tau = label_noise.fit_temperature(log_probs, T.T[labels].log())
    rest = log_probs.tolist(), T.T[labels].tolist()
    finer = [1.01**step for step in range(302)]
    best = max(finer, key=lambda tau: log_posterior(*rest, tau))
    assert 1 <= tau < 20
    assert abs(math.log(tau / best)) <= 0.05 * math.log(10) + 0.01  # the step of the grid
    assert all(log_posterior(*rest, tau) >= log_posterior(*rest, other) - 1e-4 for other in label_noise.TEMPERATURES)


@given(st.lists(st.floats(1e-4, 1.0), min_size=2, max_size=8))
def test_class_prior_without_symmetric_noise_moves_to_uniform_by_two(numbers: list[float]) -> None:
    frequencies = [value / sum(numbers) for value in numbers]
    ratios = [value * len(numbers) for value in frequencies]
    ratios = [ratio / 2 if ratio > 2 else ratio * 2 if ratio < 0.5 else 1.0 for ratio in ratios]
    log_likelihood = transition.log_identity(len(numbers))
    got = label_noise.class_prior(log_likelihood, torch.tensor(frequencies), is_symmetric=False)
    assert_close(got, torch.tensor([ratio / sum(ratios) for ratio in ratios]), rtol=1e-4, atol=1e-6)


@given(st.integers(0, 2**31), st.integers(2, 6))
def test_class_prior_with_symmetric_noise_matches_loop(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    T, frequencies = rng.dirichlet(np.ones(classes), classes), rng.dirichlet(np.ones(classes))
    prior = [1 / classes] * classes
    for _ in range(3):
        evidence = [sum(prior[k] * T[k, y] for k in range(classes)) for y in range(classes)]
        prior = [prior[k] * sum(frequencies[y] * T[k, y] / evidence[y] for y in range(classes)) for k in range(classes)]
    log_likelihood = torch.from_numpy(T).T.log().float()
    got = label_noise.class_prior(log_likelihood, torch.from_numpy(frequencies).float(), is_symmetric=True)
    assert_close(got, torch.tensor(prior).float(), rtol=1e-4, atol=1e-5)


@given(st.floats(0.3, 0.9), st.lists(st.floats(0.05, 1.0), min_size=3, max_size=8))
def test_class_prior_with_symmetric_noise_is_between_uniform_and_truth(accuracy: float, sizes: list[float]) -> None:
    truth = torch.tensor(sizes) / sum(sizes)
    classes = len(sizes)
    T = torch.full((classes, classes), (1 - accuracy) / (classes - 1)).fill_diagonal_(accuracy)
    if accuracy <= 1.1 / classes:  # labels say nothing about classes
        return
    prior = label_noise.class_prior(T.T.log(), truth @ T, is_symmetric=True)
    distance, farthest = (prior - truth).abs().sum(), (1 / classes - truth).abs().sum()
    assert distance <= farthest + 1e-5


@given(st.floats(0, 2), st.floats(0, 2))
def test_credibility_rises_from_060_to_075(one: float, two: float) -> None:
    for strength in (one, two):
        expected = 0.0 if strength <= 0.6 else 1.0 if strength >= 0.75 else (strength - 0.6) / 0.15
        assert label_noise.credibility(strength) == pytest.approx(expected, abs=1e-12)
    assert (label_noise.credibility(one) <= label_noise.credibility(two)) or one > two


@given(st.floats(0.1, 1), st.floats(0, 1), st.floats(0, 0.9))
def test_extrapolated_accuracy_solves_for_label_accuracy(accuracy: float, error: float, ratio: float) -> None:
    overall, confident = accuracy * (1 - error), accuracy * (1 - ratio * error)
    assert label_noise.extrapolated_accuracy(confident, overall, ratio) == pytest.approx(accuracy)
    overall, confident = accuracy * (1 - error), accuracy * (1 - ERROR_RATIO * error)
    assert label_noise.extrapolated_accuracy(confident, overall) == pytest.approx(accuracy)


@given(st.floats(0, 1), st.floats(0.01, 0.99), st.integers(20, 3000), st.integers(20, 3000))
def test_train_sample_weight_equates_errors(train: float, held_out: float, trained: int, samples: int) -> None:
    """The mean square error of the biased estimate is the variance of as many unbiased samples as it counts for."""
    weight = label_noise.train_sample_weight(train, held_out, trained, samples)
    variance = max(held_out * (1 - held_out), 1 / (4 * samples))
    excess = train - held_out - math.sqrt(variance / samples)
    error = variance / trained + (excess**2 if excess > 0 else 0.0)
    assert 0 < weight <= 1
    assert variance / (weight * trained) == pytest.approx(error)


@given(predictions())
def test_estimate_noise_matches_loop(data: Predictions) -> None:
    got, expected = estimate_noise(*data), slow_estimate(data)
    assert got.accuracy == pytest.approx(expected.accuracy, rel=1e-6)
    assert_close(got.log_likelihood.exp().T, torch.tensor(expected.training), **CLOSE)
    assert_close(got.verdict_log_likelihood.exp().T, torch.tensor(expected.verdict), **CLOSE)
    log_probs = [[math.log(max(p, 1e-8)) for p in row] for row in data.held_out_probs.tolist()]
    likelihood = [[row[y] for row in expected.lowered] for y in data.held_out_labels.tolist()]
    fits = {tau: log_posterior(log_probs, likelihood, tau) for tau in label_noise.TEMPERATURES}
    assert fits[got.temperature] >= max(fits.values()) - 1e-4
    if label_noise.credibility(expected.strength) == 0:
        assert torch.equal(got.class_prior, data.frequencies)


@given(predictions())
def test_strength_matches_loop(data: Predictions) -> None:
    assert estimate_noise(*data).strength == pytest.approx(slow_estimate(data).strength, rel=1e-6)


@pytest.mark.parametrize(("wrong", "changes"), [(0, False), (10, False), (60, True)])
def test_few_wrong_labels_are_not_changed(wrong: int, changes: bool) -> None:
    """With 100 held-out samples, labels change if at least 2 % of the trained ones would."""
    truth = torch.arange(1100) % 3
    labels = truth.clone()
    labels[100 : 100 + wrong] = (truth[100 : 100 + wrong] + 1) % 3
    probs = (0.985 * one_hot(truth, 3) + 0.005).float()
    arguments = (probs[:100], labels[:100], probs[100:], labels[100:], torch.full((3,), 1 / 3))
    noise = estimate_noise(*arguments)
    assert label_noise.credibility(noise.strength) == 1
    assert noise.credibility == 1.0 if changes else noise.credibility < 0.5
    likelihood = transition.label_likelihood(noise.verdict_log_likelihood, labels, arguments[-1])
    for certain in (probs, one_hot(truth, 3).float()):
        after = label_noise.verdict_probs(certain, labels, likelihood, noise.temperature, noise.credibility).argmax(1)
        assert torch.equal(after, truth if changes else labels)


@given(predictions())
def test_estimate_noise_has_valid_ranges(data: Predictions) -> None:
    classes = len(data.frequencies)
    got = estimate_noise(*data)
    assert 1 / classes <= got.accuracy < 1
    assert 0 <= got.strength <= 1 + 1e-6
    assert got.temperature in label_noise.TEMPERATURES
    T, verdict_T = got.log_likelihood.exp().T, got.verdict_log_likelihood.exp().T
    for one in (T, verdict_T):
        assert_close(one.sum(1), torch.ones(classes))
        assert (one > 0).all()
        assert ((one.diagonal() >= 1 / classes - 1e-6) & (one.diagonal() < 1)).all()
    assert (T.diagonal() <= MAX_TRUST + 1e-6).all()
    assert (verdict_T.diagonal() >= T.diagonal() - 1e-6).all()
    off_diagonal = ~torch.eye(classes, dtype=torch.bool)
    wrong, verdict_wrong = (one[off_diagonal].view(classes, classes - 1) for one in (T, verdict_T))
    assert_close(wrong / wrong.sum(1, keepdim=True), verdict_wrong / verdict_wrong.sum(1, keepdim=True), **CLOSE)


@given(predictions())
def test_estimate_noise_of_many_classes_has_the_same_diagonal(data: Predictions) -> None:
    full = estimate_noise(*data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transition, "MAX_CLASSES", 1)
        two_rows = estimate_noise(*data)
    assert (two_rows.accuracy, two_rows.strength) == (full.accuracy, full.strength)
    for name in ("log_likelihood", "verdict_log_likelihood"):
        matrix, rows = getattr(full, name), getattr(two_rows, name)
        assert rows.shape == (2, len(data.frequencies))
        assert_close(rows[0].exp(), matrix.diagonal().exp())
        if len(data.frequencies) > 2:  # two rows of two classes are a full matrix
            T = full_matrix(rows, data.frequencies)
            assert_close(T.sum(1), torch.ones(len(T)))
            assert_close(T.diagonal(), matrix.diagonal().exp())


@given(predictions(), st.randoms(use_true_random=False))
def test_renaming_classes_permutes_estimate(data: Predictions, random) -> None:
    classes = len(data.frequencies)
    old = torch.tensor(random.sample(range(classes), classes))  # old[k] is the former name of class k
    new = old.argsort()
    renamed = Predictions(
        data.held_out_probs[:, old],
        new[data.held_out_labels],
        data.train_probs[:, old],
        new[data.train_labels],
        data.frequencies[old],
    )
    before, after = estimate_noise(*data), estimate_noise(*renamed)
    assert after.accuracy == pytest.approx(before.accuracy)
    assert after.strength == pytest.approx(before.strength)
    for name in ("log_likelihood", "verdict_log_likelihood"):
        assert_close(getattr(after, name), getattr(before, name)[old][:, old], rtol=1e-4, atol=1e-5)
    assert after.temperature == pytest.approx(before.temperature)


def noisy_labels(truth: Tensor, T: Tensor, generator: torch.Generator) -> Tensor:
    return torch.multinomial(T[truth], 1, generator=generator)[:, 0]


def noise_matrix(kind: str, rate: float, classes: int) -> Tensor:
    if kind == "pair":
        return torch.eye(classes) * (1 - rate) + torch.eye(classes).roll(1, 1) * rate
    return torch.full((classes, classes), rate / (classes - 1)).fill_diagonal_(1 - rate)


def confident_probs(predicted: Tensor, confidence: Tensor, classes: int) -> Tensor:
    """Return predictions (B, c) with this confidence, and the rest spread evenly."""
    rest = (1 - confidence) / (classes - 1)
    return rest[:, None].repeat(1, classes).scatter_(1, predicted[:, None], confidence[:, None])


@pytest.mark.parametrize("kind", ["symmetric", "pair"])
@given(st.integers(0, 2**31), st.integers(3, 6), st.floats(0.0, 0.45))
@settings(max_examples=20)
def test_estimate_noise_recovers_known_noise(kind: str, seed: int, classes: int, rate: float) -> None:
    """With a perfect classifier, A is found within 0.03, T within 0.1 and T for the verdict within 0.15."""
    generator = torch.Generator().manual_seed(seed)
    T = noise_matrix(kind, rate, classes)
    parts: list[Tensor] = []
    for rows in (2000, 4000):
        truth = torch.randint(classes, (rows,), generator=generator)
        confidence = 0.7 + 0.3 * torch.rand(rows, generator=generator)
        parts += [confident_probs(truth, confidence, classes), noisy_labels(truth, T, generator)]
    frequencies = parts[3].bincount(minlength=classes) / 4000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_noise, "MAX_TRUST", 1.0)  # no limit of T[k, k] in training
        got = estimate_noise(*parts, frequencies)
    assert got.accuracy == pytest.approx(1 - rate, abs=0.03)
    assert (full_matrix(got.log_likelihood, frequencies) - T).abs().max() < 0.1
    assert (full_matrix(got.verdict_log_likelihood, frequencies) - T).abs().max() < 0.15


@given(st.integers(0, 2**31), st.integers(2, 10), st.floats(0.0, 0.4))
@settings(max_examples=30)
def test_clean_labels_are_trusted_with_imperfect_classifier(seed: int, classes: int, error_rate: float) -> None:
    """The classifier errs only where its confidence is below the median, as often on trained samples."""
    generator = torch.Generator().manual_seed(seed)
    parts: list[Tensor] = []
    for rows in (1000, 2000):
        truth = torch.randint(classes, (rows,), generator=generator)
        confidence = 0.6 + 0.4 * torch.rand(rows, generator=generator)
        wrong = (torch.rand(rows, generator=generator) < 2 * error_rate) & (confidence < confidence.median())
        shift = torch.randint(1, classes, (rows,), generator=generator)
        predicted = torch.where(wrong, (truth + shift) % classes, truth)
        parts += [confident_probs(predicted, confidence, classes), truth]
    got = estimate_noise(*parts, parts[3].bincount(minlength=classes) / 2000)
    assert got.accuracy > 0.95
