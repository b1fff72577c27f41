"""The most suspect samples as cards: how each looks, what its label was and may be, how probable that is, and why."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from permll.report.findings.html_text import name, percent
from permll.report.findings.preview_html import Look, draw_look
from permll.report.page.html import escape
from permll.report.text import short

CARDS = 100
FEW = 12  # cards where nothing is flagged
_LONGEST = 200  # signs of an id

Pair = tuple[int, int]  # given and proposed class


def rows_of(findings: Any) -> list[int]:
    """Return the rows to show: the most suspect of those that are flagged, or if none is, those trusted least."""
    flagged = int(findings.is_issue.sum())
    rows: list[int] = findings.order[: min(flagged, CARDS) or FEW].tolist()
    return rows


def pairs_of(findings: Any) -> Counter[Pair]:
    """Return how many cards have each pair of given and proposed class, the most frequent first."""
    rows = rows_of(findings)
    found = Counter(zip(findings.given_labels[rows].tolist(), findings.proposed_labels[rows].tolist(), strict=True))
    return Counter(dict(found.most_common()))


def pair_key(pair: Pair) -> str:
    """Return a pair as the script knows it: by the numbers of its classes, as names may be anything.

    Examples:
        >>> pair_key((3, 8))
        '3-8'
    """
    return f"{pair[0]}-{pair[1]}"


def cards(findings: Any, look: Callable[[int], Look]) -> str:
    """Return the cards, the most suspect first.

    Args:
        findings: a ``permll.findings.Findings``.
        look: row -> how its sample looks.
    """
    return f'<ol class="cards">\n{"".join(_card(findings, row, look(row)) for row in rows_of(findings))}</ol>'


def options(findings: Any) -> str:
    """Return the pairs that can be chosen, with how many cards each has, and how many rows."""
    classes, found = findings.classes, []
    for (given, other), count in pairs_of(findings).items():
        every = int(((findings.given_labels == given) & (findings.proposed_labels == other) & findings.is_issue).sum())
        words = f"{short(classes[given])} → {short(classes[other])} ({count})"
        found.append(f'<option value="{pair_key((given, other))}" data-all="{every}">{escape(words)}</option>')
    return "".join(found)


def _card(findings: Any, row: int, look: Look) -> str:
    one = findings[row]
    pair = (int(findings.given_labels[row]), int(findings.proposed_labels[row]))
    words = " ".join((one.id, one.given_label, one.proposed_label)).lower()
    shown = one.id if len(one.id) <= _LONGEST else f"…{one.id[1 - _LONGEST :]}"  # the end of a path says most
    return (
        f'<li class="card" data-pair="{pair_key(pair)}" data-words="{escape(words)}">{draw_look(look, shown)}'
        f'{_judged(one)}<p class="reason">{escape(one.reason)}</p>'
        f'<p class="id"><span>{one.rank:,}</span> <code>{escape(shown)}</code></p></li>\n'
    )


def _judged(one: Any) -> str:
    if one.given_label == one.proposed_label:
        return f'<p class="judged">{_label(one.given_label, "", one.label_quality)}</p>'
    given, proposed = (
        _label(one.given_label, "was", one.label_quality),
        _label(one.proposed_label, "now", one.confidence),
    )
    return f'<p class="judged">{given} <span class="arrow">→</span> {proposed}</p>'


def _label(label: str, kind: str, chance: float) -> str:
    return f"<span>{name(label, kind)} <small>{percent(chance)}</small></span>"
