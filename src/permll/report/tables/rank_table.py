"""Mean ranks as a table: rank, interval, and letters that methods share which are ties."""

from collections.abc import Iterable
from string import ascii_lowercase

from permll.report.rank_tests import Ranking, rank
from permll.report.tables.builder import by_tier, unique_rows
from permll.report.tables.model import Cell, Column, Line, Quantity, Table
from permll.report.tables.specs import KINDS_OF_TABLES
from permll.report.tables.titles import Key, Row, is_trusted, method_key, method_title, point

_KIND = KINDS_OF_TABLES["ranks"]
_RANK = Quantity("mean_rank", "mean rank", scale=1, digits=2, better=-1)
_LOW = Quantity("low", "from", scale=1, digits=2, better=0)
_HIGH = Quantity("high", "to", scale=1, digits=2, better=0)
_TIES = Quantity("ties", "ties", scale=1, better=0)
_COLUMNS = (
    Column("", "mean rank", _RANK),
    Column("95 % interval", "from", _LOW),
    Column("95 % interval", "to", _HIGH),
    Column("", "ties", _TIES),
)


def rank_tables(rows: Iterable[Row]) -> list[Table]:
    """Return the mean ranks at each tier where methods can be compared."""
    return [_table(tier, ranking) for tier, ranking in rankings(rows).items()]


def rankings(rows: Iterable[Row]) -> dict[str, Ranking]:
    """Return ranks by tier; cells of Figure 3 and methods that are given right labels are left out."""
    rows = [row for row in rows if point(row) is None and not is_trusted(method_key(row))]
    found = {tier: rank(unique_rows(of_tier)) for tier, of_tier in by_tier(rows).items()}
    return {tier: ranking for tier, ranking in found.items() if ranking is not None}


def letters(ranking: Ranking) -> list[str]:
    """Return the letters of each method; two that share one are ties, and a method that ties with none has none.

    After z come aa, ab and so on, so they are separated by spaces.
    """
    names = [*ascii_lowercase, *(first + second for first in ascii_lowercase for second in ascii_lowercase)]
    groups = list(zip(names, ranking.groups, strict=False))
    return [" ".join(name for name, group in groups if place in group) for place in range(len(ranking.methods))]


def _table(tier: str, ranking: Ranking) -> Table:
    n, best = len(ranking.blocks), ranking.mean_ranks[0]
    lines = []
    for place, (key, of_ties) in enumerate(zip(ranking.methods, letters(ranking), strict=True)):
        mean, (low, high) = float(ranking.mean_ranks[place]), map(float, ranking.intervals[place])
        bold = mean == best or mean - best < ranking.critical_difference
        numbers = (Cell(mean, n=n, bold=bold), Cell(low, n=n), Cell(high, n=n), Cell(note=of_ties))
        lines.append(Line(*key, method_title(key), numbers))
    settings = len({block[:2] for block in ranking.blocks})
    where = f"{_count(n, 'block')} ({_count(settings, 'setting')} of data and noise, with their seeds)"
    caption = f"{_KIND.shown}, over {where}. Tier {tier}."
    return Table("ranks", tier, _KIND.title, caption, _COLUMNS, tuple(lines), tuple(_notes(ranking)))


def _notes(ranking: Ranking) -> list[str]:
    p = "p < 0.0001" if ranking.p < 1e-4 else f"p = {ranking.p:.4f}"
    said = [
        f"Friedman: chi-square {ranking.statistic:.1f} with {len(ranking.methods) - 1} degrees of freedom, {p}. "
        f"Nemenyi: mean ranks nearer than {ranking.critical_difference:.2f} are ties at the 5 % level; they share a "
        "letter, and ties with the best are bold.",
        "Both tests take blocks as independent. Seeds of one setting are not, so the intervals draw settings first "
        "(bootstrap, 2000 draws); none of it speaks about other data.",
    ]
    if ranking.left_out:
        said.append(f"Left out, with too few blocks: {_names(ranking.left_out)}.")
    return said


def _names(keys: Iterable[Key]) -> str:
    return ", ".join(map(method_title, keys))


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
