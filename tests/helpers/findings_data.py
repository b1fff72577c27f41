"""Synthetic findings, and their HTML report."""

from pathlib import Path
from typing import Any

import numpy as np

from permll.findings import Findings
from permll.report.findings_page import findings_page
from tests.helpers.html_pages import PageParser, parse_page

NOISE = {"rate": 0.2, "low": 0.15, "high": 0.25, "rows": 50}


def make_findings(
    rows: int = 60, classes: tuple[str, ...] = ("ant", "bee", "cat"), wrong: int = 20, **more: Any
) -> Findings:
    """Return findings whose first ``wrong`` labels are flagged, with decreasing confidence."""
    rng = np.random.default_rng(0)
    c = len(classes)
    given = rng.integers(0, c, rows)
    posterior = np.full((rows, c), 0.02 / c) + 0.98 * np.eye(c)[given]
    flagged = np.arange(min(wrong, rows))
    confidence = np.linspace(0.99, 0.6, len(flagged))[:, None]
    other = (given[flagged] + 1 + rng.integers(0, c - 1, len(flagged))) % c
    posterior[flagged] = confidence * np.eye(c)[other] + (1 - confidence) * np.eye(c)[given[flagged]]
    return Findings.from_posterior(
        more.pop("ids", [f"row-{row}" for row in range(rows)]),
        classes,
        given,
        posterior,
        reasons=np.where(np.arange(rows) < wrong, 3, 0),
        metadata={"noise": NOISE} | more.pop("metadata", {}),
        **more,
    )


def text_preview(row: int) -> dict[str, Any]:
    """Return a short text."""
    return {"kind": "text", "text": f"sample {row}", "more": 0}


def write_findings_page(
    folder: Path, findings: Findings, preview: Any = text_preview, **more: Any
) -> tuple[PageParser, str]:
    """Write report.html into a folder; return it parsed, and as text."""
    options: dict[str, Any] = {"title": "insects", "details": {"Seed": 0}, "commands": [("Next:", "permll review run")]}
    path = folder / "report.html"
    path.write_text(findings_page(findings, preview, **options | more), encoding="utf-8")
    return parse_page(path), path.read_text(encoding="utf-8")
