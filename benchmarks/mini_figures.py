"""Two figures of tier mini, seed 1: accuracy over the epochs, and the true and the learned transition matrix.

python benchmarks/mini_figures.py                  trains what results/mini_curves.csv lacks: some minutes
python benchmarks/mini_figures.py --only-render    only draws the figures
python benchmarks/mini_figures.py --again          trains all jobs that are not finished in runs/mini

Writes results/mini_curves.csv, with a row per epoch, results/mini_learned.csv, with a row per pair of classes,
docs/images/memorization.png and docs/images/learned.png. permll bench table1 draws the same figures.
"""

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, ROOT, exit_with_status, parse_args, train_missing
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.plots import true_and_learned_noise
from permll.bench.results import read_timing
from permll.report.figures.memorization import draw_memorization
from permll.report.figures.noise_matrix import draw_learned_noise
from permll.report.figures.style import save
from permll.report.tables.titles import method_title, setting_title
from permll.training import Run

SEED = 1
METHODS = ("ce", "gce", "elr", "permll")
NOISES = ("sym-60", "sym-80", "asym-40")
MATRIX_JOB = ("asym-40", "permll")
CURVES, PAIRS = RESULTS / "mini_curves.csv", RESULTS / "mini_learned.csv"
Row = dict[str, str]


def main() -> None:
    """Train the missing jobs, write the CSV files and draw the figures."""
    args = parse_args(__doc__)
    plan = bench.plan("table1", tier="mini", methods=METHODS, noise=NOISES, seeds=[SEED], out=OUT)
    known_hashes = {row["recipe_hash"] for row in read(CURVES)} if not args.again else set()
    if not args.only_render:
        train_missing(plan, known_hashes)
    finished = [job for job in plan.jobs if job.status == "finished"]
    new_rows = [row for job in finished for row in epoch_rows(job)]
    new_hashes = {row["recipe_hash"] for row in new_rows}
    write(CURVES, [*(row for row in read(CURVES) if row["recipe_hash"] not in new_hashes), *new_rows])
    for job in finished:
        if (job.noise, job.method) == MATRIX_JOB:
            write(PAIRS, class_pair_rows(job))
    draw(read(CURVES), read(PAIRS))
    exit_with_status()


def epoch_rows(job: bench.Job) -> list[Row]:
    """Return a row per evaluated epoch of a job."""
    fields = {"data": job.data, "noise": job.noise, "method": job.method, "seed": str(job.seed)}
    source = {"machine": read_timing(job.folder).machine, "recipe_hash": job.recipe.hash}
    metrics = [row for row in Run(job.folder).metrics if row.get("test_accuracy") is not None]
    return [fields | {key: str(row[key]) for key in ("epoch", "test_accuracy")} | source for row in metrics]


def class_pair_rows(job: bench.Job) -> list[Row]:
    """Return a row per pair of classes, with the true and the learned transition probability."""
    true, learned, classes = true_and_learned_noise(Run(job.folder))
    source = {"seed": str(job.seed), "machine": read_timing(job.folder).machine, "recipe_hash": job.recipe.hash}
    return [
        {"class": true_class, "given_as": given, "true": f"{true[i, j]:.6f}", "learned": f"{learned[i, j]:.6f}"}
        | source
        for i, true_class in enumerate(classes)
        for j, given in enumerate(classes)
    ]


def draw(curves: Sequence[Row], pairs: Sequence[Row]) -> None:
    """Draw both."""
    panels: dict[str, dict[str, list[list[dict[str, object]]]]] = {}
    for row in curves:
        curves_by_method = panels.setdefault(setting_title(row["data"], row["noise"]), {})
        (curve,) = curves_by_method.setdefault(method_title((row["method"], "")), [[]])
        curve.append({"epoch": int(row["epoch"]), "test_accuracy": float(row["test_accuracy"])})
    folder = ROOT / "docs" / "images"
    save(draw_memorization(panels), folder, "memorization")
    classes = list(dict.fromkeys(row["class"] for row in pairs))
    true, learned = (_matrix([float(row[name]) for row in pairs], len(classes)) for name in ("true", "learned"))
    save(draw_learned_noise(true, learned, classes), folder, "learned")


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV file, none if it does not exist."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows with the same keys to a CSV file."""
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _matrix(values: Sequence[float], side: int) -> list[Sequence[float]]:
    return [values[start : start + side] for start in range(0, len(values), side)]


if __name__ == "__main__":
    main()
