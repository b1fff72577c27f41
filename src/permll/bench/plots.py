"""Figures of a benchmark, from the run folders of its finished jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permll.bench.jobs import Job
from permll.noise.corruption import Corruption
from permll.report.figures.eta_m import Point, draw_correction_curves, draw_heat_map
from permll.report.figures.memorization import draw_memorization
from permll.report.figures.noise_matrix import draw_learned_noise
from permll.report.figures.style import save
from permll.report.tables.titles import Figure3Point, method_title, setting_title
from permll.training.noise_estimate import NOISE_ESTIMATE, estimate_noise
from permll.training.run import Run

CURVE_METHODS = ("ce", "gce", "elr", "dividemix", "permll")  # more curves are hard to distinguish
CURVE_NOISES = ("sym-60", "sym-80", "asym-40")  # one panel each; without them, the first settings of the plan
MATRIX_NOISES = ("asym-40", "asym-20")  # preferred for the transition matrix, since symmetric noise has no structure
# Panels of the paper's Figure 3: (a) several η at one m, (b) several m at one η.
PANEL_A_M, PANEL_A_ETAS = 0.75, (1.5, 6.0, 24.0, 96.0, 384.0)
PANEL_B_ETA, PANEL_B_MS = 24.0, (0.15, 0.35, 0.5, 0.75, 0.95)


def draw_table1_figures(jobs: Iterable[Job], folder: Path) -> list[Path]:
    """Draw accuracy curves and the learned noise of the finished jobs of Table 1, as PNG and SVG."""
    finished = [job for job in jobs if job.experiment == "table1" and job.status == "finished"]
    return [*_draw_memorization(finished, folder), *_draw_learned_noise(finished, folder)]


def true_and_learned_noise(run: Run) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    """Return the transition matrix (c, c) of a run's noise, the one that its method estimates, and the classes."""
    estimate = estimate_noise(run, by="corrected_labels")
    return Corruption.load(run.folder / "noise.npz").matrix, estimate.transition.numpy(), estimate.classes


@dataclass(frozen=True)
class Figure3Run:
    """Training labels of a PermLL run with one η and m."""

    eta: float  # the paper's learning rate of α, for the mean over a batch
    m: float  # initial weight of the given label
    label_accuracy: dict[int, float]  # fraction of samples whose largest weight is at the true class, by epoch
    corrected: dict[int, float]  # fraction of samples whose largest weight is not at the given label, by epoch
    given_accuracy: float  # fraction of given labels that are correct


def read_figure3_runs(jobs: Iterable[Job]) -> list[Figure3Run]:
    """Return the finished runs of Figure 3."""
    runs = []
    for job in (job for job in jobs if job.experiment == "figure3" and job.status == "finished"):
        settings, metrics = job.recipe.method.settings, Run(job.folder).metrics
        evaluated = [row for row in metrics if row.get("correction_accuracy_after") is not None]
        runs.append(
            Figure3Run(
                eta=round(settings["lr"] * job.recipe.training.resolved_batch_size, 6),
                m=settings["init"],
                label_accuracy={row["epoch"]: row["correction_accuracy_after"] for row in evaluated},
                corrected={row["epoch"]: row["corrected"] for row in metrics},
                given_accuracy=evaluated[-1]["correction_accuracy_before"],
            )
        )
    return runs


def draw_figure3(runs: Sequence[Figure3Run], folder: Path) -> list[Path]:
    """Draw Figure 3 as PNG and SVG: the panels with available runs, and the map if η and m both vary."""
    panel_runs = [
        run
        for run in runs
        if (run.m == PANEL_A_M and run.eta in PANEL_A_ETAS) or (run.eta == PANEL_B_ETA and run.m in PANEL_B_MS)
    ]
    has_map = min(len({run.eta for run in runs}), len({run.m for run in runs})) > 1
    paths = []
    if panel_runs:
        series = {Figure3Point(run.eta, run.m): run.label_accuracy for run in panel_runs}
        figure = draw_correction_curves(series, m=PANEL_A_M, eta=PANEL_B_ETA, given=panel_runs[0].given_accuracy)
        paths += save(figure, folder, "figure3")
    if has_map:
        points = [Point(run.eta, run.m, list(run.label_accuracy.values())[-1]) for run in runs]
        paths += save(draw_heat_map(points), folder, "figure3-map")
    return paths


def _draw_memorization(jobs: Sequence[Job], folder: Path) -> list[Path]:
    """Draw test accuracy over the epochs."""
    settings = list(dict.fromkeys((job.data, job.noise) for job in jobs))
    preferred = [setting for setting in settings if setting[1] in CURVE_NOISES] or settings
    panels: dict[str, dict[str, list[list[dict[str, object]]]]] = {}
    for job in jobs:
        in_panel = (job.data, job.noise) in preferred[: len(CURVE_NOISES)]
        if in_panel and job.method in CURVE_METHODS and not job.variant:
            curves = panels.setdefault(setting_title(job.data, job.noise), {})
            curves.setdefault(method_title((job.method, "")), []).append(Run(job.folder).metrics)
    if not panels:
        return []
    return save(draw_memorization(panels), folder, "memorization")


def _draw_learned_noise(jobs: Sequence[Job], folder: Path) -> list[Path]:
    """Draw the transition matrix that PermLL estimates in its first run, preferably with asymmetric noise."""
    jobs = [job for job in jobs if (job.method, job.variant) == ("permll", "")]
    jobs = [job for job in jobs if (job.folder / NOISE_ESTIMATE).is_file()]  # runs of older versions lack it
    if not jobs:
        return []
    best = min(jobs, key=lambda job: (*MATRIX_NOISES, job.noise).index(job.noise))
    return save(draw_learned_noise(*true_and_learned_noise(Run(best.folder))), folder, "learned")
