"""From rows of finished cells to tables as data: a method's line, a setting's columns, mean and spread over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from permll.report.paper_numbers import PRINTED, Printed
from permll.report.tables.model import Cell, Column, Line, Quantity, Table
from permll.report.tables.notes import caption, notes
from permll.report.tables.significance import best_set, spread
from permll.report.tables.specs import KINDS_OF_TABLES, Kind
from permll.report.tables.titles import (
    REAL,
    TIERS,
    Key,
    Row,
    data_order,
    data_title,
    is_trusted,
    line_title,
    method_key,
    method_order,
    noise_order,
    noise_titles,
    point,
    split_noise,
)

Setting = tuple[str, str]  # data and noise
STAND_IN = {"digits": "cifar10", "fashion_mnist": "cifar10"}  # whose printed numbers stand beside ours
BASE = "ce"
PaperNumbers = Mapping[tuple[str, str, str, str], Printed]  # by table, method, data and noise


class Scores(NamedTuple):
    """Numbers of one tier by method, setting and quantity, then by seed."""

    by_cell: dict[tuple[Key, Setting, str], dict[int, float]]
    keys: list[Key]
    settings: list[Setting]


def make_tables(rows: Iterable[Row], table: str, printed: PaperNumbers = PRINTED) -> list[Table]:
    """Return a table for each tier that has rows for it.

    Args:
        rows: finished cells.
        table: one of ``KINDS_OF_TABLES``.
        printed: the paper's numbers.

    Examples:
        >>> row = {"tier": "mini", "data": "fashion_mnist", "noise": "sym-60", "method": "ce", "seed": 1, "last": 0.5}
        >>> made = make_tables([row, row | {"seed": 2, "last": 0.75}], "table1", printed={})[0]
        >>> made.columns[0].group, made.columns[0].title, made.lines[0].cells[0].mean
        ('symmetric', '60 %', 0.625)
    """
    kind = KINDS_OF_TABLES[table]
    wanted = [row for row in rows if point(row) is None and _belongs(row, table)]
    return [_make(kind, tier, of_tier, printed) for tier, of_tier in by_tier(wanted).items()]


def by_tier(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by tier, the smallest tier first.

    Examples:
        >>> list(by_tier([{"tier": "paper"}, {"tier": "mini"}]))
        ['mini', 'paper']
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["tier"], []).append(row)
    places = {tier: place for place, tier in enumerate(TIERS)}
    return {tier: found[tier] for tier in sorted(found, key=lambda tier: (places.get(tier, len(TIERS)), tier))}


def unique_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows with each seed once; the same cell of two recipes is refused, because their mean means nothing."""
    found: dict[tuple[str, ...], Row] = {}
    for row in sorted(rows, key=lambda row: str(row.get("folder") or "")):
        cell = (row["tier"], row["data"], row["noise"], *method_key(row), str(row["seed"]))
        first = found.setdefault(cell, row)
        if first.get("recipe_hash") != row.get("recipe_hash"):
            raise ValueError(
                f"{' '.join(filter(None, cell[:-1]))}, seed {cell[-1]}, is there with two recipes, "
                f"{first.get('recipe_hash')} ({first.get('folder')}) and {row.get('recipe_hash')} "
                f"({row.get('folder')}): leave one of them out."
            )
    return list(found.values())


def collect(rows: Iterable[Row], quantities: Sequence[Quantity]) -> Scores:
    """Return the numbers of rows of one tier; what was not measured is left out."""
    rows = unique_rows(rows)
    by_cell: dict[tuple[Key, Setting, str], dict[int, float]] = {}
    seconds = _base_seconds(rows)
    for row in rows:
        setting = (row["data"], row["noise"])
        for quantity in quantities:
            number = _number(row, quantity.name, seconds.get(setting))
            if number is not None:
                by_cell.setdefault((method_key(row), setting, quantity.name), {})[row["seed"]] = number
    keys = sorted({method_key(row) for row in rows}, key=method_order)
    settings = sorted({(row["data"], row["noise"]) for row in rows}, key=setting_order)
    return Scores(by_cell, keys, settings)


def setting_order(setting: Setting) -> tuple[tuple[int, str], tuple[int, str, float]]:
    """Return a key that sorts settings by data, kind of noise and rate."""
    return data_order(setting[0]), noise_order(setting[1])


def _make(kind: Kind, tier: str, rows: Sequence[Row], printed: PaperNumbers) -> Table:
    scores = collect(rows, kind.quantities)
    settings = list(scores.settings)
    if kind.name == "table2" and ("clothing1m", REAL) not in settings and any(key[0] == "table2" for key in printed):
        settings = sorted([*settings, ("clothing1m", REAL)], key=setting_order)  # for the paper's numbers alone
    columns = [_column(kind, setting, quantity, settings) for setting in settings for quantity in kind.quantities]
    most = max((len(numbers) for numbers in scores.by_cell.values()), default=0)
    cells = [_column_of_cells(kind, column, scores, most, printed) for column in columns]
    lines = tuple(
        Line(*key, line_title(key), tuple(column[place] for column in cells)) for place, key in enumerate(scores.keys)
    )
    has_base = any(key[0] == BASE for key in scores.keys)
    made = Table(kind.name, tier, kind.title, "", tuple(columns), lines)
    said = notes(made, kind, has_base=has_base)
    return Table(kind.name, tier, kind.title, caption(made, kind), tuple(columns), lines, said)


def _column(kind: Kind, setting: Setting, quantity: Quantity, settings: Sequence[Setting]) -> Column:
    data, noise = setting
    named, rate = noise_titles(noise)
    alone = len({data for data, _ in settings}) == 1
    if len(kind.quantities) > 1:
        group = f"{named} {rate}".rstrip() if alone else f"{data_title(data)}, {named} {rate}".rstrip()
        return Column(group, quantity.title, quantity, data, noise)
    if not rate:
        return Column(named, data_title(data), quantity, data, noise)
    return Column(named if alone else f"{data_title(data)}, {named}", rate, quantity, data, noise)


def _column_of_cells(kind: Kind, column: Column, scores: Scores, most: int, printed: PaperNumbers) -> list[Cell]:
    setting, quantity = (column.data, column.noise), column.quantity
    numbers = {key: scores.by_cell.get((key, setting, quantity.name), {}) for key in scores.keys}
    best = best_set({key: of_key for key, of_key in numbers.items() if not is_trusted(key)}, quantity.better)
    cells = []
    for key, of_seeds in numbers.items():
        beside = _printed(kind, key, column, printed)
        if not of_seeds:
            cells.append(Cell(printed=beside))
            continue
        found = spread(of_seeds)
        few = f"n={found.n}" if found.n < most else ""
        cells.append(Cell(found.mean, found.sd, found.n, beside, key in best, few))
    return cells


def _printed(kind: Kind, key: Key, column: Column, printed: PaperNumbers) -> Printed | None:
    if not kind.printed or key[1]:
        return None
    for data in (column.data, STAND_IN.get(column.data, "")):
        found = printed.get((kind.name, key[0], data, column.noise))
        if found is not None:
            return found
    return None


def _belongs(row: Row, table: str) -> bool:
    """Return whether a row is one of a table: real noise is Table 2's, noise that was added is Table 1's."""
    real = split_noise(row["noise"])[0] == REAL
    return {"table1": not real, "table2": real}.get(table, True)


def _base_seconds(rows: Iterable[Row]) -> dict[Setting, float]:
    """Return the mean time of cross-entropy in each setting."""
    found: dict[Setting, dict[int, float]] = {}
    for row in rows:
        if method_key(row) == (BASE, "") and row.get("seconds"):
            found.setdefault((row["data"], row["noise"]), {})[row["seed"]] = row["seconds"]
    return {setting: spread(seconds).mean for setting, seconds in found.items()}


def _number(row: Row, name: str, base_seconds: float | None) -> float | None:
    if name == "last_minus_best":
        return None if row.get("memorisation") is None else -row["memorisation"]
    if name == "relative_time":
        return None if base_seconds is None or row.get("seconds") is None else row["seconds"] / base_seconds
    value: float | None = row.get(name)
    return value
