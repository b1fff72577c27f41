"""Table of mean ranks: rank, interval, and letters that mark ties."""

from collections.abc import Iterable
from string import ascii_lowercase

from permll.report.tables.builder import rows_by_tier, unique_rows
from permll.report.tables.model import Cell, Column, Line, Quantity, Table
from permll.report.tables.rank_tests import NUM_RESAMPLES, Ranking, rank_methods
from permll.report.tables.specs import TABLE_SPECS
from permll.report.tables.titles import Row, figure3_point, method_key, method_title, uses_trusted_rows
from permll.report.text import pluralize

_COLUMNS = (
    Column("", "mean rank", Quantity("mean_rank", "mean rank", scale=1, digits=2, better=-1)),
    Column("95 % interval", "from", Quantity("low", "from", scale=1, digits=2, better=0)),
    Column("95 % interval", "to", Quantity("high", "to", scale=1, digits=2, better=0)),
    Column("", "ties", Quantity("ties", "ties", scale=1, better=0)),
)


def rank_tables(rows: Iterable[Row]) -> list[Table]:
    """Return a table of mean ranks for each tier in which methods can be compared."""
    return [_table(tier, ranking) for tier, ranking in rankings(rows).items()]


def rankings(rows: Iterable[Row]) -> dict[str, Ranking]:
    """Return rankings by tier, without runs of Figure 3 and without methods that use trusted rows."""
    rows = [row for row in rows if figure3_point(row) is None and not uses_trusted_rows(method_key(row))]
    by_tier = {tier: rank_methods(unique_rows(tier_rows)) for tier, tier_rows in rows_by_tier(rows).items()}
    return {tier: ranking for tier, ranking in by_tier.items() if ranking is not None}


def tie_letters(ranking: Ranking) -> list[str]:
    """Return the letters of each method, separated by spaces; methods that share a letter are tied.

    After z come aa, ab and so on. A method without ties has no letter.
    """
    names = [*ascii_lowercase, *(first + second for first in ascii_lowercase for second in ascii_lowercase)]
    groups = list(zip(names, ranking.groups, strict=False))
    return [" ".join(name for name, group in groups if index in group) for index in range(len(ranking.methods))]


def _table(tier: str, ranking: Ranking) -> Table:
    spec, n, best = TABLE_SPECS["ranks"], len(ranking.blocks), ranking.mean_ranks[0]
    rank, low, high, ties = (column.quantity for column in _COLUMNS)
    lines = []
    for key, mean, (lowest, highest), letters in zip(
        ranking.methods, ranking.mean_ranks.tolist(), ranking.intervals.tolist(), tie_letters(ranking), strict=True
    ):
        bold = mean - best < ranking.critical_difference
        cells = (Cell(rank, mean, n=n, bold=bold), Cell(low, lowest, n=n), Cell(high, highest, n=n))
        lines.append(Line(*key, method_title(key), (*cells, Cell(ties, note=letters))))
    settings = len({block[:2] for block in ranking.blocks})
    blocks = f"{pluralize(n, 'block')} ({pluralize(settings, 'setting')} of data and noise, with their seeds)"
    caption = f"{spec.description}, over {blocks}. Tier {tier}."
    return Table("ranks", tier, spec.title, caption, _COLUMNS, tuple(lines), tuple(_notes(ranking)))


def _notes(ranking: Ranking) -> list[str]:
    p = "p < 0.0001" if ranking.p < 1e-4 else f"p = {ranking.p:.4f}"
    notes = [
        f"Friedman test: chi-square {ranking.statistic:.1f} with {len(ranking.methods) - 1} degrees of freedom, {p}. "
        f"Nemenyi test: mean ranks that differ by less than {ranking.critical_difference:.2f} are ties at the 5 % "
        "level; they share a letter, and ties with the best are bold.",
        "Both tests treat blocks as independent. Seeds of one setting are not, so the intervals resample settings "
        f"first (bootstrap, {NUM_RESAMPLES} resamples). Neither says anything about other data.",
    ]
    if ranking.left_out:
        notes.append(f"Left out for too few blocks: {', '.join(map(method_title, ranking.left_out))}.")
    return notes
