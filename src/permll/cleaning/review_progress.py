"""How many wrong labels a review has left, and how many more reviews would leave few enough."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from permll.cleaning.earlier_round import calibrate_findings
from permll.cleaning.review_decisions import Decision
from permll.findings import Findings
from permll.functional.review_calibration import Remaining
from permll.report.findings_text import findings_facts, noise_sentence
from permll.report.text import pluralize

TARGET = 0.01  # fraction of wrong labels at which a review may stop


class ReviewProgress(NamedTuple):
    """State of a review.

    Args:
        reviewed: number of labels with a final decision.
        wrong: number of these that the reviewers found wrong.
        remaining: estimated number of wrong labels among the others.
        samples: number of labels, N.
        more: number of reviews, most suspect first, after which at most ``target`` N wrong labels are expected.
        target: fraction of wrong labels.
    """

    reviewed: int
    wrong: int
    remaining: Remaining
    samples: int
    more: int
    target: float = TARGET

    def __str__(self) -> str:
        left, n = self.remaining, self.samples
        text = (
            f"{pluralize(self.reviewed, 'label')} reviewed, {self.wrong:,} of them wrong; about {left.estimate:,.0f} "
            f"wrong labels are left ({100 * left.estimate / n:.1f} %, 95 % interval {100 * left.low / n:.1f} to "
            f"{100 * left.high / n:.1f} %)"
        )
        if not self.more:
            return f"{text}."
        return f"{text}; reviewing the next {self.more:,} would leave {100 * self.target:g} %."


def describe_progress(findings: Findings, decisions: Mapping[str, Decision]) -> str:
    """Return the progress of a review in one sentence; before the first decision, the estimated noise rate."""
    progress = review_progress(findings, decisions)
    if progress is not None:
        return str(progress)
    return noise_sentence(findings_facts(findings))


def review_progress(
    findings: Findings, decisions: Mapping[str, Decision], target: float = TARGET
) -> ReviewProgress | None:
    """Return the progress of a review; None before the first final decision.

    Args:
        findings: of N labels.
        decisions: current decisions by sample id.
        target: fraction of wrong labels at which the review may stop.
    """
    calibration, is_open = calibrate_findings(findings, decisions)
    reviewed = int((~is_open).sum())
    if not reviewed:
        return None
    given = dict(zip(findings.ids, findings.given_labels.tolist(), strict=True))
    wrong = sum(
        one.label != findings.classes[given[name]] for name, one in decisions.items() if one.verdict != "unsure"
    )
    quality = torch.from_numpy(findings.label_quality)
    probs = calibration.wrong_probs(quality[is_open]).sort(descending=True).values
    left_after = float(probs.sum()) - probs.cumsum(0)
    enough = torch.cat([probs.sum()[None], left_after]) <= target * len(findings)
    more = int(enough.long().argmax()) if bool(enough.any()) else len(probs)
    remaining = calibration.remaining(quality[is_open])
    if reviewed == int(findings.is_reviewed.sum()) and (noise := findings.metadata.get("noise")):
        remaining = Remaining(*(len(findings) * noise[key] for key in ("rate", "low", "high")))  # of earlier rounds
    return ReviewProgress(reviewed, wrong, remaining, len(findings), more, target)


def with_progress(findings: Findings, decisions: Mapping[str, Decision]) -> Findings:
    """Return the findings of a next round with the number of reviews after which few enough wrong labels are left."""
    progress = review_progress(findings, decisions)
    if progress is None:
        return findings
    earlier = {**findings.metadata["earlier"], "more": progress.more, "target": progress.target}
    return replace(findings, metadata={**findings.metadata, "earlier": earlier})
