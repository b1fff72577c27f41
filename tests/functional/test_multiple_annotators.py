"""Consensus of annotators against plain loops, and on simulated and real annotators."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.functional.multiple_annotators import MAX_STEPS, PSEUDO_ANSWERS, TOLERANCE, Answers, dawid_skene
from permll.noise.annotators import majority_vote
from tests.helpers.reader_files import shared

Matrix = list[list[float]]


def normalized(row: list[float]) -> list[float]:
    return [value / sum(row) for value in row]


def slow_confusions(r: Matrix, table: list[list[int]], c: int) -> list[Matrix]:
    counts = [[[0.0] * c for _ in range(c)] for _ in table[0]]
    for n, answers in enumerate(table):
        for a, y in enumerate(answers):
            for k in range(c):
                counts[a][k][y] += r[n][k] if y >= 0 else 0.0
    pooled = [normalized([sum(one[k][y] for one in counts) + PSEUDO_ANSWERS / c for y in range(c)]) for k in range(c)]
    return [
        [normalized([one[k][y] + PSEUDO_ANSWERS * pooled[k][y] for y in range(c)]) for k in range(c)] for one in counts
    ]


def slow_dawid_skene(table: list[list[int]], c: int) -> Matrix:
    r = [normalized([1e-3 / c + answers.count(k) for k in range(c)]) for answers in table]
    for _ in range(MAX_STEPS):
        confusions = slow_confusions(r, table, c)
        prior = [max(sum(row[k] for row in r) / len(r), 1e-12) for k in range(c)]
        new = []
        for answers in table:
            scores = list(prior)
            for a, y in enumerate(answers):
                scores = [score * confusions[a][k][y] if y >= 0 else score for k, score in enumerate(scores)]
            new.append(normalized(scores))
        change = sum(abs(x - y) for one, two in zip(new, r, strict=True) for x, y in zip(one, two, strict=True))
        r = new
        if change / (len(r) * c) < TOLERANCE:
            break
    return r


def simulate(seed: int, samples: int, annotators: int, classes: int, answered: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return answers (N, A), classes (N,) and the accuracy of each annotator (A,)."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(classes, (samples,), generator=generator)
    accuracy = 0.4 + 0.6 * torch.rand(annotators, generator=generator)
    is_right = torch.rand(samples, annotators, generator=generator) < accuracy
    other = torch.randint(classes, (samples, annotators), generator=generator)
    table = torch.where(is_right, truth[:, None], other)
    table[torch.rand(samples, annotators, generator=generator) > answered] = -1
    return table, truth, accuracy + (1 - accuracy) / classes


@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(1, 4), st.integers(2, 12))
def test_consensus_matches_loops(seed: int, classes: int, annotators: int, samples: int) -> None:
    table, _, _ = simulate(seed, samples, annotators, classes, 0.7)
    consensus = dawid_skene(Answers.from_table(table, classes))
    expected = torch.tensor(slow_dawid_skene(table.tolist(), classes), dtype=torch.float64)
    torch.testing.assert_close(consensus.posterior, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(consensus.confusion.sum(2), torch.ones(annotators, classes).double())


def test_accuracy_of_annotators_is_found() -> None:
    table, truth, accuracy = simulate(0, 2000, 12, 4, 0.4)
    consensus = dawid_skene(Answers.from_table(table, 4))
    torch.testing.assert_close(consensus.accuracy, accuracy.double(), atol=0.05, rtol=0)
    majority = torch.from_numpy(majority_vote(table.numpy(), 4))
    right = [float((labels == truth).double().mean()) for labels in (consensus.posterior.argmax(1), majority)]
    assert right[0] > right[1] + 0.01


def test_annotator_without_answers_has_no_accuracy() -> None:
    consensus = dawid_skene(Answers.from_table(torch.tensor([[0, -1], [1, -1]]), 2))
    assert consensus.accuracy[1].isnan()
    assert consensus.posterior.argmax(1).tolist() == [0, 1]


@given(st.integers(0, 2**31), st.permutations(range(3)))
def test_renamed_classes_and_reordered_annotators_change_nothing(seed: int, order: list[int]) -> None:
    table, _, _ = simulate(seed, 20, 3, 3, 0.8)
    posterior = dawid_skene(Answers.from_table(table, 3)).posterior
    names = torch.tensor([*order, -1])
    renamed = dawid_skene(Answers.from_table(names[table][:, [2, 0, 1]], 3)).posterior
    torch.testing.assert_close(renamed[:, order], posterior)


def test_a_network_improves_the_consensus_of_labelme() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.preprocessing import scale

    with np.load(shared("labelme.npz")) as file:
        x, table, truth = (
            scale(file["x_train"].astype(np.float64)),
            file["answers"].astype(np.int64),
            file["y_train"].astype(np.int64),
        )
    answers = Answers.from_table(torch.from_numpy(table), 8)
    alone = dawid_skene(answers).posterior.argmax(1).numpy()
    predicted = cross_val_predict(LogisticRegression(C=0.01, max_iter=500), x, alone, cv=5)
    both = dawid_skene(answers.with_annotator(torch.from_numpy(predicted))).posterior.argmax(1).numpy()
    right = [float((labels == truth).mean()) for labels in (majority_vote(table, 8), alone, both)]
    assert right[0] + 0.02 < right[1] < right[2] - 0.03
    assert right[2] == pytest.approx(0.86, abs=0.02)
