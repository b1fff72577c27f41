"""Label corrections: review decisions and, with ``auto``, proposals of high probability."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np

from permll.cleaning.review_decisions import Decision
from permll.findings import Findings
from permll.utils.files import to_csv
from permll.utils.messages import format_list

DEFAULT_MIN_PROBABILITY = 0.8  # conservative, see ``permll.functional.conservative``
LabelSource = Literal["given", "kept", "accepted", "chosen", "unsure", "auto", "dropped"]
LABEL_SOURCES: tuple[LabelSource, ...] = get_args(LabelSource)
_VERDICT_SOURCES: Mapping[str, LabelSource] = {
    "keep": "kept",
    "accept": "accepted",
    "choose": "chosen",
    "unsure": "unsure",
    "drop": "dropped",
}


class Correction(NamedTuple):
    """A label that was reviewed or is changed automatically. A reviewer may have kept it, or dropped the sample.

    Args:
        row: position of the sample in the findings.
        id: of the sample.
        before: the given label.
        after: the new label, which may be a new class; "" for a sample that is dropped.
        source: ``kept``, ``accepted``, ``chosen``, ``unsure`` or ``dropped`` for a reviewer's decision, or ``auto``.
        probability: of the new label; None if the findings do not contain it. That of ``auto`` is the conservative
            one, which ``min_probability`` is about.
        reviewer: name of the reviewer; "" for ``auto``.
        at: time of the decision, ISO 8601 in UTC; "" for ``auto``.
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
    def is_change(self) -> bool:
        """Whether the new label differs from the given one, or the sample is dropped."""
        return self.before != self.after

    @property
    def is_dropped(self) -> bool:
        """Whether the sample belongs to no class and is left out."""
        return self.source == "dropped"


def select_corrections(
    findings: Findings,
    decisions: Mapping[str, Decision],
    auto: bool = False,
    min_probability: float = DEFAULT_MIN_PROBABILITY,
) -> list[Correction]:
    """Return the reviewed labels and, with ``auto``, the automatic changes, in the order of the data.

    A decision always takes precedence, also one to keep a label or to be unsure. With ``auto``, a label issue without a
    decision becomes its proposal if ``conservative_confidence`` is at least ``min_probability``.

    Args:
        findings: of N labels.
        decisions: current decisions by sample id.
        auto: whether to change labels that were not reviewed.
        min_probability: minimum probability of such a change, in [0, 1].

    Examples:
        >>> findings = Findings.from_posterior(["a", "b"], ["cat", "dog"], [0, 0], [[0.02, 0.98], [0.3, 0.7]])
        >>> [correction.id for correction in select_corrections(findings, {}, auto=True)]
        ['a']
        >>> decision = Decision("a", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00")
        >>> select_corrections(findings, {"a": decision}, auto=True)[0].source
        'kept'
    """
    if not 0 <= min_probability <= 1:
        raise ValueError(f"min_probability must be between 0 and 1, got {min_probability}.")
    _check_decisions(findings, decisions)
    selected = np.array([name in decisions for name in findings.ids], dtype=bool)
    if auto:
        selected |= findings.has_proposal & (findings.conservative_confidence >= np.float32(min_probability))
    return [_correction(findings, row, decisions.get(findings.ids[row])) for row in np.flatnonzero(selected).tolist()]


def count_sources(corrections: Iterable[Correction]) -> dict[str, int]:
    """Return the number of labels by source, in the order of ``LABEL_SOURCES``.

    Examples:
        >>> count_sources([Correction(0, "a", "cat", "dog", "auto", 0.99), Correction(1, "b", "ox", "ox", "kept", 0.4)])
        {'kept': 1, 'auto': 1}
    """
    counts = Counter(correction.source for correction in corrections)
    return {source: counts[source] for source in LABEL_SOURCES if counts[source]}


def count_changes(corrections: Iterable[Correction]) -> dict[tuple[str, str], int]:
    """Return the number of changes by label before and after, most frequent first."""
    changes = (correction for correction in corrections if correction.is_change)
    return dict(Counter((correction.before, correction.after) for correction in changes).most_common())


def find_new_classes(classes: Iterable[str], corrections: Iterable[Correction]) -> list[str]:
    """Return the new labels that are not among ``classes``, in order of their first sample.

    Examples:
        >>> find_new_classes(["cat", "dog"], [Correction(0, "a", "cat", "owl", "chosen", None, "Ada", "now")])
        ['owl']
    """
    known = set(classes)
    labels = (correction.after for correction in corrections if not correction.is_dropped)
    return list(dict.fromkeys(label for label in labels if label not in known))


def changes_csv(corrections: Iterable[Correction]) -> str:
    """Return the labels that change as CSV."""
    rows = (
        (c.id, c.before, c.after, c.source, "" if c.probability is None else f"{c.probability:.6g}", c.reviewer, c.at)
        for c in corrections
        if c.is_change
    )
    return to_csv([Correction._fields[1:], *rows])


def _correction(findings: Findings, row: int, decision: Decision | None) -> Correction:
    finding = findings[row]
    given = finding.given_label
    if decision is None:
        return Correction(row, finding.id, given, finding.proposed_label, "auto", finding.conservative_confidence)
    source = _VERDICT_SOURCES[decision.verdict]
    if decision.verdict == "drop":
        return Correction(row, finding.id, given, "", source, None, decision.reviewer, decision.at)
    after = decision.label if decision.verdict in ("accept", "choose") else given
    probability = findings.class_probs(row).get(after, finding.label_quality if after == given else None)
    if probability is not None:
        probability = round(probability, 6)
    return Correction(row, finding.id, given, after, source, probability, decision.reviewer, decision.at)


def _check_decisions(findings: Findings, decisions: Mapping[str, Decision]) -> None:
    """Refuse decisions about other samples, or labels of other data; ignoring them would lose a reviewer's work."""
    ids, classes = set(findings.ids), set(findings.classes)
    unknown = [name for name in decisions if name not in ids]
    if unknown:
        raise ValueError(
            f"decisions about {format_list(unknown, 'sample')} are not about samples of the findings: use another run "
            "folder for other data."
        )
    other = [
        f"{name}: {decision.label}"
        for name, decision in decisions.items()
        if decision.verdict not in ("choose", "drop") and decision.label not in classes
    ]
    if other:
        raise ValueError(
            f"decided labels of {format_list(other, 'sample')} are not among the {len(classes)} classes: decide again."
        )
