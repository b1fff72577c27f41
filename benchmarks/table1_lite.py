"""Part of Table 1 at tier lite: four methods with a ResNet-8, two kinds of noise, one seed, minutes per job.

python benchmarks/table1_lite.py --root ROOT   trains the jobs that results/table1_lite.csv lacks
python benchmarks/table1_lite.py --only-render trains nothing
python benchmarks/table1_lite.py --again       trains everything

ROOT contains CIFAR-10 as published. The runs use 5,000 images without augmentation, because augmented images are not
memorized in as few epochs as a CPU can train. There was no parameter search. Writes results/table1_lite.csv and
results/table1_lite.*.md.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, exit_with_status, parse_args, train_and_record, write_tables
from permll import bench

METHODS = ("ce", "gce", "elr", "permll")
NOISES = ("cifar10-sym-60", "cifar10-asym-40")
OVERRIDES = {
    "data.train": 5_000,
    "data.validation": 1_000,
    "views.weak": [],
    "training.epochs": 24,
    "training.evaluate_every": 4,
}
TABLES = ("table1", "detection", "correction", "memorization", "time")


def main() -> None:
    """Train the missing jobs and write the files."""
    args = parse_args(__doc__, "root")
    plan = bench.plan(
        "table1", tier="lite", methods=METHODS, noise=NOISES, seeds=[1], out=OUT, root=args.root, overrides=OVERRIDES
    )
    write_tables(train_and_record(plan, "table1_lite", args), "table1_lite", TABLES)
    exit_with_status()


if __name__ == "__main__":
    main()
