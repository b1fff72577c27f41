"""Findings in words: how many labels are wrong, which classes get mixed up, what to look at first."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from permll.report.text import printable, shorten

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
        "noise": findings.metadata.get("noise"),
        "network": findings.metadata.get("network"),
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


def noise_sentence(facts: Mapping[str, Any]) -> str:
    """Return how many labels are wrong by estimate; nothing without one."""
    noise = facts["noise"]
    if not noise:
        return ""
    low, high = 100 * noise["low"], 100 * noise["high"]
    return f"About {100 * noise['rate']:.1f} % of the labels are wrong ({low:.1f} to {high:.1f} %)."


def network_sentence(facts: Mapping[str, Any]) -> str:
    """Return a warning if the network that judges knows next to nothing itself; nothing if it does."""
    network = facts["network"]
    if not network or network["agrees"] > network["guess"] + 2 * network["error"]:
        return ""
    agrees, guess = 100 * network["agrees"], 100 * network["guess"]
    return (
        f"But the network knows hardly anything: it says {agrees:.0f} % of the labels that it has not seen, and the "
        f"commonest class alone is {guess:.0f} % of them. Train longer (--epochs), or give it other features."
    )


def flagged_sentence(facts: Mapping[str, Any]) -> str:
    """Return how many labels are flagged, and what that means."""
    if not facts["flagged"]:
        return f"No label of {facts['labels']:,} is more likely wrong than right."
    are = "labels are" if facts["flagged"] > 1 else "labels is"
    return f"{facts['flagged']:,} of {facts['labels']:,} {are} flagged: another class is more probable."


def duplicates_sentence(facts: Mapping[str, Any]) -> str:
    """Return how many equal samples have labels that differ; nothing if none have."""
    groups = len(facts["contradictory_duplicates"])
    if not groups:
        return ""
    return f"{groups:,} group{'s of equal samples do' if groups > 1 else ' of equal samples does'} not have one label."


def _lines(findings: Any, facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["noise"]:
        yield noise_sentence(facts)
    if warning := network_sentence(facts):
        yield warning
    yield flagged_sentence(facts)
    if facts["flagged"]:
        yield from _suspects(findings, facts)
    if facts["contradictory_duplicates"]:
        yield duplicates_sentence(facts)


def _suspects(findings: Any, facts: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "Mixed up most"
    for pair in facts["pairs"][:PAIRS]:
        yield f"  {shorten(pair['given'])} -> {shorten(pair['proposed'])}: {pair['count']:,}"
    yield "Classes with most of their labels flagged"
    for one in facts["classes"][:CLASSES]:
        yield f"  {shorten(one['class'])}: {one['flagged']:,} of {one['labels']:,} ({100 * one['share']:.0f} %)"
    yield "To look at first"
    for one in findings.first(min(SUSPECTS, facts["flagged"])):
        yield f"  {printable(one.id)}: {shorten(one.given)} -> {shorten(one.proposed)}  ({100 * one.quality:.1f} % right)"
