"""Table 1 at tier mini, with all methods, six kinds of noise and three seeds, for the tables and figures of the docs.

python benchmarks/mini.py                   trains the jobs that results/mini.csv lacks
python benchmarks/mini.py --only-render     trains nothing
python benchmarks/mini.py --again           trains all jobs that are not finished in runs/mini: hours

Writes results/mini.csv with a row per run, tables as results/mini.*.md, the table of the README, and
docs/images/mini.png. The settings in recipes/methods/ were chosen on another seed: see mini_search.py. The jobs are
those of permll bench table1 --tier mini --out runs --jobs 2.
"""

import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import OUT, ROOT, exit_with_status, parse_args, train_and_record, write_tables
from benchmarks.comparison import Scores, draw_comparison, rank_by_accuracy
from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.results import Row
from permll.methods import METHODS
from permll.report.figures.style import save

RUNS = ROOT / OUT / "mini"
TABLES = ("table1", "detection", "correction", "calibration", "memorization", "time", "ranks")
PANELS = {"sym-60": "Symmetric noise, 60 %", "asym-40": "Asymmetric noise, 40 %"}
NOISES = tuple(PANELS)
SEEDS = (1, 2, 3)
SCORES = ("last", "best_test")
SHORT_TABLE = {"last": "last", "best_by_noisy_validation": "chosen", "right_after": "labels", "auroc": "AUROC"}
README_TABLE = re.compile(r"(?<=<!-- results/mini.table1.md -->\n).*?(?=<!-- end -->)", re.DOTALL)


def main() -> None:
    """Train the missing jobs and write the files."""
    args = parse_args(__doc__)
    rows = train_and_record(bench.plan("table1", tier="mini", seeds=SEEDS, out=OUT), "mini", args)
    texts = write_tables(rows, "mini", TABLES)
    (RESULTS / "mini.short.md").write_text(short_table(rows))
    readme = ROOT / "README.md"
    readme.write_text(README_TABLE.sub(lambda _: texts["table1"], readme.read_text(), count=1))
    draw(rows)
    exit_with_status()


def short_table(rows: Sequence[Row]) -> str:
    """Return four numbers for two kinds of noise, as Markdown, sorted by the accuracy of the last epoch."""
    lines = ["| method | " + " | ".join(f"{noise} {name}" for noise in NOISES for name in SHORT_TABLE.values()) + " |"]
    lines.append("|---" * (1 + len(NOISES) * len(SHORT_TABLE)) + "|")
    for method in rank_by_accuracy(_panels(rows)):
        cells = [METHODS[method].title]
        for noise in NOISES:
            group = [row for row in rows if (row["noise"], row["method"], row["variant"]) == (noise, method, "")]
            cells += [_mean_and_std(group, name) for name in SHORT_TABLE]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row]) -> None:
    """Draw the comparison of all methods."""
    titles = {name: info.title for name, info in METHODS.items()}
    save(draw_comparison(_panels(rows), titles), ROOT / "docs" / "images", "mini")


def _panels(rows: Sequence[Row]) -> dict[str, dict[str, Scores]]:
    panels: dict[str, dict[str, Scores]] = {}
    for noise, title in PANELS.items():
        group = [row for row in rows if (row["noise"], row["variant"]) == (noise, "")]
        panels[title] = {
            name: Scores(*([float(str(row[column])) for row in group if row["method"] == name] for column in SCORES))
            for name in {str(row["method"]) for row in group}
        }
    return panels


def _mean_and_std(group: Sequence[Row], name: str) -> str:
    values = [100 * float(str(row[name])) for row in group if row[name] is not None]
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else "-"


if __name__ == "__main__":
    main()
