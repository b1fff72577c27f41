"""Classes by how many of their labels are flagged, and equal samples whose labels differ."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from permll.report.findings.html_text import counted, name
from permll.report.findings.preview_html import Look, draw_look
from permll.report.page.html import escape

CLASSES, GROUPS, TWINS, PROPOSED = 20, 30, 10, 2


def classes_table(facts: Mapping[str, Any]) -> str:
    """Return the classes that are hit worst, with what is proposed instead; see ``findings_facts``."""
    proposed: dict[str, list[str]] = {}
    for one in facts["pairs"]:  # the most frequent first
        proposed.setdefault(one["given"], []).append(f"{name(one['proposed'])} ({one['count']:,})")
    lines = "\n".join(_line(one, proposed[one["class"]]) for one in facts["classes"][:CLASSES])
    rest = counted(len(facts["classes"]) - CLASSES, "more class", "more classes")
    below = f'<p class="notes">and {rest} with flagged labels</p>' if len(facts["classes"]) > CLASSES else ""
    columns = "".join(f'<th scope="col" data-sort>{head}</th>' for head in ("Class", "Labels", "Flagged", "Share"))
    columns += '<th scope="col" class="words">Proposed instead</th>'
    return (
        '<figure class="classes"><figcaption id="classes-said">Classes with most of their labels flagged.</figcaption>'
        '<div class="scroll" role="region" aria-labelledby="classes-said" tabindex="0">'
        f'<table class="sortable" aria-labelledby="classes-said"><thead><tr>{columns}</tr></thead>'
        f"<tbody>\n{lines}\n</tbody></table></div>{below}</figure>"
    )


def duplicates_list(findings: Any, look: Callable[[int], Look]) -> str:
    """Return groups of equal samples with their ids and labels; nothing without any."""
    if not findings.duplicates:
        return ""
    groups = "\n".join(_group(findings, rows, look(rows[0])) for rows in findings.duplicates[:GROUPS])
    rest = len(findings.duplicates) - GROUPS
    below = f'<p class="notes">and {counted(rest, "more group")}: findings.json has all</p>' if rest > 0 else ""
    return f'<ul class="twins">\n{groups}\n</ul>{below}'


def _line(one: Mapping[str, Any], proposed: Sequence[str]) -> str:
    labels, flagged, share = one["labels"], one["flagged"], one["share"]
    return (
        f'<tr><th scope="row">{name(one["class"])}</th><td data-value="{labels}">{labels:,}</td>'
        f'<td data-value="{flagged}">{flagged:,}</td>'
        f'<td class="share" data-value="{share}" style="--share:{share:.3f}">{100 * share:.0f} %</td>'
        f'<td class="words">{", ".join(proposed[:PROPOSED])}</td></tr>'
    )


def _group(findings: Any, rows: tuple[int, ...], look: Look) -> str:
    twins = ", ".join(
        f"<span><code>{escape(findings.ids[row])}</code> {name(findings.classes[findings.given_labels[row]], 'label')}</span>"
        for row in rows[:TWINS]
    )
    rest = len(rows) - TWINS
    more = f", and {rest:,} more" if rest > 0 else ""
    return f"<li>{draw_look(look, findings.ids[rows[0]])}<p>{twins}{more}</p></li>"
