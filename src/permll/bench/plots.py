"""Pictures of Table 1: accuracy over the epochs, where learning by heart is seen; and the noise as it was learned."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permll.bench.jobs import Cell
from permll.report.tables.titles import method_title, setting_title
from permll.training.noise_estimate import NOISE_ESTIMATE
from permll.training.run import Run

SHOWN = ("ce", "gce", "elr", "dividemix", "permll")  # so many lines can be told apart
PANELS = ("sym-60", "sym-80", "asym-40")  # if they are there; else the first of those that are
LEARNED = ("asym-40", "asym-20")  # noise that has a shape to be learned


def draw_pictures(cells: Iterable[Cell], folder: Path) -> list[Path]:
    """Draw what is finished of Table 1 into a folder, as PNG and SVG; nothing where nothing is."""
    finished = [cell for cell in cells if cell.part == "table1" and cell.standing == "finished"]
    return [*_memorization(finished, folder), *_learned(finished, folder)]


def _memorization(cells: Sequence[Cell], folder: Path) -> list[Path]:
    panels: dict[str, dict[str, list[list[dict[str, object]]]]] = {}
    for cell in _of_columns(cells):
        if cell.method in SHOWN and not cell.variant:
            lines = panels.setdefault(setting_title(cell.data, cell.noise), {})
            lines.setdefault(method_title((cell.method, "")), []).append(Run(cell.folder).metrics)
    if not panels:
        return []
    from permll.report.figures.memorization import draw_memorization
    from permll.report.figures.style import save

    return save(draw_memorization(panels), folder, "memorisation")


def _learned(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Draw the confusion that PermLL believes in, of one run: its first seed, with asymmetric noise where there is."""
    ours = [cell for cell in cells if (cell.method, cell.variant) == ("permll", "")]
    ours.sort(key=lambda cell: LEARNED.index(cell.noise) if cell.noise in LEARNED else len(LEARNED))
    ours = [cell for cell in ours if (cell.folder / NOISE_ESTIMATE).is_file()]  # older runs have none
    if not ours:
        return []
    from permll.report.figures.memorization import draw_learned_noise
    from permll.report.figures.style import save

    return save(draw_learned_noise(*learned_noise(Run(ours[0].folder))), folder, "learned")


def learned_noise(run: Run) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    """Return the transition matrix (c, c) of a run's noise, the one that its method believes in, and the classes."""
    from permll.noise.corruption import Corruption
    from permll.training.noise_estimate import estimate_noise

    found = estimate_noise(run, by="beliefs")
    return Corruption.load(run.folder / "noise.npz").matrix, found.transition.numpy(), found.classes


def _of_columns(cells: Sequence[Cell]) -> list[Cell]:
    there = dict.fromkeys((cell.data, cell.noise) for cell in cells)
    chosen = [column for column in there if column[1] in PANELS] or list(there)[: len(PANELS)]
    return [cell for cell in cells if (cell.data, cell.noise) in chosen[: len(PANELS)]]
