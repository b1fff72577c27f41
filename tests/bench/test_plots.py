"""Figure 3 from run folders."""

from pathlib import Path

import pytest

from permll.bench import Plan, plan
from permll.bench.plots import draw_figure3, read_figure3_runs
from permll.training import Run
from permll.training.train import train


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return a plan with two by two trained jobs."""
    out = tmp_path_factory.mktemp("bench")
    overrides = {"training.epochs": 2, "network.widths": [16]}
    grid = plan("figure3", tier="tiny", out=out, overrides=overrides)
    for job in grid.jobs:
        if job.variant in ("m0.35-eta24", "m0.35-eta384", "m0.75-eta24", "m0.75-eta384"):
            train(recipe=job.recipe, out=job.folder)
    return grid


def test_figure3_runs_contain_the_metrics(grid: Plan) -> None:
    runs = read_figure3_runs(grid.jobs)
    assert [(run.eta, run.m) for run in runs] == [(24.0, 0.35), (384.0, 0.35), (24.0, 0.75), (384.0, 0.75)]
    (folder,) = (job.folder for job in grid.jobs if job.variant == "m0.35-eta384")
    metrics = Run(folder).metrics
    assert runs[1].label_accuracy == {row["epoch"]: row["correction_accuracy_after"] for row in metrics}
    assert runs[1].corrected == {row["epoch"]: row["corrected"] for row in metrics}
    assert runs[1].given_accuracy == metrics[0]["correction_right_before"] / metrics[0]["correction_samples"]
    assert runs[1].corrected[2] > runs[2].corrected[2]  # a larger step from a smaller weight


def test_figure3_draws_finished_runs(grid: Plan, tmp_path: Path) -> None:
    names = [path.name for path in draw_figure3(read_figure3_runs(grid.jobs), tmp_path)]
    assert names == ["figure3.png", "figure3.svg", "figure3-map.png", "figure3-map.svg"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
    single = [job for job in grid.jobs if job.variant == "m0.35-eta384"]
    assert draw_figure3(read_figure3_runs(single), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
