"""Text summary of findings: estimated noise rate, flagged labels, confused classes, most suspect samples."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from permll.report.audit_section import audit_facts, audit_sentences
from permll.report.text import pluralize, printable, shorten

MAX_PAIRS = 5
MAX_CLASSES = 3
MAX_ANNOTATORS = 3
MAX_SAMPLES = 10
MAX_TEXT_LENGTH = 76
MAX_GROUPS, MAX_GROUP_SIZE = 5, 5  # of duplicates


def findings_facts(findings: Any) -> dict[str, Any]:
    """Return statistics of all labels, JSON-serializable.

    Args:
        findings: a ``permll.findings.Findings``.
    """
    flagged = findings.is_issue.nonzero()[0].tolist()
    given, proposed = findings.given_labels, findings.proposed_labels
    changed = [row for row in flagged if given[row] != proposed[row]]
    pairs = Counter((findings.classes[given[row]], findings.classes[proposed[row]]) for row in changed)
    sizes, hits = Counter(given.tolist()), Counter(given[flagged].tolist())
    fractions = sorted(((hits[k] / sizes[k], k) for k in hits), reverse=True)
    return {
        "labels": len(findings),
        "flagged": len(flagged),
        "proposals": len(changed),
        "threshold": findings.threshold if findings.flagged is None else None,
        "noise": findings.metadata.get("noise"),
        "network": findings.metadata.get("network"),
        "estimator": findings.metadata.get("estimator"),
        "earlier": findings.metadata.get("earlier"),
        "annotators": findings.metadata.get("annotators"),
        "pairs": [{"given": a, "proposed": b, "count": count} for (a, b), count in pairs.most_common()],
        "classes": [
            {"class": findings.classes[k], "labels": sizes[k], "flagged": hits[k], "share": round(fraction, 4)}
            for fraction, k in fractions
        ],
        "contradictory_duplicates": [list(names) for names in findings.duplicate_ids],
        "audit": audit_facts(findings.audit and findings.audit.facts),
    }


def findings_summary(findings: Any) -> str:
    """Return the findings as text for a terminal."""
    facts = findings_facts(findings)
    lines = [earlier_sentence(facts), noise_sentence(facts), accuracy_warning(facts), flagged_sentence(facts)]
    lines.insert(1, annotators_sentence(facts))
    if facts["flagged"]:
        lines += ["\n" + "\n".join(_issues(findings, facts))]
    found = audit_sentences(facts["audit"])
    audit = ["\nAudit", *(f"  {printable(sentence)}" for sentence in found)] if found else []
    return "\n".join(filter(None, [*lines, duplicates_sentence(facts), *_duplicates(facts), *audit]))


def earlier_sentence(facts: Mapping[str, Any]) -> str:
    """Return what changed since the earlier round; "" for a first round."""
    earlier = facts["earlier"]
    if not earlier:
        return ""
    reviewed = pluralize(earlier["reviewed"], "label")
    return (
        f"Since {earlier['run']}: {reviewed} reviewed, {earlier['wrong']:,} of them wrong; "
        f"flagged labels {earlier['issues_before']:,} -> {facts['flagged']:,}."
    )


def annotators_sentence(facts: Mapping[str, Any]) -> str:
    """Return who the labels are from, and the weakest annotators: those that are surely below the mean; "" for others.

    Examples:
        >>> quality = {"annotator": "ann", "answers": 50, "accuracy": 0.5, "low": 0.37, "high": 0.63}
        >>> others = [{**quality, "annotator": name, "accuracy": 0.9, "high": 0.97} for name in ("bob", "the network")]
        >>> annotators_sentence({"annotators": [quality, *others]})
        'Labels are the consensus of 2 annotators (100 answers); weakest: ann (50 % right, 37 to 63, of 50 answers).'
    """
    if not facts["annotators"]:
        return ""
    people = facts["annotators"][:-1]  # the last is the network
    answers = sum(one["answers"] for one in people)
    mean = sum(one["answers"] * one["accuracy"] for one in people) / answers
    weak = [
        f"{shorten(one['annotator'])} ({100 * one['accuracy']:.0f} % right, {100 * one['low']:.0f} to "
        f"{100 * one['high']:.0f}, of {pluralize(one['answers'], 'answer')})"
        for one in people
        if one["high"] < mean
    ]
    weakest = f"; weakest: {', '.join(weak[:MAX_ANNOTATORS])}" if weak else ""
    return f"Labels are the consensus of {len(people):,} annotators ({answers:,} answers){weakest}."


def noise_sentence(facts: Mapping[str, Any]) -> str:
    """Return the estimated noise rate; "" without an estimate, or if the network knows nothing."""
    noise = facts["noise"]
    if not noise or _is_useless(facts["network"]):
        return ""
    rate, low, high = 100 * noise["rate"], 100 * noise["low"], 100 * noise["high"]
    if facts["earlier"]:
        return f"About {rate:.1f} % of the labels are still wrong ({low:.1f} to {high:.1f} %)." + _stopping_rule(facts)
    if low < rate / 2:  # also if all labels are correct and the network is wrong
        return f"Between {low:.1f} and {rate:.1f} % of the labels are wrong."
    return f"About {rate:.1f} % of the labels are wrong ({low:.1f} to {high:.1f} %)."


def _stopping_rule(facts: Mapping[str, Any]) -> str:
    """Return how many more reviews leave few enough wrong labels; "" if there are few enough."""
    more, target = facts["earlier"].get("more", 0), facts["earlier"].get("target", 0)
    if not more or facts["noise"]["rate"] <= target:
        return ""
    return f" Reviewing the next {more:,}, most suspect first, would leave {100 * target:g} %."


def accuracy_warning(facts: Mapping[str, Any]) -> str:
    """Return a warning if the network predicts less than half of what the majority class does not; otherwise ""."""
    network = facts["network"]
    if not network:
        return ""
    accuracy, majority = 100 * network["accuracy"], 100 * network["majority"]
    name = "estimator" if facts["estimator"] else "network"
    longer = "" if facts["estimator"] else ", or longer training (--epochs)"
    if _is_useless(network):
        return (
            f"Warning: held-out accuracy ({accuracy:.0f} %) is not above the majority class ({majority:.0f} %), so "
            f"wrong labels cannot be found. Use other features{longer}."
        )
    if accuracy - majority >= (100 - majority) / 2:
        return ""
    return (
        f"Warning: the {name} predicts only {accuracy:.0f} % of the held-out labels; flags can be its own errors. "
        f"Better features help (--backbone, --encoder){longer}."
    )


def _is_useless(network: Mapping[str, float] | None) -> bool:
    return network is not None and network["accuracy"] <= network["majority"] + 2 * network["error"]


def flagged_sentence(facts: Mapping[str, Any]) -> str:
    """Return the number of flagged labels."""
    if not facts["flagged"]:
        return f"None of {facts['labels']:,} labels is more likely wrong than right."
    verb = "labels are" if facts["flagged"] > 1 else "labels is"
    proposals = f"another label is proposed for {facts['proposals']:,}"
    return f"{facts['flagged']:,} of {facts['labels']:,} {verb} flagged; {proposals}."


def duplicates_sentence(facts: Mapping[str, Any]) -> str:
    """Return the number of groups of identical samples with different labels; "" for none."""
    groups = len(facts["contradictory_duplicates"])
    if not groups:
        return ""
    return f"{pluralize(groups, 'group')} of identical samples {'have' if groups > 1 else 'has'} different labels."


def _duplicates(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of groups of identical samples, a group per line."""
    groups = facts["contradictory_duplicates"]
    for names in groups[:MAX_GROUPS]:
        more = ", ..." if len(names) > MAX_GROUP_SIZE else ""
        yield f"  {printable(', '.join(names[:MAX_GROUP_SIZE]))}{more}"
    if len(groups) > MAX_GROUPS:
        yield f"  and {pluralize(len(groups) - MAX_GROUPS, 'more group')}"


def _issues(findings: Any, facts: Mapping[str, Any]) -> Iterator[str]:
    yield "Most frequent confusions"
    for pair in facts["pairs"][:MAX_PAIRS]:
        yield f"  {shorten(pair['given'])} -> {shorten(pair['proposed'])}: {pair['count']:,}"
    yield "Classes with the most flagged labels, by fraction"
    for line in facts["classes"][:MAX_CLASSES]:
        yield f"  {shorten(line['class'])}: {line['flagged']:,} of {line['labels']:,} ({100 * line['share']:.0f} %)"
    yield "Most suspect labels (probability that the given label is correct)"
    for finding in findings.head(min(MAX_SAMPLES, facts["flagged"])):
        labels = shorten(finding.given_label)
        if finding.proposed_label != finding.given_label:
            labels += f" -> {shorten(finding.proposed_label)}"
        yield f"  {printable(finding.id)}: {labels}  ({100 * finding.label_quality:.1f} %)"
        if finding.text:
            yield f"    {printable(finding.text)[:MAX_TEXT_LENGTH]}"
