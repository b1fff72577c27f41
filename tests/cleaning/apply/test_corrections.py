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
    change_lines,
    corrections,
    count_changes,
    count_sources,
)
from permll.cleaning.decisions import VERDICTS, Decision
from permll.findings import Findings

CLASSES = ("cat", "dog", "owl")
WORDS = {"keep": "kept", "accept": "accepted", "choose": "chosen", "unsure": "unsure"}


@st.composite
def situations(draw: st.DrawFn) -> tuple[Findings, dict[str, Decision]]:
    """Findings of a few labels, and decisions about some of them."""
    rows = draw(st.integers(1, 8))
    weights = draw(st.lists(st.lists(st.integers(1, 99), min_size=3, max_size=3), min_size=rows, max_size=rows))
    posterior = np.array(weights, float) ** 3
    posterior /= posterior.sum(1, keepdims=True)
    labels = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    found = Findings.from_posterior([f"n{row}" for row in range(rows)], CLASSES, labels, posterior)
    decisions = {}
    for row in draw(st.sets(st.integers(0, rows - 1))):
        verdict = draw(st.sampled_from(VERDICTS))
        label = {"accept": found[row].proposed_label, "choose": draw(st.sampled_from(CLASSES))}.get(
            verdict, found[row].given_label
        )
        decisions[f"n{row}"] = Decision(f"n{row}", verdict, label, "Ada", "2024-05-01T10:00:00+00:00")
    return found, decisions


probabilities = st.floats(0, 1)


@given(situations(), st.booleans(), probabilities)
def test_the_word_of_a_reviewer_always_counts(situation: Any, auto: bool, least: float) -> None:
    findings, decisions = situation
    by_id = {one.id: one for one in corrections(findings, decisions, auto, least)}
    for name, decision in decisions.items():
        assert by_id[name].after == decision.label
        assert by_id[name].source == WORDS[decision.verdict]
        assert (by_id[name].reviewer, by_id[name].at) == (decision.reviewer, decision.at)
        assert decision.verdict in ("accept", "choose") or not by_id[name].changes


@given(situations(), probabilities)
def test_without_auto_nothing_else_is_touched(situation: Any, least: float) -> None:
    findings, decisions = situation
    found = corrections(findings, decisions, False, least)
    assert [one.id for one in found] == [name for name in findings.ids if name in decisions]
    assert all(one.source != "auto" for one in found)


@given(situations(), probabilities)
def test_auto_takes_flagged_proposals_that_are_probable_enough_and_no_others(situation: Any, least: float) -> None:
    findings, decisions = situation
    taken = {one.id for one in corrections(findings, decisions, True, least) if one.source == "auto"}
    expected = {
        finding.id
        for finding in findings.head()
        if finding.is_issue and finding.confidence >= least and finding.id not in decisions
    }
    assert taken == expected
    for one in corrections(findings, decisions, True, least):
        if one.source == "auto":
            finding = findings[one.row]
            assert (one.before, one.after, one.probability) == (
                finding.given_label,
                finding.proposed_label,
                finding.confidence,
            )
            assert one.changes
            assert one.reviewer == ""


@given(situations(), probabilities, probabilities)
def test_to_ask_for_more_changes_less(situation: Any, one: float, other: float) -> None:
    findings, decisions = situation
    many = corrections(findings, decisions, True, min(one, other))
    few = corrections(findings, decisions, True, max(one, other))
    assert set(few) <= set(many)


@given(situations(), st.booleans(), probabilities)
def test_counts_and_the_list_of_changes_agree(situation: Any, auto: bool, least: float) -> None:
    findings, decisions = situation
    found = corrections(findings, decisions, auto, least)
    changed = [one for one in found if one.changes]
    rows = list(csv.DictReader(io.StringIO("".join(change_lines(found)))))
    assert [(row["id"], row["before"], row["after"], row["source"]) for row in rows] == [
        (one.id, one.before, one.after, one.source) for one in changed
    ]
    assert sum(count_changes(found).values()) == len(changed)
    assert sum(count_sources(found).values()) == len(found)


def test_a_probability_that_is_written_as_0_95_is_at_least_0_95() -> None:
    # float32 holds a little less than 0.95
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.03, 0.95, 0.02]])
    assert float(findings.confidence[0]) < 0.95
    assert [one.after for one in corrections(findings, {}, True, 0.95)] == ["dog"]


def test_a_chosen_label_has_its_own_probability() -> None:
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]], keep=2)
    said = Decision("a", "choose", "owl", "Ada", "now")
    assert corrections(findings, {"a": said})[0].probability == 0.2
    kept = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]], keep=1)
    assert corrections(kept, {"a": said})[0].probability is None
    assert "a,cat,owl,chosen,,Ada,now\n" in list(change_lines(corrections(kept, {"a": said})))
    assert corrections(kept, {"a": said._replace(verdict="keep", label="cat")})[0].probability == 0.1


@pytest.mark.parametrize("least", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(least: float) -> None:
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]])
    with pytest.raises(ValueError, match="between 0 and 1"):
        corrections(findings, {}, True, least)


def test_decisions_about_other_data_are_refused_not_lost() -> None:
    findings = Findings.from_posterior(["a"], CLASSES, [0], [[0.1, 0.7, 0.2]])
    said = Decision("b", "accept", "dog", "Ada", "now")
    with pytest.raises(ValueError, match=r"1 sample \(b\) that the findings do not know"):
        corrections(findings, {"b": said})
    with pytest.raises(ValueError, match=r"none of the 3 classes .* \(a: cow\)"):
        corrections(findings, {"a": said._replace(id="a", label="cow")})


def test_a_correction_that_keeps_the_label_is_no_change() -> None:
    assert not Correction(0, "a", "cat", "cat", "chosen", None).changes
