"""HTML report of findings: estimated noise, label issues with their samples, confused classes, duplicates.

The page is a single file with its styles, script, images and drawings inside. It needs no network and no server, and
its content security policy forbids to load or run anything else.
"""

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from permll.report.findings_text import (
    accuracy_warning,
    annotators_sentence,
    duplicates_sentence,
    earlier_sentence,
    findings_facts,
    flagged_sentence,
    noise_sentence,
)
from permll.report.jinja import asset, render
from permll.report.quality_histogram import quality_histogram
from permll.report.sample_preview import Preview, limit_preview
from permll.report.text import pluralize, shorten

REPORT_FILE = "report.html"
REVIEW_FIRST = (
    "As many labels are flagged as are estimated to be wrong. Each may still be right: review before changing it."
)
REVIEW_GIVEN = "Each of the flagged labels may still be right: review it before changing it."
NO_PROOF = "This does not prove that all labels are right: an error that resembles its class is not detected."
MAX_CARDS = 100
MAX_MORE_CARDS = 100  # that only the cells of the matrix and a search open
MAX_UNFLAGGED_CARDS = 12  # if no label is flagged
MAX_CLASSES = 20  # of a matrix or table
MAX_PROPOSED = 2  # classes proposed instead, per class
MAX_GROUPS, MAX_GROUP_SIZE = 30, 10  # of duplicates
MAX_ID_LENGTH = 200

Pair = tuple[int, int]  # given and proposed class
_CELL = {"text": "", "kind": "", "fraction": "", "pair": "", "title": ""}  # of a matrix


def findings_page(
    findings: Any,
    preview: Callable[[int], Preview],
    *,
    answers: Callable[[int], Sequence[tuple[str, str]]] = lambda _: (),
    title: str,
    details: Mapping[str, object],
    commands: Sequence[tuple[str, str]],
    audit: Mapping[str, Any] | None = None,
) -> str:
    """Return the page as HTML, without the sections that would be empty.

    Args:
        findings: a ``permll.findings.Findings``.
        preview: row -> preview of its sample.
        answers: row -> annotators of its sample and their answers.
        title: name of the data set.
        details: how the findings were computed, as names and values.
        commands: next steps, each a text and a command.
        audit: content of the section on near-duplicates and outliers, see ``permll.report.audit_section``.
    """
    facts = findings_facts(findings)
    pairs = list(zip(findings.given_labels.tolist(), findings.proposed_labels.tolist(), strict=True))
    is_changed = findings.is_issue & (findings.given_labels != findings.proposed_labels)
    flagged = Counter(pairs[row] for row in is_changed.nonzero()[0])
    rows = findings.order[: min(facts["flagged"], MAX_CARDS) or MAX_UNFLAGGED_CARDS].tolist()
    more_rows = _rows_of_cells(pairs, findings.order[is_changed[findings.order]].tolist(), rows)
    shown = Counter(pairs[row] for row in (*rows, *more_rows))
    transition = _transition(findings.metadata.get("transition"), findings.classes)
    sections = {
        "confusion": "Confused classes" if facts["flagged"] or transition else "",
        "issues": "Most suspect labels" if facts["flagged"] else "Least trusted labels (none is flagged)",
        "annotators": "Annotators" if facts["annotators"] else "",
        "duplicates": "Identical samples with different labels" if findings.duplicates else "",
        "audit": "Audit" if audit else "",
        "details": "Details",
    }
    script = asset("base.js", "findings.js")
    return render(
        "findings.html.j2",
        title=title,
        headline=flagged_sentence(facts).split(";")[0] if facts["flagged"] else "No label is flagged",
        lead=_lead(facts),
        key_numbers=_key_numbers(facts, len(findings.classes)),
        commands=commands,
        histogram=quality_histogram(findings),
        sections={name: heading for name, heading in sections.items() if heading},
        confusion=_confusion(flagged, shown, findings.classes) if facts["flagged"] else None,
        classes=_classes(facts),
        transition=transition,
        cards_text=_cards_text(len(rows), facts["flagged"]),
        pair_options=_pair_options(flagged, shown, findings.classes),
        cards=[_card(findings, row, preview(row)) | {"answers": answers(row)} for row in rows],
        more_cards=[_card(findings, row, preview(row)) | {"answers": answers(row)} for row in more_rows],
        annotators=facts["annotators"],
        duplicates=_duplicates(findings, facts, preview) if findings.duplicates else None,
        audit=audit,
        details=details,
        style=asset("base.css", "findings.css"),
        script=script,
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _lead(facts: Mapping[str, Any]) -> str:
    if facts["flagged"]:
        text = REVIEW_FIRST if facts["threshold"] is not None else REVIEW_GIVEN
    elif facts["contradictory_duplicates"]:
        text = f"{flagged_sentence(facts)} However, {duplicates_sentence(facts)}"
    else:
        text = f"{flagged_sentence(facts)} {NO_PROOF}"
    sentences = (
        annotators_sentence(facts),
        earlier_sentence(facts),
        noise_sentence(facts),
        accuracy_warning(facts),
        text,
    )
    return " ".join(filter(None, sentences))


def _key_numbers(facts: Mapping[str, Any], num_classes: int) -> list[tuple[str, str, str]]:
    """Return the largest numbers of the page, each with its name and a remark."""
    flagged, noise = facts["flagged"], facts["noise"]
    share = 100 * flagged / max(facts["labels"], 1)
    numbers = [(f"{flagged:,}", "flagged", f"{share:.1f} % of {pluralize(facts['labels'], 'label')}")]
    if noise:
        interval = f"{100 * noise['low']:.1f} to {100 * noise['high']:.1f} %"
        numbers.append((f"{100 * noise['rate']:.1f} %", "estimated noise rate", interval))
    if hit := len(facts["classes"]):
        numbers.append((f"{hit:,}", "classes affected" if hit > 1 else "class affected", f"of {num_classes:,}"))
    if groups := len(facts["contradictory_duplicates"]):
        numbers.append((f"{groups:,}", "contradictions", "between identical samples"))
    return numbers


def _rows_of_cells(pairs: Sequence[Pair], flagged: Sequence[int], rows: Sequence[int]) -> list[int]:
    """Return rows that the cells of the matrix open in addition to ``rows``, most suspect first.

    There are at most ``MAX_MORE_CARDS``. Cells that open fewer samples so far come first.

    Args:
        pairs: given and proposed class of all N rows.
        flagged: flagged rows, most suspect first.
        rows: rows that are shown anyway.
    """
    is_shown, counts, candidates = set(rows), Counter[Pair](), []
    for place, row in enumerate(flagged):
        counts[pairs[row]] += 1
        if row not in is_shown:
            candidates.append((counts[pairs[row]], place, row))
    chosen = sorted(candidates)[:MAX_MORE_CARDS]
    return [row for _, _, row in sorted(chosen, key=lambda candidate: candidate[1])]


def _confusion(flagged: Counter[Pair], cards: Counter[Pair], classes: Sequence[str]) -> dict[str, Any]:
    """Return flagged labels as a matrix of given and proposed class, restricted to the classes with most of them.

    Args:
        flagged: number of flagged labels of each pair.
        cards: number of cards of each pair.
        classes: class names.
    """
    totals: Counter[int] = Counter()
    for pair, count in flagged.items():
        totals.update(dict.fromkeys(pair, count))
    indices = sorted(sorted(totals, key=lambda k: (-totals[k], k))[:MAX_CLASSES])
    inside = {pair: count for pair, count in flagged.items() if pair[0] in indices and pair[1] in indices}
    highest = max(inside.values(), default=1)

    def cell(pair: Pair) -> dict[str, str]:
        count = inside.get(pair, 0)
        if not count:
            return _CELL | {"kind": "diagonal" if pair[0] == pair[1] else ""}
        title = f"{_pair_title(pair, classes)}: {pluralize(count, 'label')}"
        content = _CELL | {"text": f"{count:,}", "fraction": f"{count / highest:.3f}"}
        if cards[pair]:
            return content | {"pair": _pair_key(pair), "title": title}
        return content | {"kind": "not-shown", "title": f"{title}; none of them among the samples below"}

    note = (
        f"The {len(indices)} of {len(totals):,} classes with the most flagged labels; {sum(inside.values()):,} of "
        f"{flagged.total():,} flagged labels are between them."
    )
    return {
        "columns": [classes[k] for k in indices],
        "rows": [(classes[given], [cell((given, proposed)) for proposed in indices]) for given in indices],
        "note": note if len(indices) < len(totals) else "",
        "has_hidden": not all(cards[pair] for pair in inside),
    }


def _transition(matrix: Sequence[Sequence[float]] | None, classes: Sequence[str]) -> dict[str, Any] | None:
    """Return the estimated transition matrix in percent; None without one, or for more than 20 classes."""
    if not matrix or len(classes) > MAX_CLASSES:
        return None

    def cell(value: float, is_diagonal: bool) -> dict[str, str]:
        text = "" if value < 0.005 else f"{100 * value:.0f}"
        return _CELL | {"text": text} | ({"kind": "diagonal"} if is_diagonal else {"fraction": text and f"{value:.3f}"})

    rows = [(classes[k], [cell(value, j == k) for j, value in enumerate(row)]) for k, row in enumerate(matrix)]
    return {"columns": classes, "rows": rows}


def _classes(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the classes with the largest fraction of flagged labels, and the classes most often proposed instead."""
    proposed: dict[str, list[tuple[str, int]]] = {}
    for pair in facts["pairs"]:  # most frequent first
        proposed.setdefault(pair["given"], []).append((pair["proposed"], pair["count"]))
    lines = [
        {**line, "name": line["class"], "proposed": proposed.get(line["class"], [])[:MAX_PROPOSED]}
        for line in facts["classes"][:MAX_CLASSES]
    ]
    rest = len(facts["classes"]) - MAX_CLASSES
    return {"lines": lines, "rest": pluralize(rest, "more class", "more classes") if rest > 0 else ""}


def _cards_text(shown: int, flagged: int) -> str:
    first = f"The first {shown:,} of {flagged:,} flagged labels. " if shown < flagged else ""
    labels = "given label → proposed label, each" if flagged else "given label"
    return f"{first}Below each sample: {labels} with its probability."


def _pair_options(flagged: Counter[Pair], cards: Counter[Pair], classes: Sequence[str]) -> list[dict[str, str]]:
    """Return the pairs of classes that have cards, the most frequent first."""
    return [
        {"pair": _pair_key(pair), "flagged": str(flagged[pair]), "text": f"{_pair_title(pair, classes)} ({count})"}
        for pair, count in cards.most_common()
    ]


def _card(findings: Any, row: int, preview: Preview) -> dict[str, Any]:
    finding = findings[row]
    labels = [
        (finding.given_label, "given", finding.label_quality),
        (finding.proposed_label, "proposed", finding.confidence),
    ]
    if finding.given_label == finding.proposed_label:
        labels = [(finding.given_label, "", finding.label_quality)]
    long = len(finding.id) > MAX_ID_LENGTH
    return {
        "pair": _pair_key((int(findings.given_labels[row]), int(findings.proposed_labels[row]))),
        "words": " ".join((finding.id, finding.given_label, finding.proposed_label)).lower(),
        "preview": limit_preview(preview),
        "labels": labels,
        "reason": finding.reason,
        "rank": finding.rank,
        "id": f"…{finding.id[1 - MAX_ID_LENGTH :]}" if long else finding.id,  # the end of a path says most
    }


def _duplicates(findings: Any, facts: Mapping[str, Any], preview: Callable[[int], Preview]) -> dict[str, Any]:
    """Return groups of equal samples with different labels."""
    groups = []
    for rows in findings.duplicates[:MAX_GROUPS]:
        samples = [(findings.ids[row], findings.classes[findings.given_labels[row]]) for row in rows[:MAX_GROUP_SIZE]]
        more = f"{len(rows) - MAX_GROUP_SIZE:,}" if len(rows) > MAX_GROUP_SIZE else ""
        groups.append({"preview": limit_preview(preview(rows[0])), "samples": samples, "rest": more})
    rest = len(findings.duplicates) - MAX_GROUPS
    text = pluralize(rest, "more group") if rest > 0 else ""
    return {"text": duplicates_sentence(facts), "groups": groups, "rest": text}


def _pair_title(pair: Pair, classes: Sequence[str]) -> str:
    return f"{shorten(classes[pair[0]])} → {shorten(classes[pair[1]])}"


def _pair_key(pair: Pair) -> str:
    """Return a pair of classes by number, since names may contain anything."""
    return f"{pair[0]}-{pair[1]}"
