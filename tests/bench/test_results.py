"""From folders to rows: nothing is invented, and a CSV file gives back what went into it."""

import json
import shutil
from pathlib import Path

import pytest

from permll.bench import Plan, collect, plan, read_rows, write_rows
from permll.bench.results import COLUMNS, collect_cells
from permll.training import Run
from permll.training.train import train


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return a plan of two cells and a third, of which only the first two are finished."""
    out = tmp_path_factory.mktemp("bench")
    settings = {"training.epochs": 2, "network.widths": [16]}
    found = plan(tier="tiny", methods=["ce", "permll"], seeds=[1, 2], out=out, settings=settings)
    for cell in found.cells[:3:2]:
        train(recipe=cell.recipe, out=cell.folder)
    return found


def test_a_row_is_what_the_run_says(grid: Plan) -> None:
    rows = collect_cells(grid.cells)
    assert [(row["method"], row["seed"]) for row in rows] == [("ce", 1), ("permll", 1)]
    for row, cell in zip(rows, grid.cells[:3:2], strict=True):
        assert tuple(row) == COLUMNS
        result = Run(cell.folder).result
        assert (row["tier"], row["data"], row["noise"], row["variant"]) == ("tiny", "digits", "sym-40", "")
        assert (row["recipe_hash"], row["epochs"]) == (cell.recipe.hash, 2)
        assert (row["folder"], row["command"]) == (str(cell.folder), cell.command)
        for name in ("last", "best_by_noisy_validation", "best_test", "memorisation"):
            assert row[name] == pytest.approx(result[name], abs=1e-6)
        assert row["memorisation"] == pytest.approx(float(str(row["best_test"])) - float(str(row["last"])), abs=2e-6)
        final = result["final"]
        assert row["right_after"] == pytest.approx(
            final["correction_right_after"] / final["correction_samples"], abs=1e-6
        )
        assert row["f1"] == pytest.approx(final["detection_f1"], abs=1e-6)
        assert row["seconds"] is None  # nobody measured: a run that fit made elsewhere


def test_the_folder_alone_tells_the_same_but_how_it_was_asked_for(grid: Plan) -> None:
    keys = [name for name in COLUMNS if name != "command"]
    assert [[row[key] for key in keys] for row in collect(grid.out)] == [
        [row[key] for key in keys] for row in collect_cells(grid.cells)
    ]


def test_a_csv_file_gives_back_its_rows(grid: Plan, tmp_path: Path) -> None:
    rows = collect_cells(grid.cells)
    rows[0]["variant"], rows[0]["auroc"] = "label", None
    path = write_rows(tmp_path / "new" / "rows.csv", rows)
    assert read_rows(path) == rows
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_a_run_of_another_recipe_fills_no_cell(grid: Plan, tmp_path: Path) -> None:
    cell = grid.cells[0]
    shutil.copytree(grid.out / "tiny", tmp_path / "tiny")
    settings = {"training.epochs": 3, "network.widths": [16]}
    other = plan(tier="tiny", methods=["ce"], seeds=[1], out=tmp_path, settings=settings)
    assert [one.standing for one in other.cells] == ["other"]
    assert collect_cells(other.cells) == []
    assert "training.epochs 2 and 3" in other.cells[0].obstacle
    assert json.loads((cell.folder / "result.json").read_text())["recipe_hash"] == cell.recipe.hash


def test_what_is_no_cell_is_no_row(grid: Plan, tmp_path: Path) -> None:
    shutil.copytree(grid.cells[0].folder, tmp_path / "tiny" / "something else")
    (tmp_path / "tiny" / "empty").mkdir()
    assert collect(tmp_path) == []
