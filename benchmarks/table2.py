"""Table 2 on real wrong labels that fit anywhere: LabelMe's crowd and TREC's rules, every method, three seeds.

python benchmarks/table2.py --labelme labelme.npz --trec trec_rules.npz    trains the cells that results/table2.csv
                                                                           does not have yet: minutes
python benchmarks/table2.py ... --only-render                              trains nothing
python benchmarks/table2.py ... --again                                    trains all of it

The files are described in permll.bench.real_noise. Nothing was searched for: methods have the settings of their recipes
and the frame is the one of one's own data. Written are results/table2.csv and tables beside it. The trainings are those
of permll bench table2 --tier mini --out runs --jobs 2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, arguments, leave, record, write_tables
from permll import bench

SEEDS = (1, 2, 3)
TABLES = ("table2", "detection", "correction", "memorisation", "ranks")


def main() -> None:
    """Train and write."""
    args = arguments(__doc__, "labelme", "trec")
    files = [file for file in (args.labelme, args.trec) if file is not None]
    rows = record(bench.plan("table2", tier="mini", seeds=SEEDS, out=OUT, data=files), "table2", args)
    write_tables(rows, "table2", TABLES)
    leave()


if __name__ == "__main__":
    main()
