"""The commands that follow ``permll clean`` and ``permll review``, each with a text, for terminal and report."""

import shlex
from collections.abc import Iterator

from permll.cleaning.apply.corrections import DEFAULT_MIN_PROBABILITY, select_corrections
from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from permll.report.text import pluralize
from permll.training.run import GIVEN, Run
from permll.training.run_folder import corrected_name


def commands_after_clean(run: Run, findings: Findings) -> Iterator[tuple[str, str]]:
    """Yield what to do with findings: a review needs samples that can be read again, and changes need issues.

    Automatic changes are mentioned with their number, and only if there are any.
    """
    any_issue = bool(findings.is_issue.any())
    if run.recipe.data.source:
        yield f"Review the {'flagged ' if any_issue else ''}labels:", f"permll review {_folder(run)}"
    decisions = Decisions(run.folder).current()
    if any_issue or decisions:
        yield "Write the corrected data:", _apply(run)
    corrections = select_corrections(findings, decisions, auto=True)
    if count := sum(correction.source == "auto" for correction in corrections):
        text = f"With {pluralize(count, 'automatic change')} (probability {DEFAULT_MIN_PROBABILITY:g} or more):"
        yield text, f"{_apply(run)} --auto"


def commands_after_review(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what to do with review decisions."""
    if Decisions(run.folder).current():
        yield "Write the corrected data:", _apply(run)
        if run.task == GIVEN:
            return  # nothing was trained that could learn
        yield "Or learn from the decisions first, and find more:", f"permll clean --continue {_folder(run)}"


def _apply(run: Run) -> str:
    return f"permll apply {_folder(run)} --out {shlex.quote(corrected_name(run.recipe.data.source))}"


def _folder(run: Run) -> str:
    return shlex.quote(str(run.folder))
