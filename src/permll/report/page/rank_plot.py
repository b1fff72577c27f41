"""Mean ranks on the page: a dot and its interval for each method, and how far ties with the best reach."""

from collections.abc import Iterable

from permll.report.page.html import escape, filtered_by
from permll.report.rank_tests import Ranking
from permll.report.tables.rank_table import rankings
from permll.report.tables.titles import Row, method_title


def drawn_ranks(rows: Iterable[Row]) -> str:
    """Return the ranks of all tiers where methods can be compared."""
    return "\n".join(_drawing(tier, ranking) for tier, ranking in rankings(rows).items())


def _drawing(tier: str, ranking: Ranking) -> str:
    methods = len(ranking.methods)

    def place(rank: float) -> float:
        return 100 * (min(max(rank, 1.0), methods) - 1) / (methods - 1)

    best = float(ranking.mean_ranks[0])
    lines = []
    for key, mean, (low, high) in zip(ranking.methods, ranking.mean_ranks, ranking.intervals, strict=True):
        tie = place(best + ranking.critical_difference) - place(best)
        left, right = place(float(low)), place(float(high))
        track = (
            f'<span class="tie" style="left:{place(best):.2f}%;width:{tie:.2f}%"></span>'
            f'<span class="interval" style="left:{left:.2f}%;width:{right - left:.2f}%"></span>'
            f'<span class="dot" style="left:{place(float(mean)):.2f}%"></span>'
        )
        lines.append(
            f'<li {filtered_by(key)}><span>{escape(method_title(key))}</span><span class="track" aria-hidden="true">'
            f'{track}</span><span class="number">{mean:.2f}</span></li>'
        )
    said = (
        f"Tier {tier}: mean rank from 1 (left) to {methods}; dot: the mean, line: its 95 % interval, shaded: ties with "
        f"the best (critical difference {ranking.critical_difference:.2f})."
    )
    return f'<figure><figcaption>{escape(said)}</figcaption><ol class="ranks">\n{chr(10).join(lines)}\n</ol></figure>'
