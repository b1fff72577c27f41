"""Figure 3 at tier mini: PermLL over ten η and eight m, one seed, symmetric noise of 60 %.

python benchmarks/figure3.py                 trains what results/figure3.csv lacks: half an hour on one core
python benchmarks/figure3.py --only-render   only draws the figures
python benchmarks/figure3.py --again         trains all jobs that are not finished in runs/figure3

Writes results/figure3.csv, with a row per epoch of each run, docs/images/figure3.png and figure3-map.png. The runs are
those of permll bench figure3 --tier mini --out runs --jobs 2.
"""

import csv
import sys
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, ROOT, exit_with_status, parse_args, train_missing
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.plots import Figure3Run, draw_figure3, read_figure3_runs
from permll.bench.results import read_timing

CSV = RESULTS / "figure3.csv"
SEED = 1
COLUMNS = ("eta", "m", "seed", "right_before", "epoch", "right", "corrected", "machine", "recipe_hash")
Rows = Sequence[dict[str, str]]  # of one run, by epoch


def main() -> None:
    """Train the missing jobs, write the CSV file and draw the figures."""
    args = parse_args(__doc__)
    plan = bench.plan("figure3", tier="mini", seeds=[SEED], out=OUT)
    by_hash = read_rows() if CSV.is_file() and not args.again else {}
    if not args.only_render:
        train_missing(plan, by_hash)
    by_hash |= {job.recipe.hash: rows for job in plan.jobs if (rows := epoch_rows(job))}
    runs = [by_hash[job.recipe.hash] for job in plan.jobs if job.recipe.hash in by_hash]
    with CSV.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for rows in runs for row in rows)
    for path in draw_figure3([to_run(rows) for rows in runs], ROOT / "docs" / "images"):
        print(path.relative_to(ROOT))
    exit_with_status()


def read_rows() -> dict[str, Rows]:
    """Return the rows of the CSV file by recipe hash."""
    with CSV.open(newline="") as file:
        return {name: list(rows) for name, rows in groupby(csv.DictReader(file), itemgetter("recipe_hash"))}


def epoch_rows(job: bench.Job) -> Rows:
    """Return a row per evaluated epoch of a finished job, else no rows."""
    rows = []
    for run in read_figure3_runs([job]):
        fields = run.eta, run.m, job.seed, round(run.given_accuracy, 6)
        for epoch, accuracy in run.label_accuracy.items():
            fractions = round(accuracy, 6), round(run.corrected[epoch], 6)
            values = *fields, epoch, *fractions, read_timing(job.folder).machine, job.recipe.hash
            rows.append(dict(zip(COLUMNS, map(str, values), strict=True)))
    return rows


def to_run(rows: Rows) -> Figure3Run:
    """Return the rows of a run as an object to draw."""
    accuracy, corrected = ({int(row["epoch"]): float(row[name]) for row in rows} for name in ("right", "corrected"))
    return Figure3Run(float(rows[0]["eta"]), float(rows[0]["m"]), accuracy, corrected, float(rows[0]["right_before"]))


if __name__ == "__main__":
    main()
