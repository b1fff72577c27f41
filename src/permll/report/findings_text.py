"""Findings in words: how many labels are wrong, which classes get mixed up, what to look at first."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from permll.report.noise import printable, short

PAIRS = 5
SUSPECTS = 10
CLASSES = 3


def findings_facts(findings: Any) -> dict[str, Any]:
    """Return what there is to say about all labels together, as JSON holds it.

    Args:
        findings: a ``permll.cleaning.findings.Findings``.
    """
    flagged = findings.flagged.nonzero()[0].tolist()
    given, proposed = findings.given, findings.proposed
    pairs = Counter((findings.classes[given[row]], findings.classes[proposed[row]]) for row in flagged)
    sizes, hit = Counter(given.tolist()), Counter(given[flagged].tolist())
    shares = sorted(((hit[k] / sizes[k], k) for k in hit), reverse=True)
    return {
        "labels": len(findings),
        "flagged": len(flagged),
        "threshold": findings.threshold,
        "noise": findings.about.get("noise"),
        "pairs": [{"given": one, "proposed": other, "count": count} for (one, other), count in pairs.most_common()],
        "classes": [
            {"class": findings.classes[k], "labels": sizes[k], "flagged": hit[k], "share": round(share, 4)}
            for share, k in shares
        ],
        "contradictory_duplicates": [[findings.ids[row] for row in rows] for rows in findings.duplicates],
    }


def findings_summary(findings: Any) -> str:
    """Return the findings as text for a terminal."""
    return "\n".join(_lines(findings, findings_facts(findings)))


def _lines(findings: Any, facts: dict[str, Any]) -> Iterator[str]:
    noise = facts["noise"]
    if noise:
        low, high = 100 * noise["low"], 100 * noise["high"]
        yield f"About {100 * noise['rate']:.1f} % of the labels are wrong ({low:.1f} to {high:.1f} %)."
    if not facts["flagged"]:
        yield f"No label of {facts['labels']:,} is more likely wrong than right."
        return
    yield f"{facts['flagged']:,} of {facts['labels']:,} labels are flagged: another class is more probable."
    yield ""
    yield "Mixed up most"
    for pair in facts["pairs"][:PAIRS]:
        yield f"  {short(pair['given'])} -> {short(pair['proposed'])}: {pair['count']:,}"
    yield "Classes with most of their labels flagged"
    for one in facts["classes"][:CLASSES]:
        yield f"  {short(one['class'])}: {one['flagged']:,} of {one['labels']:,} ({100 * one['share']:.0f} %)"
    yield "To look at first"
    for one in findings.first(min(SUSPECTS, facts["flagged"])):
        yield f"  {printable(one.id)}: {short(one.given)} -> {short(one.proposed)}  ({100 * one.quality:.1f} % right)"
    duplicates = facts["contradictory_duplicates"]
    if duplicates:
        plural = "s of equal samples do" if len(duplicates) > 1 else " of equal samples does"
        yield f"{len(duplicates):,} group{plural} not have one label."
