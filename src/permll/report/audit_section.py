"""The audit of findings as sentences, and as the content of a section of the report with previews."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from permll.report.sample_preview import Preview, limit_preview
from permll.report.text import pluralize, shorten

MAX_PAIRS, MAX_OUTLIERS, MAX_CLASSES, MAX_COLUMNS = 9, 12, 30, 30
MAX_ID_LENGTH = 120
MAX_NAMES = 5

PreviewById = Callable[[str], Preview]


def audit_facts(facts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the facts of an audit without their lists of samples; None without an audit.

    Examples:
        >>> audit_facts({"seconds": 0.1, "empty": {"columns": {"age": 3}, "samples": 1, "ids": ["a"]}})
        {'seconds': 0.1, 'empty': {'columns': {'age': 3}, 'samples': 1}}
    """
    if facts is None:
        return None
    without_lists = {
        name: {key: value for key, value in part.items() if key not in ("pairs", "ids")}
        for name, part in facts.items()
        if isinstance(part, Mapping)
    }
    return {**facts, **without_lists}


def saved_audit_facts(folder: Path) -> dict[str, Any] | None:
    """Return the facts that a run's ``findings.json`` holds; None without an audit."""
    path = folder / "findings.json"
    return audit_facts(json.loads(path.read_text()).get("audit")) if path.is_file() else None


def audit_sentences(facts: Mapping[str, Any] | None) -> list[str]:
    """Return what is remarkable, a sentence for each; nothing without an audit.

    Examples:
        >>> audit_sentences({"outliers": {"count": 3}, "near_duplicates": {"groups": 0}})
        ['3 samples are outliers: they resemble no others.']
    """
    if facts is None:
        return []
    parts = (
        _near_duplicates_sentence(facts.get("near_duplicates")),
        _leaks_sentence(facts.get("leaks")),
        _outliers_sentence(facts.get("outliers")),
        _classes_sentence(facts.get("classes")),
        _empty_sentence(facts.get("empty")),
        *(f"Not searched: {name.replace('_', '-')} ({reason})." for name, reason in facts.get("failed", {}).items()),
    )
    return [sentence for sentence in parts if sentence]


def _near_duplicates_sentence(part: Mapping[str, Any] | None) -> str:
    if not part or not part["groups"]:
        return ""
    text = f"{pluralize(part['samples'], 'sample')} are near-duplicates, in {pluralize(part['groups'], 'group')}"
    conflicts = len(part["conflicts"])
    return f"{text}; {conflicts:,} of them with different labels." if conflicts else f"{text}."


def _leaks_sentence(part: Mapping[str, Any] | None) -> str:
    if not part:
        return ""
    if not part["count"]:
        return f"None of {pluralize(part['samples'], 'test sample')} repeats one of these samples."
    verb = "repeats" if part["count"] == 1 else "repeat"
    return f"{part['count']:,} of {pluralize(part['samples'], 'test sample')} {verb} one of these samples (leaks)."


def _outliers_sentence(part: Mapping[str, Any] | None) -> str:
    if not part or not part["count"]:
        return ""
    if part["count"] == 1:
        return "1 sample is an outlier: it resembles no others."
    return f"{part['count']:,} samples are outliers: they resemble no others."


def _classes_sentence(part: Mapping[str, Any] | None) -> str:
    if not part or not part["rare"]:
        return ""
    names, counts = part["rare"], part["counts"]
    listed = ", ".join(f"{shorten(name)} ({counts[name]:,})" for name in names[:MAX_NAMES])
    more = ", ..." if len(names) > MAX_NAMES else ""
    ratio = f"less than {100 * part['min_ratio']:g} % of the largest class"
    return f"{pluralize(len(names), 'class', 'classes')} with {ratio} ({max(counts.values()):,}): {listed}{more}."


def _empty_sentence(part: Mapping[str, Any] | None) -> str:
    if not part or not (part["columns"] or part["samples"]):
        return ""
    if not part["columns"]:
        return f"{pluralize(part['samples'], 'sample')} {'are' if part['samples'] > 1 else 'is'} blank."
    cells = sum(part["columns"].values())
    most = max(part["columns"], key=part["columns"].get)
    return (
        f"{pluralize(cells, 'empty cell')} in {pluralize(len(part['columns']), 'column')}, most in {shorten(most)} "
        f"({part['columns'][most]:,})."
    )


def audit_section(findings: Any, preview: PreviewById, test_preview: PreviewById) -> dict[str, Any] | None:
    """Return the content of the section; None without an audit.

    Args:
        findings: a ``permll.findings.Findings``.
        preview: id -> preview of a sample.
        test_preview: id -> preview of a test sample.
    """
    if findings.audit is None:
        return None
    facts = findings.audit.facts
    sentences = audit_sentences(audit_facts(facts))
    near, leaks, empty = (facts.get(name) or {} for name in ("near_duplicates", "leaks", "empty"))
    return {
        "sentences": sentences or ["No near-duplicates, outliers, rare classes or empty values were found."],
        "near_duplicates": _pairs(near.get("pairs", ()), preview, preview),
        "leaks": _pairs(leaks.get("pairs", ()), preview, test_preview),
        "outliers": _outliers(findings, preview),
        "classes": _classes(facts.get("classes")),
        "columns": sorted(empty.get("columns", {}).items(), key=lambda item: -item[1])[:MAX_COLUMNS],
        "blank": [_cut(name) for name in empty.get("ids", ())[:MAX_OUTLIERS]],
    }


def _pairs(pairs: Any, first: PreviewById, second: PreviewById) -> dict[str, Any]:
    """Return the first pairs with both previews, and the number of the others."""
    lines = [
        {
            "samples": [
                {"id": _cut(name), "label": label, "preview": limit_preview(preview(name))}
                for name, label, preview in zip(pair["ids"], pair["labels"], (first, second), strict=True)
            ],
            "similarity": "identical" if pair["identical"] else f"{100 * pair['similarity']:.0f} % similar",
            "is_conflict": len(set(pair["labels"])) > 1,
        }
        for pair in pairs[:MAX_PAIRS]
    ]
    rest = len(pairs) - len(lines)
    return {"lines": lines, "rest": pluralize(rest, "more pair") if rest else ""}


def _outliers(findings: Any, preview: PreviewById) -> dict[str, Any]:
    """Return the samples with the highest scores, among outliers."""
    audit = findings.audit
    rows = audit.is_outlier.nonzero()[0]
    rows = rows[np.argsort(-audit.outlier_score[rows], kind="stable")].tolist()
    lines = [
        {
            "id": _cut(findings.ids[row]),
            "label": findings.classes[findings.given_labels[row]],
            "preview": limit_preview(preview(findings.ids[row])),
            "score": float(audit.outlier_score[row]),
        }
        for row in rows[:MAX_OUTLIERS]
    ]
    rest = len(rows) - len(lines)
    return {"lines": lines, "rest": pluralize(rest, "more outlier") if rest else ""}


def _classes(part: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not part:
        return None
    counts = list(part["counts"].items())
    largest = max(part["counts"].values(), default=0) or 1
    kept = counts if len(counts) <= MAX_CLASSES else [*counts[: MAX_CLASSES // 2], *counts[-MAX_CLASSES // 2 :]]
    lines = [(name, count, count / largest, name in part["rare"]) for name, count in kept]
    rest = len(counts) - len(kept)
    return {"lines": lines, "rest": pluralize(rest, "other class", "other classes") if rest else ""}


def _cut(name: str) -> str:
    return name if len(name) <= MAX_ID_LENGTH else f"…{name[1 - MAX_ID_LENGTH :]}"
