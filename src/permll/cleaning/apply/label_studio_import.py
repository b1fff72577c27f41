"""Decisions made in Label Studio, from its export in JSON format."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from permll.cleaning.apply.label_studio import CONTROL, NO_CLASS
from permll.cleaning.class_names import check_new_class
from permll.cleaning.review_decisions import Decision, to_verdict
from permll.findings import Finding, Findings
from permll.utils.messages import format_list


def read_annotations(path: Path, findings: Findings) -> dict[str, Decision]:
    """Return the decisions of a Label Studio export by sample id: of each sample the newest annotation.

    A chosen class is kept, accepted or chosen; one that the labeling configuration has in addition is a new class. The
    choice of no class drops the sample. A skipped task, or one submitted without a choice, is unsure.

    Args:
        path: export in the format JSON of a project with the tasks of ``export``.
        findings: of the run that the tasks were exported from.
    """
    rows = {name: row for row, name in enumerate(findings.ids)}
    decisions: dict[str, Decision] = {}
    unknown, changed = [], []
    for data, annotations in _read_tasks(path):
        name = data["id"]
        if name not in rows:
            unknown.append(name)
            continue
        finding = findings[rows[name]]
        if data.get("given_label", finding.given_label) != finding.given_label:
            changed.append(name)
        for annotation in annotations:
            decision = _to_decision(annotation, finding, findings.classes, path)
            if name not in decisions or decision.at >= decisions[name].at:
                decisions[name] = decision
    if unknown or changed:
        samples = format_list(unknown or changed, "sample")
        what = f"contains {samples} that the run does not have" if unknown else f"has other given labels for {samples}"
        raise ValueError(f"{path} {what}: use the export of the tasks that were written for this run.")
    if not decisions:
        raise ValueError(f"{path} has no annotations: label its tasks in Label Studio, and export them as JSON.")
    return decisions


def merge_decisions(*sources: Mapping[str, Decision]) -> dict[str, Decision]:
    """Return the newest decision of each sample; of equally new ones the last.

    Examples:
        >>> old = Decision("a", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00")
        >>> new = Decision("a", "accept", "dog", "Bob", "2024-05-02T10:00:00+00:00")
        >>> merge_decisions({"a": new}, {"a": old})["a"].reviewer
        'Bob'
    """
    merged: dict[str, Decision] = {}
    for decisions in sources:
        for name, decision in decisions.items():
            if name not in merged or decision.at >= merged[name].at:
                merged[name] = decision
    return merged


def _read_tasks(path: Path) -> list[tuple[Mapping[str, Any], list[Any]]]:
    """Return the data and annotations of each task."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist: export the project from Label Studio as JSON.") from None
    except ValueError:
        raise ValueError(f"{path} is not valid JSON: export the project from Label Studio as JSON.") from None
    try:
        found = [(task["data"], task["annotations"]) for task in tasks]
        is_valid = all(isinstance(data["id"], str) and isinstance(each, list) for data, each in found)
    except (TypeError, KeyError):
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"{path} is not an export of tasks of permll: choose the format JSON (not JSON-MIN) in Label Studio, for a "
            "project made from the tasks of permll apply --export label-studio."
        )
    return found


def _to_decision(annotation: Mapping[str, Any], finding: Finding, classes: tuple[str, ...], path: Path) -> Decision:
    try:
        reviewer = _reviewer(annotation.get("completed_by"))
        at = _utc(annotation.get("updated_at") or annotation["created_at"])
        choices = [
            choice
            for result in annotation["result"]
            if result.get("from_name") == CONTROL
            for choice in result["value"]["choices"]
        ]
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ValueError(f"{path} has an annotation of {finding.id} that cannot be read: export it again.") from None
    if len(choices) > 1:
        raise ValueError(f"{path} has several classes for {finding.id} ({', '.join(choices)}): choose one.")
    given = finding.given_label
    if annotation.get("was_cancelled") or not choices:
        return Decision(finding.id, "unsure", given, reviewer, at)
    (label,) = choices
    if label == NO_CLASS and label not in classes:
        return Decision(finding.id, "drop", "", reviewer, at)
    label = label if label in classes else check_new_class(label, classes)
    return Decision(finding.id, to_verdict(label, given, finding.proposed_label), label, reviewer, at)


def _reviewer(user: Any) -> str:
    """Return the name of a user, whom an export describes by number or in full."""
    if isinstance(user, Mapping):
        return str(user.get("email") or user.get("id"))
    return "" if user is None else f"Label Studio user {user}"


def _utc(time: str) -> str:
    """Return a time as the review stores it.

    Examples:
        >>> _utc("2021-03-09T22:16:08.728378Z")
        '2021-03-09T22:16:08.728+00:00'
    """
    at = datetime.fromisoformat(time)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
