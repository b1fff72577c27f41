"""Which labels change: what reviewers decided, and on request what is very probable."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from permll.cleaning.decisions import Decision
from permll.findings import Findings
from permll.utils.messages import format_list

MIN_PROBABILITY = 0.95
GIVEN = "given"
LabelSource = Literal["given", "kept", "accepted", "chosen", "unsure", "auto"]
SOURCES: tuple[LabelSource, ...] = ("given", "kept", "accepted", "chosen", "unsure", "auto")
_WORDS: Mapping[str, LabelSource] = {"keep": "kept", "accept": "accepted", "choose": "chosen", "unsure": "unsure"}
_COLUMNS = ("id", "before", "after", "source", "probability", "reviewer", "at")


class Correction(NamedTuple):
    """A label that somebody looked at, or that is taken as proposed. It may stay what it was.

    Args:
        row: the place of the sample in the findings.
        id: of the sample.
        before: the given label.
        after: the label from now on.
        source: where it comes from: ``kept``, ``accepted``, ``chosen`` or ``unsure`` by a reviewer, or ``auto``.
        probability: of the label from now on; None where the findings do not hold it.
        reviewer: who decided; "" for nobody.
        at: when, ISO 8601 in UTC; "" for nobody.
    """

    row: int
    id: str
    before: str
    after: str
    source: LabelSource
    probability: float | None
    reviewer: str = ""
    at: str = ""

    @property
    def changes(self) -> bool:
        """Whether the label is another one from now on."""
        return self.before != self.after


def corrections(
    findings: Findings,
    decisions: Mapping[str, Decision],
    auto: bool = False,
    min_probability: float = MIN_PROBABILITY,
) -> list[Correction]:
    """Return every label that is decided about, in the order of the data.

    A reviewer's word always counts, also to keep a label or to be unsure. With ``auto``, where nobody said anything,
    a flagged label becomes the proposal if that has at least ``min_probability`` for a sceptic too (``conservative_confidence``).

    Args:
        findings: about N labels.
        decisions: what reviewers say now, by id.
        auto: take very probable proposals without asking.
        min_probability: how probable, in [0, 1].

    Examples:
        >>> found = Findings.from_posterior(["a", "b"], ["cat", "dog"], [0, 0], [[0.02, 0.98], [0.3, 0.7]])
        >>> [one.id for one in corrections(found, {}, auto=True)]
        ['a']
        >>> said = Decision("a", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00")
        >>> corrections(found, {"a": said}, auto=True)[0].source
        'kept'
    """
    if not 0 <= min_probability <= 1:
        raise ValueError(f"a probability lies between 0 and 1, got {min_probability}: 0.95 is the usual one.")
    _refuse_foreign(findings, decisions)
    rows = {name: row for row, name in enumerate(findings.ids)}
    chosen = {rows[name] for name in decisions}
    if auto:
        chosen |= {
            row
            for row in findings.is_issue.nonzero()[0].tolist()
            if findings.conservative_confidence[row] >= min_probability
        }
    return [_one(findings, row, decisions.get(findings.ids[row])) for row in sorted(chosen)]


def count_sources(found: Iterable[Correction]) -> dict[str, int]:
    """Return how many labels each source decided, in the order of ``SOURCES``.

    Examples:
        >>> count_sources([Correction(0, "a", "cat", "dog", "auto", 0.99), Correction(1, "b", "ox", "ox", "kept", 0.4)])
        {'kept': 1, 'auto': 1}
    """
    counts = Counter(one.source for one in found)
    return {source: counts[source] for source in SOURCES if counts[source]}


def count_changes(found: Iterable[Correction]) -> dict[tuple[str, str], int]:
    """Return how often each label becomes which other one, the most frequent first."""
    return dict(Counter((one.before, one.after) for one in found if one.changes).most_common())


def change_lines(found: Iterable[Correction]) -> Iterator[str]:
    """Yield the lines of a CSV file of all labels that change."""
    for row in [_COLUMNS, *(_cells(one) for one in found if one.changes)]:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()


def _cells(one: Correction) -> tuple[object, ...]:
    probability = "" if one.probability is None else f"{one.probability:.6g}"
    return one.id, one.before, one.after, one.source, probability, one.reviewer, one.at


def _one(findings: Findings, row: int, decision: Decision | None) -> Correction:
    finding = findings[row]
    if decision is None:
        return Correction(row, finding.id, finding.given_label, finding.proposed_label, "auto", finding.confidence)
    after = decision.label if decision.verdict in ("accept", "choose") else finding.given_label
    probability = findings.class_probs(row).get(after, finding.label_quality if after == finding.given_label else None)
    rounded = None if probability is None else round(probability, 6)
    source = _WORDS[decision.verdict]
    return Correction(row, finding.id, finding.given_label, after, source, rounded, decision.reviewer, decision.at)


def _refuse_foreign(findings: Findings, decisions: Mapping[str, Decision]) -> None:
    """Refuse decisions about other samples or classes: to pass over them would lose somebody's work."""
    known = set(findings.ids)
    strangers = [name for name in decisions if name not in known]
    if strangers:
        raise ValueError(
            f"there are decisions about {format_list(strangers, 'sample')} that the findings do not know: they belong to "
            "other data, so clean these in a folder of their own."
        )
    other = [f"{name}: {one.label}" for name, one in decisions.items() if one.label not in findings.classes]
    if other:
        raise ValueError(
            f"labels that are none of the {len(findings.classes)} classes were decided for {format_list(other, 'sample')}: "
            "decide again."
        )
