"""Two pictures of tier mini, seed 1: accuracy over the epochs, and the noise beside the noise as PermLL has learned it.

python benchmarks/mini_pictures.py                 trains what results/mini_curves.csv does not have: some minutes
python benchmarks/mini_pictures.py --only-render   draws it
python benchmarks/mini_pictures.py --again         trains every cell that is not finished in runs/mini

Written are results/mini_curves.csv, with a row for every epoch; results/mini_learned.csv, with a row for every pair of
classes; and the pictures docs/images/memorisation.png and learned.png. They are those that permll bench table1 draws.
"""

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, ROOT, arguments, leave, train
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.plots import learned_noise
from permll.bench.results import watched
from permll.report.figures.memorization import draw_learned_noise, draw_memorization
from permll.report.figures.style import save
from permll.report.tables.titles import method_title, setting_title
from permll.training import Run

SEED = 1
METHODS = ("ce", "gce", "elr", "permll")
NOISE = ("sym-60", "sym-80", "asym-40")
LEARNED = ("asym-40", "permll")
CURVES, PAIRS = RESULTS / "mini_curves.csv", RESULTS / "mini_learned.csv"
Row = dict[str, str]


def main() -> None:
    """Train, write and draw."""
    args = arguments(__doc__)
    plan = bench.plan("table1", tier="mini", methods=METHODS, noise=NOISE, seeds=[SEED], out=OUT)
    known = {row["recipe_hash"] for row in read(CURVES)} if not args.again else set()
    if not args.only_render:
        train(plan, known)
    finished = [cell for cell in plan.cells if cell.standing == "finished"]
    fresh = [row for cell in finished for row in curve_of(cell)]
    hashes = {row["recipe_hash"] for row in fresh}
    write(CURVES, [*(row for row in read(CURVES) if row["recipe_hash"] not in hashes), *fresh])
    for cell in finished:
        if (cell.noise, cell.method) == LEARNED:
            write(PAIRS, pairs_of(cell))
    draw(read(CURVES), read(PAIRS))
    leave()


def curve_of(cell: bench.Cell) -> list[Row]:
    """Return a row for every epoch of a training."""
    place = {"data": cell.data, "noise": cell.noise, "method": cell.method, "seed": str(cell.seed)}
    about = {"machine": watched(cell.folder).machine, "recipe_hash": cell.recipe.hash}
    metrics = [row for row in Run(cell.folder).metrics if row.get("test_accuracy") is not None]
    return [place | {key: str(row[key]) for key in ("epoch", "test_accuracy")} | about for row in metrics]


def pairs_of(cell: bench.Cell) -> list[Row]:
    """Return a row for every pair of classes: what share of the first is given as the second, and is believed to be."""
    true, learned, classes = learned_noise(Run(cell.folder))
    about = {"seed": str(cell.seed), "machine": watched(cell.folder).machine, "recipe_hash": cell.recipe.hash}
    return [
        {"class": one, "given_as": other, "true": f"{true[i, j]:.6f}", "learned": f"{learned[i, j]:.6f}"} | about
        for i, one in enumerate(classes)
        for j, other in enumerate(classes)
    ]


def draw(curves: Sequence[Row], pairs: Sequence[Row]) -> None:
    """Draw both."""
    panels: dict[str, dict[str, list[list[dict[str, object]]]]] = {}
    for row in curves:
        lines = panels.setdefault(setting_title(row["data"], row["noise"]), {})
        (line,) = lines.setdefault(method_title((row["method"], "")), [[]])
        line.append({"epoch": int(row["epoch"]), "test_accuracy": float(row["test_accuracy"])})
    folder = ROOT / "docs" / "images"
    save(draw_memorization(panels), folder, "memorisation")
    classes = list(dict.fromkeys(row["class"] for row in pairs))
    true, learned = (_matrix([float(row[name]) for row in pairs], len(classes)) for name in ("true", "learned"))
    save(draw_learned_noise(true, learned, classes), folder, "learned")


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV file; none if it is not there."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows that all have the same keys."""
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _matrix(values: Sequence[float], side: int) -> list[Sequence[float]]:
    return [values[start : start + side] for start in range(0, len(values), side)]


if __name__ == "__main__":
    main()
