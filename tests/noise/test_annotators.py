"""Answers of annotators and labeling functions, also on real data."""

import numpy as np
import pytest

from permll.noise.annotators import has_answer, majority_vote, sample_answer, weak_labels
from tests.helpers.noise_cases import real_data


def test_weak_labels_drop_uncovered_samples() -> None:
    random = np.random.default_rng(0)
    rules = np.where(random.random((400, 5)) < 0.2, random.integers(0, 3, (400, 5)), -1)
    labels, rows = weak_labels(rules, 3, seed=4)
    assert rows.tolist() == [k for k in range(400) if (rules[k] >= 0).any()]
    assert 0 < len(rows) < 400
    assert np.flatnonzero(has_answer(rules)).tolist() == rows.tolist()
    for label, row in zip(labels, rules[rows], strict=True):
        assert np.count_nonzero(row == label) == np.bincount(row[row >= 0]).max()
    assert (weak_labels(rules, 3, seed=4)[0] == labels).all()
    assert (weak_labels(rules, 3, seed=5)[0] != labels).any()


def test_weak_labels_refuse_missing_or_invalid_answers() -> None:
    with pytest.raises(ValueError, match="every rule abstains on every sample"):
        weak_labels([[-1, -1]], 2, seed=0)
    with pytest.raises(ValueError, match="answer 2 is outside"):
        weak_labels([[2, -1]], 2, seed=0)


@pytest.mark.parametrize(("name", "classes", "wrong"), [("trec_rules", 6, 0.51), ("sms_rules", 2, 0.03)])
def test_weak_labels_lowest_tie_break_matches_published(name: str, classes: int, wrong: float) -> None:
    data = real_data(name)
    labels, rows = weak_labels(data["rules_train"], classes, seed=0, ties="lowest")
    assert rows.tolist() == np.flatnonzero(data["weak_train"] >= 0).tolist()
    assert (labels == data["weak_train"][rows]).all()
    assert np.mean(labels != data["y_train"][rows]) == pytest.approx(wrong, abs=0.005)


def test_weak_labels_random_tie_break_changes_ties_only() -> None:
    data = real_data("trec_rules")
    rules = data["rules_train"]
    labels, rows = weak_labels(rules, 6, seed=0)
    votes = np.stack([(rules[rows] == label).sum(1) for label in range(6)], 1)
    tied = (votes == votes.max(1, keepdims=True)).sum(1) > 1
    differ = labels != data["weak_train"][rows]
    assert tied.sum() == 695
    assert not differ[~tied].any()
    assert differ[tied].mean() == pytest.approx(0.5, abs=0.1)
    # The lowest class is worse than chance here.
    assert np.mean(labels != data["y_train"][rows]) == pytest.approx(0.465, abs=0.02)


def test_crowd_answers_have_reported_error_rate() -> None:
    data = real_data("labelme")
    answers, true = data["answers"], data["y_train"]
    assert has_answer(answers).all()
    sampled = [np.mean(sample_answer(answers, seed) != true) for seed in range(10)]
    given = answers >= 0
    expected = np.mean(((answers != true[:, None]) & given).sum(1) / given.sum(1))
    assert np.mean(sampled) == pytest.approx(expected, abs=0.005)
    assert 0.24 < expected < 0.28
    voted = np.mean([np.mean(majority_vote(answers, 8, seed=seed) != true) for seed in range(10)])
    assert voted == pytest.approx(0.235, abs=0.01)


def test_sample_answer_is_uniform_over_answers() -> None:
    random = np.random.default_rng(0)
    answers = np.where(random.random((500, 8)) < 0.3, random.integers(0, 5, (500, 8)), -1)
    labels = sample_answer(answers, seed=1)
    for label, row in zip(labels, answers, strict=True):
        assert label in (set(row[row >= 0]) or {-1})
    assert (sample_answer(answers, seed=1) == labels).all()
    assert (sample_answer(answers, seed=2) != labels).any()
    counts = np.bincount(sample_answer(np.tile([[0, 1, 1, -1]], (30_000, 1)), seed=0))
    assert counts / 30_000 == pytest.approx([1 / 3, 2 / 3], abs=0.02)


def test_majority_vote_counts_answers() -> None:
    random = np.random.default_rng(0)
    answers = random.integers(-1, 4, (300, 7))
    for label, row in zip(majority_vote(answers, 4), answers, strict=True):
        given = row[row >= 0]
        if len(given) == 0:
            assert label == -1
        else:
            assert np.count_nonzero(given == label) == np.bincount(given).max()
    tied = np.tile([[0, 1]], (1000, 1))
    assert 400 < (majority_vote(tied, 2) == 0).sum() < 600
    assert (majority_vote(tied, 2, ties="lowest") == 0).all()


def test_annotators_refuse_invalid_answers() -> None:
    with pytest.raises(ValueError, match=r"answer 5 is outside 0\.\.3"):
        majority_vote([[0, 5]], 4)
    with pytest.raises(ValueError, match="answers must be class numbers, or -1 for none, of shape"):
        sample_answer([0, 1], 0)
