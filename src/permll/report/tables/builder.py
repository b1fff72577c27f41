"""Build tables from the rows of a benchmark: a line per method, columns per setting, mean and spread over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from permll.report.paper_numbers import PAPER_RESULTS, PaperResult
from permll.report.tables.model import Cell, Column, Line, Quantity, Table
from permll.report.tables.notes import make_caption, make_notes
from permll.report.tables.significance import best_methods, mean_and_std
from permll.report.tables.specs import TABLE_SPECS, TableSpec
from permll.report.tables.titles import (
    REAL,
    Key,
    Row,
    data_title,
    figure3_point,
    line_title,
    method_key,
    method_order,
    noise_titles,
    setting_order,
    split_noise,
    tier_order,
    uses_trusted_rows,
)

Setting = tuple[str, str]  # data and noise
STAND_IN = {"digits": "cifar10", "fashion_mnist": "cifar10"}  # data set of the paper's numbers shown beside ours
BASELINE = "ce"
PaperResults = Mapping[tuple[str, str, str, str], PaperResult]  # by table, method, data and noise


class Scores(NamedTuple):
    """Numbers of one tier by method, setting and quantity, then by seed."""

    by_cell: dict[tuple[Key, Setting, str], dict[int, float]]
    keys: list[Key]
    settings: list[Setting]


def build_tables(rows: Iterable[Row], table: str, paper: PaperResults = PAPER_RESULTS) -> list[Table]:
    """Return a table for each tier that has rows for it.

    Args:
        rows: finished jobs.
        table: one of ``TABLE_SPECS``.
        paper: the paper's numbers.

    Examples:
        >>> row = {"tier": "mini", "data": "fashion_mnist", "noise": "sym-60", "method": "ce", "seed": 1, "last": 0.5}
        >>> result = build_tables([row, row | {"seed": 2, "last": 0.75}], "table1", paper={})[0]
        >>> result.columns[0].group, result.columns[0].title, result.lines[0].cells[0].mean
        ('symmetric', '60 %', 0.625)
    """
    rows = [row for row in rows if figure3_point(row) is None and _belongs_to(row, table)]
    return [_build(TABLE_SPECS[table], tier, tier_rows, paper) for tier, tier_rows in rows_by_tier(rows).items()]


def rows_by_tier(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by tier, the smallest tier first.

    Examples:
        >>> list(rows_by_tier([{"tier": "paper"}, {"tier": "mini"}]))
        ['mini', 'paper']
    """
    tiers: dict[str, list[Row]] = {}
    for row in rows:
        tiers.setdefault(row["tier"], []).append(row)
    return {tier: tiers[tier] for tier in sorted(tiers, key=tier_order)}


def unique_rows(rows: Iterable[Row]) -> list[Row]:
    """Return one row per job and seed; rows of two recipes for the same seed raise, since they cannot be averaged."""
    unique: dict[tuple[str, ...], Row] = {}
    for row in sorted(rows, key=lambda row: str(row.get("folder") or "")):
        job = (row["tier"], row["data"], row["noise"], *method_key(row), str(row["seed"]))
        first = unique.setdefault(job, row)
        if first.get("recipe_hash") != row.get("recipe_hash"):
            raise ValueError(
                f"{' '.join(filter(None, job[:-1]))}, seed {job[-1]}, has runs of two recipes, "
                f"{first.get('recipe_hash')} ({first.get('folder')}) and {row.get('recipe_hash')} "
                f"({row.get('folder')}): remove one of them."
            )
    return list(unique.values())


def collect_scores(rows: Iterable[Row], quantities: Sequence[Quantity]) -> Scores:
    """Return the numbers of rows of one tier, without quantities that were not measured."""
    rows = unique_rows(rows)
    by_cell: dict[tuple[Key, Setting, str], dict[int, float]] = {}
    seconds = _baseline_seconds(rows)
    for row in rows:
        setting = (row["data"], row["noise"])
        for quantity in quantities:
            value = _value(row, quantity.name, seconds.get(setting))
            if value is not None:
                by_cell.setdefault((method_key(row), setting, quantity.name), {})[row["seed"]] = value
    keys = sorted({method_key(row) for row in rows}, key=method_order)
    settings = sorted({(row["data"], row["noise"]) for row in rows}, key=setting_order)
    return Scores(by_cell, keys, settings)


def _build(spec: TableSpec, tier: str, rows: Sequence[Row], paper: PaperResults) -> Table:
    scores = collect_scores(rows, spec.quantities)
    settings = list(scores.settings)
    if spec.name == "table2" and ("clothing1m", REAL) not in settings and any(key[0] == "table2" for key in paper):
        settings = sorted([*settings, ("clothing1m", REAL)], key=setting_order)  # only for the paper's numbers
    columns = tuple(_column(spec, setting, quantity, settings) for setting in settings for quantity in spec.quantities)
    max_seeds = max((len(values) for values in scores.by_cell.values()), default=0)
    cells = zip(*(_cells(spec, column, scores, max_seeds, paper) for column in columns), strict=True)
    lines = tuple(Line(*key, line_title(key), line) for key, line in zip(scores.keys, cells, strict=True))
    table = Table(spec.name, tier, spec.title, "", columns, lines)
    has_baseline = any(key[0] == BASELINE for key in scores.keys)
    notes = make_notes(table, has_baseline=has_baseline)
    return Table(spec.name, tier, spec.title, make_caption(table, spec), columns, lines, notes)


def _column(spec: TableSpec, setting: Setting, quantity: Quantity, settings: Sequence[Setting]) -> Column:
    data, noise = setting
    kind, rate = noise_titles(noise)
    prefix = "" if len({data for data, _ in settings}) == 1 else f"{data_title(data)}, "
    if len(spec.quantities) > 1:
        return Column(f"{prefix}{kind} {rate}".rstrip(), quantity.title, quantity, data, noise)
    if not rate:
        return Column(kind, data_title(data), quantity, data, noise)
    return Column(f"{prefix}{kind}", rate, quantity, data, noise)


def _cells(spec: TableSpec, column: Column, scores: Scores, max_seeds: int, paper: PaperResults) -> list[Cell]:
    """Return the cells of a column."""
    setting, quantity = (column.data, column.noise), column.quantity
    by_method = {key: scores.by_cell.get((key, setting, quantity.name), {}) for key in scores.keys}
    ranked = {key: seeds for key, seeds in by_method.items() if not uses_trusted_rows(key)}
    best = best_methods(ranked, quantity.better)
    cells = []
    for key, seeds in by_method.items():
        result = _paper_result(spec, key, column, paper)
        if not seeds:
            cells.append(Cell(paper=result))
            continue
        mean, sd, n = mean_and_std(seeds)
        cells.append(Cell(mean, sd, n, result, key in best, f"n={n}" if n < max_seeds else ""))
    return cells


def _paper_result(spec: TableSpec, key: Key, column: Column, paper: PaperResults) -> PaperResult | None:
    if not spec.in_paper or key[1]:
        return None
    results = (
        paper.get((spec.name, key[0], data, column.noise)) for data in (column.data, STAND_IN.get(column.data, ""))
    )
    return next((result for result in results if result is not None), None)


def _belongs_to(row: Row, table: str) -> bool:
    """Return whether a row belongs to a table: Table 1 is synthetic noise, Table 2 real noise."""
    is_real = split_noise(row["noise"])[0] == REAL
    return {"table1": not is_real, "table2": is_real}.get(table, True)


def _baseline_seconds(rows: Iterable[Row]) -> dict[Setting, float]:
    """Return the mean time of cross-entropy in each setting."""
    seconds: dict[Setting, dict[int, float]] = {}
    for row in rows:
        if method_key(row) == (BASELINE, "") and row.get("seconds"):
            seconds.setdefault((row["data"], row["noise"]), {})[row["seed"]] = row["seconds"]
    return {setting: mean_and_std(seeds).mean for setting, seeds in seconds.items()}


def _value(row: Row, name: str, baseline_seconds: float | None) -> float | None:
    if name == "last_minus_best":
        return None if row.get("memorization") is None else -row["memorization"]
    if name == "relative_time":
        return None if baseline_seconds is None or row.get("seconds") is None else row["seconds"] / baseline_seconds
    value: float | None = row.get(name)
    return value
