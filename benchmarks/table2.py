"""Table 2 on small data sets with real noise: LabelMe (crowd workers) and TREC (rules), all methods, three seeds.

python benchmarks/table2.py --labelme labelme.npz --trec trec_rules.npz    trains the jobs that results/table2.csv
                                                                           lacks: minutes
python benchmarks/table2.py ... --only-render                              trains nothing
python benchmarks/table2.py ... --again                                    trains everything

permll.bench.real_noise describes the files. There was no parameter search: methods have the settings of their recipes,
with the recipe auto/default. Writes results/table2.csv and results/table2.*.md. The jobs are those of permll bench
table2 --tier mini --out runs --jobs 2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, exit_with_status, parse_args, train_and_record, write_tables
from permll import bench

SEEDS = (1, 2, 3)
TABLES = ("table2", "detection", "correction", "memorization", "ranks")


def main() -> None:
    """Train the missing jobs and write the files."""
    args = parse_args(__doc__, "labelme", "trec")
    files = [file for file in (args.labelme, args.trec) if file is not None]
    rows = train_and_record(bench.plan("table2", tier="mini", seeds=SEEDS, out=OUT, data=files), "table2", args)
    write_tables(rows, "table2", TABLES)
    exit_with_status()


if __name__ == "__main__":
    main()
