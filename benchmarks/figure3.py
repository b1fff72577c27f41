"""Figure 3 at tier mini: PermLL over ten η and eight m, one seed, symmetric noise of 60 %.

python benchmarks/figure3.py                 trains what is missing in runs/figure3: half an hour of one core
python benchmarks/figure3.py --only-render   draws results/figure3.csv

Written are results/figure3.csv, with a row for every epoch of every training, and the pictures docs/images/figure3.png
and figure3-map.png. The trainings are those of permll bench figure3 --tier mini --out runs --jobs 2.
"""

import csv
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recorded import OUT, ROOT, arguments, train
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.collecting import watched
from permll.bench.figure3 import Trace, draw_traces, traces

CSV = RESULTS / "figure3.csv"
SEED = 1
COLUMNS = ("eta", "m", "seed", "right_before", "epoch", "right", "turned", "machine")


def main() -> None:
    """Train, write and draw."""
    args = arguments(__doc__)
    if not args.only_render:
        plan = bench.plan("figure3", tier="mini", seeds=[SEED], out=OUT)
        failures = train(plan)
        write(plan.cells)
        print(*(failure["sentence"] for failure in failures), sep="\n", end="", file=sys.stderr)
    for path in draw_traces(read(), ROOT / "docs" / "images"):
        print(path.relative_to(ROOT))


def write(cells: Iterable[bench.Cell]) -> None:
    """Write a row for every epoch that was judged, of every training that is finished."""
    with CSV.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for cell in cells:
            for one in traces([cell]):
                place = one.eta, one.m, cell.seed, round(one.right_before, 6)
                for epoch, right in one.right.items():
                    shares = round(right, 6), round(one.turned[epoch], 6)
                    writer.writerow((*place, epoch, *shares, watched(cell.folder).machine))


def read() -> list[Trace]:
    """Return what ``write`` wrote."""
    with CSV.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for (eta, m, before), group in groupby(rows, lambda row: (row["eta"], row["m"], row["right_before"])):
        epochs = list(group)
        right, turned = ({int(row["epoch"]): float(row[name]) for row in epochs} for name in ("right", "turned"))
        found.append(Trace(float(eta), float(m), right, turned, float(before)))
    return found


if __name__ == "__main__":
    main()
