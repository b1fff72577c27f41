"""Figure 3 from the folders of its cells."""

from pathlib import Path

import pytest
from permll.bench.figure3 import draw_traces, traces

from permll.bench import Plan, plan
from permll.training import Run
from permll.training.train import train


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan with two by two cells trained."""
    out = tmp_path_factory.mktemp("bench")
    settings = {"training.epochs": 2, "network.widths": [16]}
    found = plan("figure3", tier="tiny", out=out, settings=settings)
    for cell in found.cells:
        if cell.variant in ("m0.35-eta24", "m0.35-eta384", "m0.75-eta24", "m0.75-eta384"):
            train(recipe=cell.recipe, out=cell.folder)
    return found


def test_a_trace_is_what_the_run_measured(grid: Plan) -> None:
    found = traces(grid.cells)
    assert [(one.eta, one.m) for one in found] == [(24.0, 0.35), (384.0, 0.35), (24.0, 0.75), (384.0, 0.75)]
    (folder,) = (cell.folder for cell in grid.cells if cell.variant == "m0.35-eta384")
    metrics = Run(folder).metrics
    assert found[1].right == {row["epoch"]: row["correction_accuracy_after"] for row in metrics}
    assert found[1].turned == {row["epoch"]: row["turned"] for row in metrics}
    assert found[1].right_before == metrics[0]["correction_right_before"] / metrics[0]["correction_samples"]
    assert found[1].turned[2] > found[2].turned[2]  # a large step from a small weight turns labels sooner


def test_what_is_finished_is_drawn(grid: Plan, tmp_path: Path) -> None:
    names = [path.name for path in draw_traces(traces(grid.cells), tmp_path)]
    assert names == ["figure3.png", "figure3.svg", "figure3-map.png", "figure3-map.svg"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
    one = [cell for cell in grid.cells if cell.variant == "m0.35-eta384"]
    assert draw_traces(traces(one), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
