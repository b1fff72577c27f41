"""Table 1 at tier lite, a part of it: four methods with convolutions, two kinds of noise, one seed, minutes a cell.

python benchmarks/table1_lite.py --root ROOT   trains the cells that results/table1_lite.csv does not have yet
python benchmarks/table1_lite.py --only-render trains nothing
python benchmarks/table1_lite.py --again       trains all of it

ROOT holds CIFAR-10 as published. 5,000 of its images, ResNet-8, and no augmentation: so that plain training learns
labels by heart within a time that a CPU can give, which it does not in so few epochs when every image is seen cropped
and flipped. Nothing was searched for. Written are results/table1_lite.csv and tables beside it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, arguments, leave, record, write_tables
from permll import bench

METHODS = ("ce", "gce", "elr", "permll")
NOISE = ("cifar10-sym-60", "cifar10-asym-40")
SETTINGS = {
    "data.train": 5_000,
    "data.validation": 1_000,
    "views.weak": [],
    "training.epochs": 24,
    "training.evaluate_every": 4,
}
TABLES = ("table1", "detection", "correction", "memorisation", "time")


def main() -> None:
    """Train and write."""
    args = arguments(__doc__, "root")
    plan = bench.plan(
        "table1", tier="lite", methods=METHODS, noise=NOISE, seeds=[1], out=OUT, root=args.root, settings=SETTINGS
    )
    write_tables(record(plan, "table1_lite", args), "table1_lite", TABLES)
    leave()


if __name__ == "__main__":
    main()
