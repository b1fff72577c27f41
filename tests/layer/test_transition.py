"""The transition matrix against plain loops and a reference distribution."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import dirichlet_multinomial
from torch.testing import assert_close

from permll.layer import transition
from permll.layer.transition import wrong_label_shares
from tests.helpers.slow_transition import full_matrix, slow_counts, slow_transition

CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # float32 against Python floats


@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(1, 40))
def test_weighted_counts_match_loop(seed: int, classes: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    predicted, labels = torch.randint(classes, (2, rows), generator=generator)
    weights = torch.rand(rows, generator=generator)
    got = transition.weighted_counts(predicted, labels, weights, classes)
    expected = slow_counts(predicted.tolist(), labels.tolist(), weights.tolist(), classes)
    assert_close(got, torch.tensor(expected), **CLOSE)


@given(st.integers(0, 2**31), st.integers(2, 8))
def test_transition_matrix_matches_loop_and_rows_sum_to_one(seed: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    counts = (20 * torch.rand(classes, classes, generator=generator) - 5).clamp_min(0)
    diagonal, frequencies = torch.rand(classes, generator=generator), torch.rand(classes, generator=generator) + 0.01
    frequencies /= frequencies.sum()
    shares, _ = wrong_label_shares(counts, frequencies)
    T = transition.log_transition(shares, diagonal, frequencies).exp().T
    assert_close(T, torch.tensor(slow_transition(counts.tolist(), diagonal.tolist(), frequencies.tolist())), **CLOSE)
    assert_close(T.sum(1), torch.ones(classes))
    assert_close(T.diagonal(), diagonal)
    assert (T >= 0).all()


@given(st.integers(0, 2**31), st.integers(3, 6), st.integers(1, 60))
def test_smoothing_fits_are_dirichlet_multinomial(seed: int, classes: int, total: int) -> None:
    rng = np.random.default_rng(seed)
    frequencies = rng.dirichlet(np.ones(classes - 1), classes)
    counts = np.stack([rng.multinomial(total, rng.dirichlet(np.ones(classes - 1))) for _ in range(classes)])
    off_diagonal = ~np.eye(classes, dtype=bool)
    matrices = np.zeros((2, classes, classes))
    matrices[0][off_diagonal], matrices[1][off_diagonal] = counts.ravel(), frequencies.ravel()
    weights, fits = transition.smoothing_fits(*torch.from_numpy(matrices).float())
    assert weights.tolist() == [classes * 2**i for i in range(9)]
    expected = [dirichlet_multinomial.logpmf(counts, s * frequencies, total).sum() for s in weights.tolist()]
    assert_close(fits - fits[0], torch.tensor(expected).double() - expected[0], rtol=1e-4, atol=1e-3)


@given(st.integers(0, 2**31), st.integers(3, 6))
def test_symmetric_noise_is_told_from_flips(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    frequencies = rng.dirichlet(10 * np.ones(classes))
    rows = np.stack([np.where(np.arange(classes) == k, 0.0, frequencies) for k in range(classes)])
    symmetric = np.stack([rng.multinomial(400, row / row.sum()) for row in rows])
    flips = 400 * np.roll(np.eye(classes), 1, axis=1)
    arguments = torch.from_numpy(frequencies).float()
    assert wrong_label_shares(torch.from_numpy(symmetric).float(), arguments)[1]
    assert not wrong_label_shares(torch.from_numpy(flips).float(), arguments)[1]
    assert not wrong_label_shares(torch.eye(classes), arguments)[1]  # no wrong label shows nothing


@pytest.mark.parametrize("max_classes", [2048, 2])
def test_log_identity_gives_the_label_all_likelihood(max_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transition, "MAX_CLASSES", max_classes)
    matrix = transition.log_identity(4)
    assert matrix.shape == (4 if max_classes == 2048 else 2, 4)
    assert matrix.isfinite().all()
    labels = torch.tensor([2, 0, 3, 2])
    likelihood = transition.label_likelihood(matrix, labels, torch.tensor([0.4, 0.1, 0.3, 0.2])).exp()
    assert torch.equal(likelihood, torch.nn.functional.one_hot(labels, 4).float())


def test_label_likelihood_selects_columns_of_matrix() -> None:
    T, labels = torch.rand(4, 4), torch.tensor([3, 1, 1, 0, 2])
    got = transition.label_likelihood(T.T.log(), labels, torch.full((4,), 0.25))
    expected = [[math.log(float(T[k, y])) for k in range(4)] for y in labels.tolist()]
    assert_close(got, torch.tensor(expected), **CLOSE)


@given(st.integers(0, 2**31), st.integers(3, 8))
def test_label_likelihood_of_two_rows_draws_wrong_labels_by_frequency(seed: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    diagonal, f = torch.rand(2, classes, generator=generator) + 0.01
    diagonal, f = diagonal / diagonal.max() * 0.9, f / f.sum()
    two_rows = torch.stack([diagonal.log(), ((1 - diagonal) / (1 - f)).log()])
    T = transition.label_likelihood(two_rows, torch.arange(classes), f).exp().T
    for k in range(classes):
        for y in range(classes):
            drawn = float(f[y]) / (1 - float(f[k]))  # among the labels other than k
            expected = float(diagonal[k]) if y == k else (1 - float(diagonal[k])) * drawn
            assert float(T[k, y]) == pytest.approx(expected, rel=1e-4)
    assert_close(T.sum(1), torch.ones(classes))


@given(st.integers(0, 2**31), st.integers(3, 8))
def test_log_transition_has_the_given_diagonal(seed: int, classes: int) -> None:
    """Without shares, wrong labels are drawn as with counts in proportion to the frequencies."""
    generator = torch.Generator().manual_seed(seed)
    diagonal, f = 0.98 * torch.rand(2, classes, generator=generator) + 0.01
    f /= f.sum()
    counts = 20 * torch.rand(classes, classes, generator=generator)
    for shares, effective in ((wrong_label_shares(counts, f)[0], counts), (None, f.repeat(classes, 1))):
        log_T = transition.log_transition(shares, diagonal, f)
        assert log_T.shape == ((2, classes) if shares is None else (classes, classes))
        expected = slow_transition(effective.tolist(), diagonal.tolist(), f.tolist())
        assert_close(full_matrix(log_T, f), torch.tensor(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("has_counts", [True, False], ids=["full", "two rows"])
@given(st.integers(0, 2**31), st.integers(3, 8), st.sampled_from([0.0, 0.5, 1.0]))
def test_unlearned_classes_have_no_noise(has_counts: bool, seed: int, classes: int, fraction: float) -> None:
    """The softmax of log T[:, y] is e_y if class y is not learned, else 0 at unlearned classes; also with log t."""
    generator = torch.Generator().manual_seed(seed)
    diagonal, f = 0.98 * torch.rand(2, classes, generator=generator) + 0.01
    f /= f.sum()
    shares = wrong_label_shares(torch.rand(classes, classes, generator=generator), f)[0] if has_counts else None
    learned = torch.rand(classes, generator=generator) < fraction
    log_T = transition.log_transition(shares, diagonal, f)
    before, changed = log_T.clone(), transition.with_unlearned_classes(log_T, learned)
    assert torch.equal(log_T, before)
    assert changed.shape == log_T.shape
    assert changed.isfinite().all()
    log_t = torch.full((classes, classes), 1e-8).fill_diagonal_(1.0).roll(1, 0).log()  # contradicts every label
    labels = torch.arange(classes)
    for extra in (torch.zeros(classes, classes), log_t):
        rows, rows_before = (transition.label_likelihood(one, labels, f) + extra for one in (changed, log_T))
        for y, is_learned in enumerate(learned.tolist()):
            expected = rows_before[y].where(learned, -torch.inf).softmax(-1) if is_learned else torch.eye(classes)[y]
            assert_close(rows[y].softmax(-1), expected)
