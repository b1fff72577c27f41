"""From the folders of finished cells to rows of numbers, and to a CSV file and back."""

import csv
import io
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from permll.bench.jobs import Cell, read_folder_name
from permll.bench.settings import read_column
from permll.report.tables.titles import TIERS
from permll.training.run import Run
from permll.utils.files import atomic_write_text

Row = dict[str, str | float | int | None]

_WORDS = ("tier", "data", "noise", "method", "variant", "recipe_hash", "folder", "command", "machine")
_WHOLE = ("seed", "epochs")
# What a row calls it, and what the last line of metrics.jsonl does.
_FINAL = {
    "right_before": "correction_accuracy_before",
    "right_after": "correction_accuracy_after",
    "correction_precision": "correction_precision",
    "correction_recall": "correction_recall",
    "auroc": "detection_auroc",
    "average_precision": "detection_average_precision",
    "f1": "detection_f1",
    "ece": "test_ece",
    "nll": "test_nll",
    "brier": "test_brier",
}
COLUMNS = (
    *("tier", "data", "noise", "method", "variant", "seed", "recipe_hash", "folder", "command", "epochs", "seconds"),
    "machine",
    *("last", "best_by_noisy_validation", "best_test", *_FINAL, "memorisation"),
)
DIGITS = 6  # after the point
WATCHED = "seconds.json"  # what a benchmark writes into the folder of a cell


def collect(folder: Path | str) -> list[Row]:
    """Return a row for every finished cell below a benchmark's folder, by tier and name.

    Shares lie in [0, 1]; what was not measured is None.

    Examples:
        >>> collect("runs/nowhere")
        []
    """
    folders = [path for tier in TIERS for path in sorted((Path(folder) / tier).glob("*/"))]
    found = ((path, Run(path)) for path in folders)
    rows = [_row_of_run(path, run) for path, run in found if run.exists and run.finished]
    return [row for row in rows if row is not None]


def collect_cells(cells: Iterable[Cell]) -> list[Row]:
    """Return the rows of those cells that are finished, in their order."""
    return [_row_of_cell(cell) for cell in cells if cell.standing == "finished"]


def write_rows(path: Path | str, rows: Sequence[Row]) -> Path:
    """Write rows as CSV, whole or not at all; what was not measured is an empty cell."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write_text(path, text.getvalue())
    return path


def read_rows(path: Path | str) -> list[Row]:
    """Return the rows of a CSV file that ``write_rows`` wrote."""
    with Path(path).open(newline="") as file:
        return [{name: _value(name, text) for name, text in line.items()} for line in csv.DictReader(file)]


class Watched(NamedTuple):
    """For how many seconds a cell has been trained so far, and on what; None and "" where nobody watched."""

    seconds: float | None
    machine: str


def watched(folder: Path) -> Watched:
    """Return what a benchmark wrote into the folder of a cell."""
    path = folder / WATCHED
    if not path.is_file():
        return Watched(None, "")
    return Watched(**json.loads(path.read_text()))


def _row_of_cell(cell: Cell) -> Row:
    place: Row = {"tier": cell.tier, "data": cell.data, "noise": cell.noise, "method": cell.method}
    place |= {"variant": cell.variant, "seed": cell.seed, "folder": str(cell.folder), "command": cell.command}
    return _row(place, Run(cell.folder), cell.recipe.training.epochs)


def _row_of_run(folder: Path, run: Run) -> Row | None:
    """Return the row of a folder of which nothing is known but what it holds; None if it is not named like a cell."""
    recipe = run.recipe
    named = read_folder_name(folder.name, recipe.method.name, recipe.training.seed)
    if named is None:
        return None
    data, noise = read_column(named.column, recipe)
    place: Row = {"tier": folder.parent.name, "data": data, "noise": noise, "method": named.method}
    command = shlex.join(["permll", "train", str(folder / "recipe.toml"), "--out", f"{folder}-again"])
    place |= {"variant": named.variant, "seed": named.seed, "folder": str(folder), "command": command}
    return _row(place, run, recipe.training.epochs)


def _row(place: Row, run: Run, epochs: int) -> Row:
    result: dict[str, Any] = run.result
    numbers = {name: result.get(name) for name in ("last", "best_by_noisy_validation", "best_test", "memorisation")}
    numbers |= {name: result["final"].get(key) for name, key in _FINAL.items()}
    numbers["seconds"], machine = watched(run.folder)
    rounded = {name: None if value is None else round(float(value), DIGITS) for name, value in numbers.items()}
    whole: Row = {**place, "recipe_hash": result["recipe_hash"], "epochs": epochs, "machine": machine, **rounded}
    return {name: whole[name] for name in COLUMNS}


def _value(name: str, text: str) -> str | float | int | None:
    if name in _WORDS:
        return text
    if text == "":
        return None
    return int(text) if name in _WHOLE else float(text)
