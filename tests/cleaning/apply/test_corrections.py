"""Which labels change: the laws of ``corrections``."""

import csv
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.apply.corrections import (
    Correction,
    changes_csv,
    count_changes,
    count_sources,
    find_new_classes,
    select_corrections,
)
from permll.cleaning.review_decisions import VERDICTS, Decision
from permll.findings import Findings

CLASSES = ("cat", "dog", "owl")
SOURCES = {"keep": "kept", "accept": "accepted", "choose": "chosen", "unsure": "unsure", "drop": "dropped"}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Findings, dict[str, Decision]]:
    """Draw findings of up to eight labels, and decisions about some of them."""
    rows = draw(st.integers(1, 8))
    weights = draw(st.lists(st.lists(st.integers(1, 99), min_size=3, max_size=3), min_size=rows, max_size=rows))
    posterior = np.array(weights, float) ** 3
    posterior /= posterior.sum(1, keepdims=True)
    labels = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    findings = Findings.from_posterior([f"n{row}" for row in range(rows)], CLASSES, labels, posterior)
    decisions = {}
    for row in draw(st.sets(st.integers(0, rows - 1))):
        verdict = draw(st.sampled_from(VERDICTS))
        choice = draw(st.sampled_from([*CLASSES, "a new class"]))
        label = {"accept": findings[row].proposed_label, "choose": choice, "drop": ""}.get(
            verdict, findings[row].given_label
        )
        decisions[f"n{row}"] = Decision(f"n{row}", verdict, label, "Ada", "2024-05-01T10:00:00+00:00")
    return findings, decisions


probabilities = st.floats(0, 1)


@given(cases(), st.booleans(), probabilities)
def test_corrections_include_all_decisions(case: Any, auto: bool, min_probability: float) -> None:
    findings, decisions = case
    by_id = {correction.id: correction for correction in select_corrections(findings, decisions, auto, min_probability)}
    for name, decision in decisions.items():
        assert by_id[name].after == decision.label
        assert by_id[name].source == SOURCES[decision.verdict]
        assert (by_id[name].reviewer, by_id[name].at) == (decision.reviewer, decision.at)
        assert decision.verdict in ("accept", "choose", "drop") or not by_id[name].is_change
        assert by_id[name].is_dropped == (decision.verdict == "drop")


@given(cases(), probabilities)
def test_corrections_without_auto_are_decisions(case: Any, min_probability: float) -> None:
    findings, decisions = case
    corrections = select_corrections(findings, decisions, False, min_probability)
    assert [correction.id for correction in corrections] == [name for name in findings.ids if name in decisions]
    assert all(correction.source != "auto" for correction in corrections)


@given(cases(), probabilities)
def test_auto_corrections_are_probable_issues(case: Any, min_probability: float) -> None:
    findings, decisions = case
    corrections = select_corrections(findings, decisions, True, min_probability)
    automatic = [correction for correction in corrections if correction.source == "auto"]
    expected = {
        finding.id
        for finding in findings.head(None)
        if finding.is_issue and finding.confidence >= min_probability and finding.id not in decisions
    }
    assert {correction.id for correction in automatic} == expected
    for correction in automatic:
        finding = findings[correction.row]
        expected_fields = (finding.given_label, finding.proposed_label, finding.confidence)
        assert (correction.before, correction.after, correction.probability) == expected_fields
        assert correction.is_change
        assert correction.reviewer == ""


@given(cases(), probabilities, probabilities)
def test_corrections_decrease_with_min_probability(case: Any, low: float, high: float) -> None:
    findings, decisions = case
    more = select_corrections(findings, decisions, True, min(low, high))
    fewer = select_corrections(findings, decisions, True, max(low, high))
    assert set(fewer) <= set(more)


@given(cases(), st.booleans(), probabilities)
def test_correction_counts_match_changes_csv(case: Any, auto: bool, min_probability: float) -> None:
    findings, decisions = case
    corrections = select_corrections(findings, decisions, auto, min_probability)
    changed = [correction for correction in corrections if correction.is_change]
    rows = list(csv.DictReader(io.StringIO(changes_csv(corrections))))
    assert [(row["id"], row["before"], row["after"], row["source"]) for row in rows] == [
        (correction.id, correction.before, correction.after, correction.source) for correction in changed
    ]
    assert sum(count_changes(corrections).values()) == len(changed)
    assert sum(count_sources(corrections).values()) == len(corrections)


def test_min_probability_compares_as_float32() -> None:
    # float32 holds a little less than 0.95
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.03, 0.95, 0.02]])
    assert float(findings.confidence[0]) < 0.95
    assert [correction.after for correction in select_corrections(findings, {}, True, 0.95)] == ["dog"]


def test_probability_of_automatic_change_is_that_of_the_threshold() -> None:
    posterior, lower = [[0.01, 0.98, 0.01], [0.01, 0.01, 0.98]], [0.85, 0.6]
    findings = Findings.from_posterior(["a", "b"], CLASSES, [0, 0], posterior, conservative_confidence=lower)
    (correction,) = select_corrections(findings, {}, auto=True)
    assert (correction.id, correction.probability) == ("a", 0.85)
    assert [each.probability for each in select_corrections(findings, {}, True, 0.6)] == [0.85, 0.6]


def test_correction_has_probability_of_chosen_label() -> None:
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]], top_k=2)
    decision = Decision("a", "choose", "owl", "Ada", "now")
    assert select_corrections(findings, {"a": decision})[0].probability == 0.2
    top_1 = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]], top_k=1)
    assert select_corrections(top_1, {"a": decision})[0].probability is None
    assert "a,cat,owl,chosen,,Ada,now\n" in changes_csv(select_corrections(top_1, {"a": decision}))
    assert select_corrections(top_1, {"a": decision._replace(verdict="keep", label="cat")})[0].probability == 0.1


@pytest.mark.parametrize("min_probability", [-0.1, 1.5, float("nan")])
def test_corrections_refuse_bad_min_probability(min_probability: float) -> None:
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]])
    with pytest.raises(ValueError, match="between 0 and 1"):
        select_corrections(findings, {}, True, min_probability)


def test_corrections_refuse_decisions_about_other_data() -> None:
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]])
    decision = Decision("b", "accept", "dog", "Ada", "now")
    with pytest.raises(ValueError, match=r"decisions about 1 sample \(b\) are not about samples of the findings"):
        select_corrections(findings, {"b": decision})
    with pytest.raises(ValueError, match=r"of 1 sample \(a: cow\) are not among the 3 classes"):
        select_corrections(findings, {"a": decision._replace(id="a", label="cow")})


def test_new_class_is_a_correction() -> None:
    findings = Findings.from_posterior(["a", "b"], CLASSES, [0, 1], [[0.1, 0.7, 0.2], [0.1, 0.7, 0.2]])
    decisions = {
        "a": Decision("a", "choose", "cow", "Ada", "now"),
        "b": Decision("b", "drop", "", "Ada", "now"),
    }
    corrections = select_corrections(findings, decisions)
    assert [(each.after, each.probability, each.is_change) for each in corrections] == [
        ("cow", None, True),
        ("", None, True),
    ]
    assert find_new_classes(CLASSES, corrections) == ["cow"]
    assert "b,dog,,dropped,,Ada,now\n" in changes_csv(corrections)


def test_correction_to_same_label_is_not_a_change() -> None:
    assert not Correction(0, "a", "cat", "cat", "chosen", None).is_change
