"""Posterior of annotators and a network against plain loops, and on simulated annotators."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from permll.evaluation.detection import average_precision
from permll.functional.annotated_errors import (
    ANSWER_POWERS,
    PREDICTION_POWERS,
    ROUNDS,
    answer_log_likelihood,
    combined_posterior,
    find_annotated_errors,
    fit_powers,
)
from permll.functional.label_errors import RateInterval
from permll.functional.multiple_annotators import PSEUDO_ANSWERS, Answers, dawid_skene
from tests.functional.test_multiple_annotators import normalized, simulate

Matrix = list[list[float]]


def slow_log_likelihood(table: list[list[int]], r: Matrix, c: int) -> Matrix:
    """Σ_a log C_a[k, y_a], where C_a of a sample is counted over all other samples."""
    pooled = [
        normalized([1 / c + sum(r[m][k] for m, row in enumerate(table) for z in row if z == y) for y in range(c)])
        for k in range(c)
    ]
    result = []
    for n, answers in enumerate(table):
        line = [0.0] * c
        for a, y in enumerate(answers):
            for k in range(c):
                if y >= 0:
                    others = [m for m in range(len(table)) if m != n and table[m][a] >= 0]
                    same = sum(r[m][k] for m in others if table[m][a] == y) + PSEUDO_ANSWERS * pooled[k][y]
                    line[k] += math.log(same / (sum(r[m][k] for m in others) + PSEUDO_ANSWERS))
        result.append(line)
    return result


def slow_posterior(table: list[list[int]], log_p: Matrix, c: int, held_out: int) -> tuple[Matrix, float, float]:
    r: Matrix = dawid_skene(Answers.from_table(torch.tensor(table), c)).posterior.tolist()
    alpha = beta = 1.0
    for _ in range(ROUNDS):
        prior = [max(sum(row[k] for row in r) / len(r), 1e-12) for k in range(c)]
        likelihood = slow_log_likelihood(table, r, c)
        log_d = [[math.log(prior[k]) + line[k] for k in range(c)] for line in likelihood]
        best = -math.inf
        for one in PREDICTION_POWERS:
            for other in ANSWER_POWERS:
                fit = 0.0
                for n in range(len(table) - held_out, len(table)):
                    q = normalized([math.exp(one * value) for value in log_p[n]])
                    d = normalized([math.exp(other * value) for value in log_d[n]])
                    fit += math.log(max(sum(q[k] * d[k] / prior[k] for k in range(c)), 1e-12)) / held_out
                if fit > best:
                    best, alpha, beta = fit, other, one
        r = [
            normalized([math.exp(beta * log_p[n][k] + alpha * log_d[n][k]) / prior[k] for k in range(c)])
            for n in range(len(table))
        ]
    return r, alpha, beta


def predictions(truth: Tensor, classes: int, right: float, seed: int) -> Tensor:
    """Return log-probabilities of a classifier that is right with a probability."""
    generator = torch.Generator().manual_seed(seed + 1)
    other = torch.randint(classes, truth.shape, generator=generator)
    guess = torch.where(torch.rand(truth.shape, generator=generator) < right, truth, other)
    p = torch.nn.functional.one_hot(guess, classes) * right + (1 - right) / classes
    return (p * torch.rand(p.shape, generator=generator).add(0.5)).log().log_softmax(1)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 3), st.integers(2, 4))
def test_posterior_matches_loops(seed: int, classes: int, annotators: int) -> None:
    table, truth, _ = simulate(seed, 40, annotators, classes, 0.7)
    log_p = predictions(truth, classes, 0.95, seed)
    labels = log_p.argmax(1)
    labels[0] = (labels[0] + 1) % classes
    r, powers, _ = combined_posterior(log_p, Answers.from_table(table, classes), labels, 10)
    if powers.predictions == 0:  # by chance, all held-out rows are of one class
        return
    expected, alpha, beta = slow_posterior(table.tolist(), log_p.tolist(), classes, 30)
    assert powers == pytest.approx((alpha, beta))
    torch.testing.assert_close(r, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=1e-6)


@given(st.integers(0, 2**31), st.integers(2, 4))
def test_likelihood_leaves_out_the_own_answers(seed: int, classes: int) -> None:
    table, _, _ = simulate(seed, 8, 3, classes, 0.6)
    answers = Answers.from_table(table, classes)
    r = dawid_skene(answers).posterior
    expected = torch.tensor(slow_log_likelihood(table.tolist(), r.tolist(), classes), dtype=torch.float64)
    torch.testing.assert_close(answer_log_likelihood(answers, r), expected, rtol=1e-6, atol=1e-8)


def test_independent_answers_count_more_than_copied_ones() -> None:
    table, truth, _ = simulate(1, 3000, 4, 4, 1.0)
    log_p = predictions(truth, 4, 0.7, 1)
    prior = torch.full((4,), 0.25).double()
    powers = []
    for answers in (table, table[:, :1].repeat(1, 4)):
        encoded = Answers.from_table(answers, 4)
        r = torch.nn.functional.one_hot(truth, 4).double()
        powers.append(fit_powers(log_p.double(), answer_log_likelihood(encoded, r), prior).answers)
    assert powers[0] == max(ANSWER_POWERS)
    assert powers[1] <= 0.25


def test_network_and_people_together_are_better_than_either() -> None:
    table, truth, _ = simulate(2, 1500, 12, 5, 0.25)
    answers = Answers.from_table(table, 5)
    people = dawid_skene(answers).posterior
    labels, log_p = people.argmax(1), predictions(truth, 5, 0.75, 2)
    errors = find_annotated_errors(log_p, answers, labels)
    wrong = labels != truth
    right = [float((one == truth).double().mean()) for one in (labels, log_p.argmax(1), errors.posterior.argmax(1))]
    assert right[2] > max(right[:2]) + 0.05
    alone = people.gather(1, labels[:, None])[:, 0].clamp(0, 1)
    assert average_precision(errors.quality, wrong) > average_precision(alone, wrong) + 0.1
    assert errors.limits[0] <= errors.rate <= errors.limits[1]
    assert errors.rate == pytest.approx(float(wrong.double().mean()), abs=0.06)
    assert bool((errors.confidence <= errors.posterior.amax(1) + 1e-6).all())


def test_a_useless_network_changes_nothing() -> None:
    table, _, _ = simulate(3, 300, 5, 3, 0.8)
    answers = Answers.from_table(table, 3)
    labels = dawid_skene(answers).posterior.argmax(1)
    noise = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).log()
    _, powers, people = combined_posterior(noise, answers, labels)
    assert powers == (1.0, 0.0)
    assert float((people.argmax(1) == labels).double().mean()) > 0.97


def test_trusted_labels_have_quality_one_and_say_nothing_about_the_others() -> None:
    table, truth, _ = simulate(4, 200, 4, 3, 0.8)
    table[:, 0] = truth
    answers, labels, log_p = Answers.from_table(table, 3), truth.clone(), predictions(truth, 3, 0.9, 4)
    trusted = torch.arange(200) < 50
    labels[:50] = (labels[:50] + 1) % 3
    errors = find_annotated_errors(log_p, answers, labels, 150, trusted)
    assert errors.quality[:50].tolist() == [1.0] * 50
    assert errors.posterior.argmax(1)[:50].tolist() == labels[:50].tolist()
    rest = torch.arange(50, 200)
    alone = find_annotated_errors(log_p[rest], answers.take(rest), labels[rest], 100)
    torch.testing.assert_close(errors.quality[rest], alone.quality)


def test_known_rate_is_the_mean_and_trained_rows_have_the_rate_of_the_others() -> None:
    table, truth, _ = simulate(5, 1000, 5, 4, 0.5)
    answers = Answers.from_table(table, 4)
    labels, log_p = dawid_skene(answers).posterior.argmax(1), predictions(truth, 4, 0.85, 5)
    known = find_annotated_errors(log_p, answers, labels, 600, known=RateInterval(0.3, 0.2, 0.4))
    assert (known.rate, known.limits) == (0.3, (0.2, 0.4))
    assert float(1 - known.quality.mean()) == pytest.approx(0.3, abs=0.01)
    biased = log_p.clone()
    biased[:600] += 3 * torch.nn.functional.one_hot(labels[:600], 4)  # as if memorized
    errors = find_annotated_errors(biased, answers, labels, 600)
    assert float(1 - errors.quality[:600].mean()) == pytest.approx(errors.rate, abs=0.02)


@given(st.integers(0, 2**31), st.permutations(range(3)))
@settings(max_examples=20, deadline=None)
def test_renamed_classes_change_nothing(seed: int, order: list[int]) -> None:
    table, truth, _ = simulate(seed, 60, 3, 3, 0.8)
    log_p, names = predictions(truth, 3, 0.9, seed), torch.tensor([*order, -1])
    labels = dawid_skene(Answers.from_table(table, 3)).posterior.argmax(1)
    r, powers, _ = combined_posterior(log_p, Answers.from_table(table, 3), labels)
    inverse = torch.from_numpy(np.argsort(order))
    renamed, same, _ = combined_posterior(log_p[:, inverse], Answers.from_table(names[table], 3), names[labels])
    assert same == pytest.approx(powers)
    torch.testing.assert_close(renamed[:, order], r, rtol=1e-5, atol=1e-7)
