"""Detection against its definitions by loops, and against scikit-learn."""

import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics

from permll.evaluation import detection
from tests.helpers.evaluation_strategies import Ranked, ranked


@given(ranked())
def test_auroc_is_the_share_of_pairs_in_order(sample: Ranked) -> None:
    low, high = sample.quality[sample.wrong].tolist(), sample.quality[~sample.wrong].tolist()
    won = [1.0 if a < b else 0.5 if a == b else 0.0 for a, b in itertools.product(low, high)]
    expected = sum(won) / len(won) if won else None
    assert detection.auroc(sample.quality, sample.wrong) == expected


@given(ranked())
def test_auroc_and_average_precision_are_scikit_learns(sample: Ranked) -> None:
    assume(bool(sample.wrong.any()) and not bool(sample.wrong.all()))
    truth, suspicion = sample.wrong.numpy(), -sample.quality.numpy()
    auroc, precision = metrics.roc_auc_score(truth, suspicion), metrics.average_precision_score(truth, suspicion)
    assert detection.auroc(sample.quality, sample.wrong) == pytest.approx(auroc, abs=1e-12)
    assert detection.average_precision(sample.quality, sample.wrong) == pytest.approx(precision, abs=1e-12)


@given(ranked())
def test_auroc_turns_round_with_the_ranking_and_with_the_truth(sample: Ranked) -> None:
    auroc = detection.auroc(sample.quality, sample.wrong)
    assume(auroc is not None)
    places = sample.quality.unique(return_inverse=True)[1]  # 1 - quality could round two of them to one
    assert detection.auroc(1 - places / len(places), sample.wrong) == pytest.approx(1 - auroc, abs=1e-12)
    assert detection.auroc(sample.quality, ~sample.wrong) == pytest.approx(1 - auroc, abs=1e-12)


@given(ranked())
def test_only_the_order_of_quality_counts(sample: Ranked) -> None:
    squeezed = 0.25 + 0.5 * sample.quality
    order = torch.arange(len(sample.wrong)).flip(0)
    expected = detection.measure_detection(sample.quality, sample.wrong)
    assert detection.measure_detection(squeezed, sample.wrong) == expected
    shuffled = detection.measure_detection(sample.quality[order], sample.wrong[order])
    assert shuffled == expected


@given(ranked())
def test_average_precision_is_the_sum_over_thresholds(sample: Ranked) -> None:
    wrong, before, expected = int(sample.wrong.sum()), 0.0, 0.0
    if wrong in (0, len(sample.wrong)):
        assert detection.average_precision(sample.quality, sample.wrong) is None
        return
    for threshold in sorted(set(sample.quality.tolist())):
        flagged = sample.quality <= threshold
        found = int((flagged & sample.wrong).sum())
        expected += (found / wrong - before) * found / int(flagged.sum())
        before = found / wrong
    assert detection.average_precision(sample.quality, sample.wrong) == pytest.approx(expected, abs=1e-12)


@given(ranked(), st.data())
def test_precision_at_k_is_the_mean_over_the_orders_of_equals(sample: Ranked, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(sample.wrong)))
    rows = list(zip(sample.quality.tolist(), sample.wrong.tolist(), strict=True))
    cut = sorted(quality for quality, _ in rows)[k - 1]
    sure = [wrong for quality, wrong in rows if quality < cut]
    equals = [wrong for quality, wrong in rows if quality == cut]
    # Each sample at the cut is taken with the same chance.
    expected = (sum(sure) + sum(equals) * (k - len(sure)) / len(equals)) / k
    assert detection.precision_at_k(sample.quality, sample.wrong, k) == pytest.approx(expected, abs=1e-12)


def test_precision_at_k_is_the_mean_over_all_orders() -> None:
    quality, wrong = torch.tensor([0.1, 0.4, 0.4, 0.4, 0.9]), [False, True, False, True, True]
    for k in range(1, 6):
        shares = []
        for middle in itertools.permutations(wrong[1:4]):
            order = [wrong[0], *middle, wrong[4]]
            shares.append(sum(order[:k]) / k)
        got = detection.precision_at_k(quality, torch.tensor(wrong), k)
        assert got == pytest.approx(sum(shares) / len(shares), abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_flags_are_scikit_learns(rows: list[tuple[bool, bool]]) -> None:
    flagged, wrong = (list(column) for column in zip(*rows, strict=True))
    got = detection.flag_score(torch.tensor(flagged), torch.tensor(wrong))
    assert got.flagged == sum(flagged)
    expected = (metrics.precision_score, metrics.recall_score, metrics.f1_score)
    missing = (not any(flagged), not any(wrong), not any(flagged + wrong))
    for value, score, absent in zip(got[1:], expected, missing, strict=True):
        assert value is None if absent else value == pytest.approx(score(wrong, flagged), abs=1e-12)


@given(ranked())
def test_at_as_many_as_are_wrong_precision_is_recall(sample: Ranked) -> None:
    found = detection.measure_detection(sample.quality, sample.wrong)
    assert (found.samples, found.wrong) == (len(sample.wrong), int(sample.wrong.sum()))
    assert found.k == (found.wrong or None)
    assume(found.wrong and len(sample.quality.unique()) == len(sample.quality))
    lowest = torch.zeros_like(sample.wrong)
    lowest[sample.quality.argsort()[: found.wrong]] = True
    flags = detection.flag_score(lowest, sample.wrong)
    assert found.precision_at_k == flags.precision == flags.recall


def test_nothing_to_find_gives_none_and_not_nan() -> None:
    quality = torch.tensor([0.2, 0.8])
    clean = detection.measure_detection(quality, torch.tensor([False, False]), torch.tensor([False, False]))
    assert clean == detection.Detection(2, 0, None, None, None, None, 0, None, None, None)
    spoilt = detection.measure_detection(quality, torch.tensor([True, True]), torch.tensor([True, False]))
    assert spoilt == detection.Detection(2, 2, None, None, 2, 1.0, 1, 1.0, 0.5, 2 / 3)


def test_k_can_be_chosen_and_flags_left_out() -> None:
    quality, wrong = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([True, False, False])
    found = detection.measure_detection(quality, wrong, k=2)
    assert (found.k, found.precision_at_k) == (2, 0.5)
    assert (found.flagged, found.precision, found.recall, found.f1) == (None, None, None, None)


@pytest.mark.parametrize("k", [0, 4])
def test_a_k_that_is_not_there_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k}, but there are 3 labels: take k from 1 to 3"):
        detection.precision_at_k(torch.rand(3), torch.tensor([True, False, False]), k)


def test_auroc_of_a_million_samples_is_exact() -> None:
    """The ranks alternate, wrong first: each wrong label beats the right ones above it, n (n + 1) / 2 of n² pairs."""
    n = 500_000
    quality = torch.arange(2 * n, dtype=torch.float64) / (2 * n)
    assert detection.auroc(quality, torch.arange(2 * n) % 2 == 0) == (n + 1) / (2 * n)
