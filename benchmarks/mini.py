"""Table 1 at tier mini: every method, six kinds of noise, three seeds; from it the tables and pictures of the docs.

python benchmarks/mini.py                   trains the cells that results/mini.csv does not have yet
python benchmarks/mini.py --only-render     trains nothing
python benchmarks/mini.py --again           trains every cell that is not finished in runs/mini: hours

Written are results/mini.csv, with a row for every run; the tables beside it, as Markdown; that of the README; and
docs/images/mini.png. Settings are those of recipes/methods/, chosen before on another seed: see mini_search.py. It is
permll bench table1 --tier mini --out runs --jobs 2.
"""

import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, ROOT, arguments, leave, record, write_tables
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.results import Row
from permll.methods import METHODS
from permll.report.figures.comparison import Scores, draw_comparison, rank_by_accuracy
from permll.report.figures.style import save

RUNS = ROOT / OUT / "mini"
TABLES = ("table1", "detection", "correction", "calibration", "memorisation", "time", "ranks")
PANELS = {"sym-60": "Symmetric noise, 60 %", "asym-40": "Asymmetric noise, 40 %"}
NOISES = tuple(PANELS)
SEEDS = (1, 2, 3)
KINDS = ("last", "best_test")
SHORT = {"last": "last", "best_by_noisy_validation": "chosen", "right_after": "labels", "auroc": "AUROC"}
MARKED = re.compile(r"(?<=<!-- results/mini.table1.md -->\n).*?(?=<!-- end -->)", re.DOTALL)


def main() -> None:
    """Train and write."""
    args = arguments(__doc__)
    rows = record(bench.plan("table1", tier="mini", seeds=SEEDS, out=OUT), "mini", args)
    texts = write_tables(rows, "mini", TABLES)
    (RESULTS / "mini.short.md").write_text(short_table(rows))
    readme = ROOT / "README.md"
    readme.write_text(MARKED.sub(lambda _: texts["table1"], readme.read_text()))
    draw(rows)
    leave()


def short_table(rows: Sequence[Row]) -> str:
    """Return two kinds of noise and four numbers of each, those with most in the last epochs first."""
    lines = ["| method | " + " | ".join(f"{noise} {name}" for noise in NOISES for name in SHORT.values()) + " |"]
    lines.append("|---" * (1 + len(NOISES) * len(SHORT)) + "|")
    for method in rank_by_accuracy(_panels(rows)):
        cells = [METHODS[method].title]
        for noise in NOISES:
            group = [row for row in rows if (row["noise"], row["method"], row["variant"]) == (noise, method, "")]
            cells += [_spread(group, name) for name in SHORT]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row]) -> None:
    """Draw all methods side by side."""
    titles = {name: info.title for name, info in METHODS.items()}
    save(draw_comparison(_panels(rows), titles), ROOT / "docs" / "images", "mini")


def _panels(rows: Sequence[Row]) -> dict[str, dict[str, Scores]]:
    found: dict[str, dict[str, Scores]] = {}
    for noise, title in PANELS.items():
        of_noise = [row for row in rows if (row["noise"], row["variant"]) == (noise, "")]
        found[title] = {
            name: Scores(*([float(str(row[kind])) for row in of_noise if row["method"] == name] for kind in KINDS))
            for name in {str(row["method"]) for row in of_noise}
        }
    return found


def _spread(group: Sequence[Row], name: str) -> str:
    values = [100 * float(str(row[name])) for row in group if row[name] is not None]
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else "-"


if __name__ == "__main__":
    main()
