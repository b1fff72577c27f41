"""Build tables from the rows of a benchmark: a line per method, columns per setting, mean and spread over seeds."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from permll.report.paper_numbers import PAPER_RESULTS, PaperResult
from permll.report.tables.model import Cell, Column, Line, Quantity, Table
from permll.report.tables.significance import RULE, Scores, best_methods
from permll.report.tables.specs import ORACLE_MARK, TABLE_SPECS, TableSpec
from permll.report.tables.titles import (
    REAL,
    TRUSTED_MARK,
    Key,
    Row,
    data_title,
    figure3_point,
    method_key,
    method_order,
    method_title,
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
TRUSTED_NOTE = (
    f"{TRUSTED_MARK} uses some rows with trusted labels, which other methods do not have: never bold, and not ranked."
)
ORACLE_NOTE = f"{ORACLE_MARK} oracle: the best epoch is selected by the test labels."


def build_tables(rows: Iterable[Row], table: str, paper: PaperResults = PAPER_RESULTS) -> list[Table]:
    """Return a table for each tier that has rows for it: Table 1 is synthetic noise, Table 2 real noise.

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
    rows = [row for row in rows if figure3_point(row) is None]
    if table in ("table1", "table2"):
        rows = [row for row in rows if (split_noise(row["noise"])[0] == REAL) == (table == "table2")]
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


def _build(spec: TableSpec, tier: str, rows: Iterable[Row], paper: PaperResults) -> Table:
    rows = _add_derived(unique_rows(rows))
    scores: dict[tuple[Key, Setting, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        for quantity in spec.quantities:
            if row.get(quantity.name) is not None:
                scores[method_key(row), _setting(row), quantity.name][row["seed"]] = row[quantity.name]
    keys = sorted(set(map(method_key, rows)), key=method_order)
    settings = sorted(set(map(_setting, rows)), key=setting_order)
    if spec.name == "table2" and ("clothing1m", REAL) not in settings and any(key[0] == "table2" for key in paper):
        settings = sorted([*settings, ("clothing1m", REAL)], key=setting_order)  # only for the paper's numbers
    columns = tuple(_column(spec, setting, quantity, settings) for setting in settings for quantity in spec.quantities)
    max_seeds = max(map(len, scores.values()), default=0)
    cells = []
    for column in columns:
        by_method = {key: scores.get((key, (column.data, column.noise), column.quantity.name), {}) for key in keys}
        cells.append(_cells(spec, column, by_method, max_seeds, paper))
    lines = tuple(Line(*key, _line_title(key), line) for key, line in zip(keys, zip(*cells, strict=True), strict=True))
    table = Table(spec.name, tier, spec.title, "", columns, lines)
    return replace(table, caption=_caption(table, spec), notes=_notes(table))


def _setting(row: Row) -> Setting:
    return row["data"], row["noise"]


def _line_title(key: Key) -> str:
    return f"{method_title(key)} {TRUSTED_MARK}" if uses_trusted_rows(key) else method_title(key)


def _add_derived(rows: Iterable[Row]) -> list[Row]:
    """Add the accuracy of the last minus the best epoch, and the time relative to the mean time of cross-entropy."""
    baseline = defaultdict(list)
    for row in rows:
        if method_key(row) == (BASELINE, "") and row.get("seconds"):
            baseline[_setting(row)].append(row["seconds"])
    derived: list[Row] = []
    for row in rows:
        lost, seconds, relative = row.get("memorization"), row.get("seconds"), None
        if seconds is not None and _setting(row) in baseline:
            relative = seconds / statistics.fmean(baseline[_setting(row)])
        derived.append({**row, "last_minus_best": None if lost is None else -lost, "relative_time": relative})
    return derived


def _column(spec: TableSpec, setting: Setting, quantity: Quantity, settings: Sequence[Setting]) -> Column:
    data, noise = setting
    kind, rate = noise_titles(noise)
    prefix = "" if len({data for data, _ in settings}) == 1 else f"{data_title(data)}, "
    if len(spec.quantities) > 1:
        return Column(f"{prefix}{kind} {rate}".rstrip(), quantity.title, quantity, data, noise)
    if not rate:
        return Column(kind, data_title(data), quantity, data, noise)
    return Column(f"{prefix}{kind}", rate, quantity, data, noise)


def _cells(
    spec: TableSpec, column: Column, by_method: Mapping[Key, Scores], max_seeds: int, paper: PaperResults
) -> list[Cell]:
    """Return the cells of a column."""
    ranked = {key: seeds for key, seeds in by_method.items() if not uses_trusted_rows(key)}
    best = best_methods(ranked, column.quantity.better)
    cells = []
    for (method, variant), seeds in by_method.items():
        printed = None
        if spec.in_paper and not variant:
            stand_in = paper.get((spec.name, method, STAND_IN.get(column.data, ""), column.noise))
            printed = paper.get((spec.name, method, column.data, column.noise), stand_in)
        cell = Cell(column.quantity, paper=printed)
        if seeds:
            mean, n = statistics.fmean(seeds.values()), len(seeds)
            sd = statistics.stdev(seeds.values()) if n > 1 else None
            note = f"n={n}" if n < max_seeds else ""
            cell = replace(cell, mean=mean, sd=sd, n=n, bold=(method, variant) in best, note=note)
        cells.append(cell)
    return cells


def _caption(table: Table, spec: TableSpec) -> str:
    """Return a sentence on the quantity, the number of seeds, the tier and the paper's numbers."""
    counts = {cell.n for cell in table.cells if cell.n} or {0}
    seeds = f"{min(counts)} to {max(counts)} seeds" if len(counts) > 1 else f"{max(counts)} seeds"
    seeds = "one seed" if counts == {1} else seeds
    columns = list(zip(table.columns, zip(*(line.cells for line in table.lines), strict=True), strict=True))
    data = dict.fromkeys(data_title(column.data) for column, cells in columns if any(cell.n for cell in cells))
    caption = f"{spec.description}: mean ± standard deviation over {seeds}. Tier {table.tier}"
    caption += f": {', '.join(data)}." if data else "."
    printed = {column.data for column, cells in columns if any(cell.paper for cell in cells)}
    if not printed:
        return caption
    caption += " In parentheses: the paper's numbers"
    if printed & STAND_IN.keys():
        return (
            f"{caption} for CIFAR-10 with the same noise; data and network differ, so compare the order of the "
            "methods, not the values."
        )
    if table.tier != "paper":
        return f"{caption}, with a larger network and longer training than tier {table.tier}."
    return f"{caption}."


def _notes(table: Table) -> tuple[str, ...]:
    fewer_seeds = any(cell.note.startswith("n=") for cell in table.cells)
    has_baseline = any(line.method == BASELINE for line in table.lines)
    notes = {
        RULE: any(cell.bold for cell in table.cells),
        "n= marks a mean over fewer seeds than others in this table.": fewer_seeds,
        "-: not run, or not measured by the method.": any(cell.mean is None for cell in table.cells),
        ORACLE_NOTE: any(ORACLE_MARK in column.title + column.quantity.title for column in table.columns),
        TRUSTED_NOTE: any(uses_trusted_rows((line.method, line.variant)) for line in table.lines),
        "No run of ce to compare with.": table.name == "time" and not has_baseline,
    }
    return tuple(note for note, applies in notes.items() if applies)
