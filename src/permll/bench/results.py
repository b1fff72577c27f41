"""Results of finished jobs as rows of numbers, and the CSV file of them."""

import csv
import io
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from permll.bench.jobs import Job, parse_job_name
from permll.bench.settings import parse_setting_name
from permll.report.tables.titles import TIERS
from permll.training.run import Run
from permll.utils.files import atomic_write_text

Row = dict[str, str | float | int | None]

# Column -> key in the last line of metrics.jsonl.
_FINAL_METRICS = {
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
_RESULTS = ("last", "best_by_noisy_validation", "best_test", *_FINAL_METRICS, "memorization")
_TYPES: dict[str, type[str | int | float]] = {
    **dict.fromkeys(("tier", "data", "noise", "method", "variant"), str),
    "seed": int,
    **dict.fromkeys(("recipe_hash", "folder", "command"), str),
    "epochs": int,
    "seconds": float,
    "machine": str,
    **dict.fromkeys(_RESULTS, float),
}
COLUMNS = tuple(_TYPES)
DIGITS = 6  # after the decimal point
TIMING_FILE = "seconds.json"  # in the run folder of a job


def collect(folder: Path | str) -> list[Row]:
    """Return a row for each finished job below a benchmark's output folder, sorted by tier and folder name.

    Fractions are in [0, 1]; missing measurements are None.

    Examples:
        >>> collect("runs/nowhere")
        []
    """
    folders = [path for tier in TIERS for path in sorted((Path(folder) / tier).glob("*/"))]
    runs = ((path, Run(path)) for path in folders)
    rows = [_row_of_run(path, run) for path, run in runs if run.exists and run.finished]
    return [row for row in rows if row is not None]


def collect_jobs(jobs: Iterable[Job]) -> list[Row]:
    """Return a row for each finished job, in order."""
    return [
        _row(dict(job.columns), Run(job.folder), job.recipe.training.epochs) for job in jobs if job.status == "finished"
    ]


def write_rows(path: Path | str, rows: Sequence[Row]) -> Path:
    """Write rows to a CSV file atomically; missing measurements are empty."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write_text(path, text.getvalue())
    return path


def read_rows(path: Path | str) -> list[Row]:
    """Return the rows of a CSV file written by ``write_rows``."""
    with Path(path).open(newline="") as file:
        return [{name: _parse(name, text) for name, text in line.items()} for line in csv.DictReader(file)]


class Timing(NamedTuple):
    """Training time of a run and the machine it ran on; None and "" if they were not measured."""

    seconds: float | None
    machine: str


def read_timing(folder: Path) -> Timing:
    """Return the training time in a run folder."""
    path = folder / TIMING_FILE
    if not path.is_file():
        return Timing(None, "")
    return Timing(**json.loads(path.read_text()))


def _row_of_run(folder: Path, run: Run) -> Row | None:
    """Return the row of a run folder outside any plan; None if its name is not that of a job."""
    recipe = run.recipe
    method, seed = recipe.method.name, recipe.training.seed
    name = parse_job_name(folder.name, method, seed)
    if name is None:
        return None
    setting, variant = name
    data, noise = parse_setting_name(setting, recipe)
    command = shlex.join(["permll", "train", str(folder / "recipe.toml"), "--out", f"{folder}-again"])
    fields: Row = {"tier": folder.parent.name, "data": data, "noise": noise, "method": method, "variant": variant}
    fields |= {"seed": seed, "folder": str(folder), "command": command}
    return _row(fields, run, recipe.training.epochs)


def _row(fields: Row, run: Run, epochs: int) -> Row:
    result: dict[str, Any] = run.result
    numbers = {name: result.get(name) for name in ("last", "best_by_noisy_validation", "best_test", "memorization")}
    numbers |= {name: result["final"].get(key) for name, key in _FINAL_METRICS.items()}
    numbers["seconds"], machine = read_timing(run.folder)
    rounded = {name: None if value is None else round(float(value), DIGITS) for name, value in numbers.items()}
    row: Row = {**fields, "recipe_hash": result["recipe_hash"], "epochs": epochs, "machine": machine, **rounded}
    return {name: row[name] for name in COLUMNS}


def _parse(name: str, text: str) -> str | float | int | None:
    parse = _TYPES.get(name, float)
    return None if text == "" and parse is not str else parse(text)
