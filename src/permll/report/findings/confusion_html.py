"""Which classes are mixed up: flagged labels by given and proposed class, and how labels go wrong by estimate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from permll.report.findings.html_text import counted, name
from permll.report.findings.issue_cards import Pair, pair_key
from permll.report.page.html import escape
from permll.report.text import short

MOST = 20  # classes in a matrix
_LONG = 4  # signs: longer names stand upright above many columns


def mixed_up(facts: Mapping[str, Any], classes: Sequence[str], shown: Mapping[Pair, int]) -> str:
    """Return flagged labels as a matrix, given class down, proposed class across; of the classes hit most.

    Args:
        facts: see ``permll.report.findings_text.findings_facts``.
        classes: all of them.
        shown: how many cards the page has of each pair.
    """
    place = {label: k for k, label in enumerate(classes)}
    counts = {(place[one["given"]], place[one["proposed"]]): one["count"] for one in facts["pairs"]}
    kept = _kept(counts)
    inside = {pair: count for pair, count in counts.items() if pair[0] in kept and pair[1] in kept}
    most = max(inside.values(), default=1)
    rows = []
    for given in kept:
        cells = [_cell((given, other), inside, shown, classes, most) for other in kept]
        rows.append(f'<tr><th scope="row">{name(classes[given])}</th>{"".join(cells)}</tr>')
    note = _note(len(kept), len({k for pair in counts for k in pair}), sum(inside.values()), facts["flagged"])
    said = "Flagged labels: the given class down, the proposed class across."
    said += f'<span class="hint" hidden> A click on a bold number shows its samples.{_unseen(inside, shown)}</span>'
    return _figure("mixed-up", said, [classes[k] for k in kept], rows, note)


def transition(matrix: Sequence[Sequence[float]] | None, classes: Sequence[str]) -> str:
    """Return what a label of each class becomes by estimate, in per cent; nothing for more than 20 classes."""
    if not matrix or len(classes) > MOST:
        return ""
    rows = []
    for k, line in enumerate(matrix):
        cells = []
        for j, share in enumerate(line):
            shown = "" if share < 0.005 else f"{100 * share:.0f}"
            mark = ' class="same"' if j == k else f' style="--share:{share:.3f}"' if shown else ""
            cells.append(f"<td{mark}>{shown}</td>")
        rows.append(f'<tr><th scope="row">{name(classes[k])}</th>{"".join(cells)}</tr>')
    said = "Of 100 samples of the true class (down), so many are given the label (across)."
    figure = _figure("transition", said, classes, rows, "")
    return f"<details><summary>How labels go wrong, by estimate</summary>{figure}</details>"


def _kept(counts: Mapping[Pair, int]) -> list[int]:
    """Return the classes with most flagged labels, given or proposed, in the order of the classes."""
    total: Counter[int] = Counter()
    for pair, count in counts.items():
        for k in pair:
            total[k] += count
    return sorted(k for k, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))[:MOST])


def _cell(pair: Pair, counts: Mapping[Pair, int], shown: Mapping[Pair, int], classes: Sequence[str], most: int) -> str:
    count = counts.get(pair, 0)
    if not count:
        return '<td class="same"></td>' if pair[0] == pair[1] else "<td></td>"
    words = f"{short(classes[pair[0]])} → {short(classes[pair[1]])}: {counted(count, 'label')}"
    filters = f' data-pair="{pair_key(pair)}"'
    if not shown.get(pair):  # further down than the cards
        filters, words = ' class="few"', f"{words}, none of them among the {sum(shown.values()):,} shown"
    return f'<td style="--share:{count / most:.3f}"{filters} title="{escape(words)}">{count:,}</td>'


def _unseen(counts: Mapping[Pair, int], shown: Mapping[Pair, int]) -> str:
    """Say why some numbers, maybe the largest, are not bold."""
    if all(shown.get(pair) for pair in counts):
        return ""
    cards = f"{sum(shown.values()):,}"
    return f' Of the others none is among the {cards} shown below; <a href="findings.csv">findings.csv</a> has them.'


def _note(kept: int, involved: int, inside: int, flagged: int) -> str:
    if kept == involved:
        return ""
    return (
        f"These are the {kept} of {involved:,} classes with most flagged labels; {inside:,} of {flagged:,} flagged "
        "labels are between them."
    )


def _figure(key: str, said: str, heads: Sequence[str], rows: Sequence[str], note: str) -> str:
    upright = ' class="upright"' * (len(heads) > _LONG and max(map(len, heads)) > _LONG)
    columns = "".join(f'<th scope="col">{name(head)}</th>' for head in heads)
    below = f'<p class="notes">{note}</p>' if note else ""
    return (
        f'<figure class="heat"><figcaption id="{key}-said">{said}</figcaption>'
        f'<div class="scroll" role="region" aria-labelledby="{key}-said" tabindex="0">'
        f'<table aria-labelledby="{key}-said"><thead><tr{upright}><td></td>{columns}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>{below}</figure>"
    )
