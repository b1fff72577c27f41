"""Rows of finished jobs, and their CSV file."""

import json
import shutil
from pathlib import Path

import pytest

from permll.bench import Plan, collect, plan, read_rows, write_rows
from permll.bench.results import COLUMNS, collect_jobs
from permll.training import Run
from permll.training.train import train


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return a plan of four jobs with two finished ones."""
    out = tmp_path_factory.mktemp("bench")
    overrides = {"training.epochs": 2, "network.widths": [16]}
    grid = plan(tier="tiny", methods=["ce", "permll"], seeds=[1, 2], out=out, overrides=overrides)
    for job in grid.jobs[:3:2]:
        train(recipe=job.recipe, out=job.folder)
    return grid


def test_row_contains_the_result_of_the_run(grid: Plan) -> None:
    rows = collect_jobs(grid.jobs)
    assert [(row["method"], row["seed"]) for row in rows] == [("ce", 1), ("permll", 1)]
    for row, job in zip(rows, grid.jobs[:3:2], strict=True):
        assert tuple(row) == COLUMNS
        result = Run(job.folder).result
        assert (row["tier"], row["data"], row["noise"], row["variant"]) == ("tiny", "digits", "sym-40", "")
        assert (row["recipe_hash"], row["epochs"]) == (job.recipe.hash, 2)
        assert (row["folder"], row["command"]) == (str(job.folder), job.command)
        for name in ("last", "best_by_noisy_validation", "best_test", "memorization"):
            assert row[name] == pytest.approx(result[name], abs=1e-6)
        assert row["memorization"] == pytest.approx(float(str(row["best_test"])) - float(str(row["last"])), abs=2e-6)
        final = result["final"]
        assert row["right_after"] == pytest.approx(
            final["correction_right_after"] / final["correction_samples"], abs=1e-6
        )
        assert row["f1"] == pytest.approx(final["detection_f1"], abs=1e-6)
        assert row["seconds"] is None  # measured by the benchmark only


def test_collect_of_folder_equals_rows_of_jobs(grid: Plan) -> None:
    keys = [name for name in COLUMNS if name != "command"]
    assert [[row[key] for key in keys] for row in collect(grid.out)] == [
        [row[key] for key in keys] for row in collect_jobs(grid.jobs)
    ]


def test_rows_round_trip_through_csv(grid: Plan, tmp_path: Path) -> None:
    rows = collect_jobs(grid.jobs)
    rows[0]["variant"], rows[0]["auroc"] = "label", None
    path = write_rows(tmp_path / "new" / "rows.csv", rows)
    assert read_rows(path) == rows
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_run_of_another_recipe_is_not_collected(grid: Plan, tmp_path: Path) -> None:
    job = grid.jobs[0]
    shutil.copytree(grid.out / "tiny", tmp_path / "tiny")
    overrides = {"training.epochs": 3, "network.widths": [16]}
    other = plan(tier="tiny", methods=["ce"], seeds=[1], out=tmp_path, overrides=overrides)
    assert [job.status for job in other.jobs] == ["conflict"]
    assert collect_jobs(other.jobs) == []
    assert "training.epochs 2 and 3" in other.jobs[0].conflict
    assert json.loads((job.folder / "result.json").read_text())["recipe_hash"] == job.recipe.hash


def test_collect_ignores_other_folders(grid: Plan, tmp_path: Path) -> None:
    shutil.copytree(grid.jobs[0].folder, tmp_path / "tiny" / "something else")
    (tmp_path / "tiny" / "empty").mkdir()
    assert collect(tmp_path) == []
