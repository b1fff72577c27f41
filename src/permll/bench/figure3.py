"""Figure 3: how many labels are right in the end, as η and m change; from the folders of the plan's cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from permll.bench.jobs import Cell
from permll.training.run import Run

# The paper's panels: (a) several η at one m, (b) several m at one η; of the grid, so many as can be told apart.
M_OF_A, ETAS_OF_A = 0.75, (1.5, 6.0, 24.0, 96.0, 384.0)
ETA_OF_B, MS_OF_B = 24.0, (0.15, 0.35, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Trace:
    """PermLL with one η and m.

    Args:
        eta: the paper's learning rate of α, that of a batch's mean.
        m: the initial weight of the given label.
        right: the share of training labels whose largest weight is at the true class, by epoch.
        turned: the share whose largest weight is not at the given label any more, by epoch.
        right_before: the share that is right as given.
    """

    eta: float
    m: float
    right: dict[int, float]
    turned: dict[int, float]
    right_before: float


def traces(cells: Iterable[Cell]) -> list[Trace]:
    """Return the finished cells of Figure 3."""
    found = []
    for cell in cells:
        if cell.part != "figure3" or cell.standing != "finished":
            continue
        method, metrics = cell.recipe.method.settings, Run(cell.folder).metrics
        judged = [row for row in metrics if row.get("correction_accuracy_after") is not None]
        found.append(
            Trace(
                eta=round(method["lr"] * cell.recipe.training.resolved_batch_size, 6),
                m=method["init"],
                right={row["epoch"]: row["correction_accuracy_after"] for row in judged},
                turned={row["epoch"]: row["turned"] for row in metrics},
                right_before=judged[-1]["correction_accuracy_before"],
            )
        )
    return found


def draw_traces(known: Sequence[Trace], folder: Path) -> list[Path]:
    """Draw Figure 3 into a folder, as PNG and SVG; nothing where too little is known."""
    panels = [one for one in known if _in_a_panel(one)]
    wide = min(len({one.eta for one in known}), len({one.m for one in known})) > 1
    if not panels and not wide:
        return []
    from permll.report.figures.eta_m import Point, Setting, draw_correction_curves, draw_heat_map
    from permll.report.figures.style import save

    paths = []
    if panels:
        series = {Setting(one.eta, one.m): one.right for one in panels}
        figure = draw_correction_curves(series, m=M_OF_A, eta=ETA_OF_B, given=panels[0].right_before)
        paths += save(figure, folder, "figure3")
    if wide:
        points = [Point(one.eta, one.m, list(one.right.values())[-1]) for one in known]
        paths += save(draw_heat_map(points), folder, "figure3-map")
    return paths


def _in_a_panel(one: Trace) -> bool:
    return (one.m == M_OF_A and one.eta in ETAS_OF_A) or (one.eta == ETA_OF_B and one.m in MS_OF_B)
