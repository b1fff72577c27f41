"""Detection metrics against loops, and against scikit-learn."""

import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics

from permll.evaluation import detection
from tests.helpers.evaluation_strategies import RankingCase, ranking_cases


@given(ranking_cases())
def test_auroc_matches_loop_over_pairs(sample: RankingCase) -> None:
    low, high = sample.quality[sample.wrong].tolist(), sample.quality[~sample.wrong].tolist()
    won = [1.0 if a < b else 0.5 if a == b else 0.0 for a, b in itertools.product(low, high)]
    expected = sum(won) / len(won) if won else None
    assert detection.auroc(sample.quality, sample.wrong) == (expected and pytest.approx(expected, abs=1e-12))


@given(ranking_cases())
def test_auroc_is_antisymmetric(sample: RankingCase) -> None:
    auroc = detection.auroc(sample.quality, sample.wrong)
    assume(auroc is not None)
    ranks = sample.quality.unique(return_inverse=True)[1]  # 1 - quality could create ties
    assert detection.auroc(1 - ranks / len(ranks), sample.wrong) == pytest.approx(1 - auroc, abs=1e-12)
    assert detection.auroc(sample.quality, ~sample.wrong) == pytest.approx(1 - auroc, abs=1e-12)


@given(ranking_cases())
def test_detection_depends_on_ranking_only(sample: RankingCase) -> None:
    squeezed = 0.25 + 0.5 * sample.quality
    order = torch.arange(len(sample.wrong)).flip(0)
    expected = detection.measure_detection(sample.quality, sample.wrong)
    assert detection.measure_detection(squeezed, sample.wrong) == expected
    assert detection.measure_detection(sample.quality[order], sample.wrong[order]) == expected


@given(ranking_cases())
def test_average_precision_matches_loop_over_thresholds(sample: RankingCase) -> None:
    wrong, before, expected = int(sample.wrong.sum()), 0.0, 0.0
    if wrong in (0, len(sample.wrong)):
        assert detection.average_precision(sample.quality, sample.wrong) is None
        return
    for threshold in sorted(set(sample.quality.tolist())):
        flagged = sample.quality <= threshold
        hits = int((flagged & sample.wrong).sum())
        expected += (hits / wrong - before) * hits / int(flagged.sum())
        before = hits / wrong
    assert detection.average_precision(sample.quality, sample.wrong) == pytest.approx(expected, abs=1e-12)


@given(ranking_cases(), st.data())
def test_precision_at_k_matches_expectation_over_ties(sample: RankingCase, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(sample.wrong)))
    rows = list(zip(sample.quality.tolist(), sample.wrong.tolist(), strict=True))
    cut = sorted(quality for quality, _ in rows)[k - 1]
    below = [wrong for quality, wrong in rows if quality < cut]
    tied = [wrong for quality, wrong in rows if quality == cut]
    expected = (sum(below) + sum(tied) * (k - len(below)) / len(tied)) / k
    assert detection.precision_at_k(sample.quality, sample.wrong, k) == pytest.approx(expected, abs=1e-12)


def test_precision_at_k_matches_mean_over_orders() -> None:
    quality, wrong = torch.tensor([0.1, 0.4, 0.4, 0.4, 0.9]), [False, True, False, True, True]
    for k in range(1, 6):
        precisions = []
        for middle in itertools.permutations(wrong[1:4]):
            order = [wrong[0], *middle, wrong[4]]
            precisions.append(sum(order[:k]) / k)
        got = detection.precision_at_k(quality, torch.tensor(wrong), k)
        assert got == pytest.approx(sum(precisions) / len(precisions), abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_flag_score_matches_sklearn(rows: list[tuple[bool, bool]]) -> None:
    flagged, wrong = (list(column) for column in zip(*rows, strict=True))
    got = detection.flag_score(torch.tensor(flagged), torch.tensor(wrong))
    assert got.flagged == sum(flagged)
    expected = (metrics.precision_score, metrics.recall_score, metrics.f1_score)
    missing = (not any(flagged), not any(wrong), not any(flagged + wrong))
    for value, score, absent in zip(got[1:], expected, missing, strict=True):
        assert value is None if absent else value == pytest.approx(score(wrong, flagged), abs=1e-12)


@given(ranking_cases())
def test_precision_at_num_wrong_equals_recall(sample: RankingCase) -> None:
    result = detection.measure_detection(sample.quality, sample.wrong)
    assert (result.samples, result.wrong) == (len(sample.wrong), int(sample.wrong.sum()))
    assert result.k == (result.wrong or None)
    assume(result.wrong and len(sample.quality.unique()) == len(sample.quality))
    lowest = torch.zeros_like(sample.wrong)
    lowest[sample.quality.argsort()[: result.wrong]] = True
    flags = detection.flag_score(lowest, sample.wrong)
    assert result.precision_at_k == flags.precision == flags.recall


def test_detection_undefined_metrics_are_none() -> None:
    quality = torch.tensor([0.2, 0.8])
    clean = detection.measure_detection(quality, torch.tensor([False, False]), torch.tensor([False, False]))
    assert clean == detection.Detection(2, 0, None, None, None, None, 0, None, None, None)
    all_wrong = detection.measure_detection(quality, torch.tensor([True, True]), torch.tensor([True, False]))
    assert all_wrong == detection.Detection(2, 2, None, None, 2, 1.0, 1, 1.0, 0.5, 2 / 3)


def test_detection_without_flags() -> None:
    result = detection.measure_detection(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([True, False, False]))
    assert (result.k, result.precision_at_k) == (1, 1.0)
    assert (result.flagged, result.precision, result.recall, result.f1) == (None, None, None, None)


@pytest.mark.parametrize("k", [0, 4])
def test_precision_at_k_refuses_invalid_k(k: int) -> None:
    with pytest.raises(ValueError, match=rf"k must lie in 1\.\.3, the number of labels; got {k}"):
        detection.precision_at_k(torch.rand(3), torch.tensor([True, False, False]), k)


def test_auroc_of_million_samples() -> None:
    """Wrong and correct labels alternate, so n (n + 1) / 2 of n² pairs are in order."""
    n = 500_000
    quality = torch.arange(2 * n, dtype=torch.float64) / (2 * n)
    assert detection.auroc(quality, torch.arange(2 * n) % 2 == 0) == pytest.approx((n + 1) / (2 * n), abs=1e-12)
