"""Figure 3 at tier mini: PermLL over ten η and eight m, one seed, symmetric noise of 60 %.

python benchmarks/figure3.py                 trains what results/figure3.csv does not have: half an hour of one core
python benchmarks/figure3.py --only-render   draws it
python benchmarks/figure3.py --again         trains every cell that is not finished in runs/figure3

Written are results/figure3.csv, with a row for every epoch of every training, and the pictures docs/images/figure3.png
and figure3-map.png. The trainings are those of permll bench figure3 --tier mini --out runs --jobs 2.
"""

import csv
import sys
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, ROOT, arguments, leave, train
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.figure3 import Trace, draw_traces, traces
from permll.bench.results import watched

CSV = RESULTS / "figure3.csv"
SEED = 1
COLUMNS = ("eta", "m", "seed", "right_before", "epoch", "right", "turned", "machine", "recipe_hash")
Rows = Sequence[dict[str, str]]  # of one training, by epoch


def main() -> None:
    """Train, write and draw."""
    args = arguments(__doc__)
    plan = bench.plan("figure3", tier="mini", seeds=[SEED], out=OUT)
    known = read() if CSV.is_file() and not args.again else {}
    if not args.only_render:
        train(plan, known)
    known |= {cell.recipe.hash: rows for cell in plan.cells if (rows := rows_of(cell))}
    kept = [known[cell.recipe.hash] for cell in plan.cells if cell.recipe.hash in known]
    with CSV.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for rows in kept for row in rows)
    for path in draw_traces([trace_of(rows) for rows in kept], ROOT / "docs" / "images"):
        print(path.relative_to(ROOT))
    leave()


def read() -> dict[str, Rows]:
    """Return the rows of the CSV file by the hash of their training's recipe."""
    with CSV.open(newline="") as file:
        return {name: list(rows) for name, rows in groupby(csv.DictReader(file), itemgetter("recipe_hash"))}


def rows_of(cell: bench.Cell) -> Rows:
    """Return a row for every epoch of a training that was judged; nothing if it is not finished."""
    rows = []
    for one in traces([cell]):
        place = one.eta, one.m, cell.seed, round(one.right_before, 6)
        for epoch, right in one.right.items():
            shares = round(right, 6), round(one.turned[epoch], 6)
            values = *place, epoch, *shares, watched(cell.folder).machine, cell.recipe.hash
            rows.append(dict(zip(COLUMNS, map(str, values), strict=True)))
    return rows


def trace_of(rows: Rows) -> Trace:
    """Return what is drawn of a training."""
    right, turned = ({int(row["epoch"]): float(row[name]) for row in rows} for name in ("right", "turned"))
    return Trace(float(rows[0]["eta"]), float(rows[0]["m"]), right, turned, float(rows[0]["right_before"]))


if __name__ == "__main__":
    main()
