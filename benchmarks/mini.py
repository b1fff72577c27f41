"""Table 1 at tier mini: every method, six kinds of noise, three seeds; from it the tables and pictures of the docs.

python benchmarks/mini.py                   trains the cells that results/mini.csv does not have yet
python benchmarks/mini.py --only-render     trains nothing
python benchmarks/mini.py --again           trains every cell that is not finished in runs/mini: hours

A row of results/mini.csv stands for its cell as long as the cell's recipe is the same, by its hash. Written are
results/mini.csv, with a row for every run; the tables beside it, as Markdown; that of the README; and
docs/images/mini.png. Settings are those of recipes/methods/, chosen before on another seed: see mini_search.py. It is
permll bench table1 --tier mini --out runs --jobs 2.
"""

import argparse
import os
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.collecting import Row, collect_cells
from permll.bench.watching import Lines
from permll.methods import METHODS
from permll.report.figures.comparison import Scores, draw_comparison, ranking
from permll.report.figures.style import save
from permll.report.tables import render_tables

ROOT = RESULTS.parent
CSV = RESULTS / "mini.csv"
OUT = Path("runs")
RUNS = ROOT / OUT / "mini"
TABLES = ("table1", "detection", "correction", "calibration", "memorisation", "time", "ranks")
PANELS = {"sym-60": "Symmetric noise, 60 %", "asym-40": "Asymmetric noise, 40 %"}
NOISES = tuple(PANELS)
SEEDS = (1, 2, 3)
JOBS = 2
KINDS = ("last", "best_test")
SHORT = {"last": "last", "best_by_noisy_validation": "chosen", "right_after": "labels", "auroc": "AUROC"}
MARKED = re.compile(r"(?<=<!-- results/mini.table1.md -->\n).*?(?=<!-- end -->)", re.DOTALL)


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-render", action="store_true", help="train nothing")
    parser.add_argument("--again", action="store_true", help="train also what results/mini.csv has")
    args = parser.parse_args()
    os.chdir(ROOT)  # so that folders are written down as anybody has them
    plan = bench.plan("table1", tier="mini", seeds=SEEDS, out=OUT)
    known = {} if args.again else {row["recipe_hash"]: row for row in bench.read_rows(CSV)}
    missing = replace(plan, cells=tuple(cell for cell in plan.cells if cell.recipe.hash not in known))
    try:
        failures = [] if args.only_render else bench.run(missing, JOBS, Lines())
    except KeyboardInterrupt as stopped:
        sys.exit(str(stopped))
    known |= {row["recipe_hash"]: row for row in collect_cells(plan.cells)}
    rows = [known[cell.recipe.hash] for cell in plan.cells if cell.recipe.hash in known]
    written = [bench.write_rows(CSV, rows), *write_tables(rows), *draw(rows)]
    print(f"{len(rows)} of {len(plan.cells)} cells in {', '.join(path.name for path in written)}")
    sys.exit(f"{len(failures)} cells failed: see {OUT / 'failures.json'}." if failures else 0)


def write_tables(rows: Sequence[Row]) -> list[Path]:
    """Write every table, and the README's."""
    texts = {name: render_tables(rows, table=name, format="markdown") for name in TABLES} | {"short": short_table(rows)}
    paths = []
    for name, text in texts.items():
        paths.append(RESULTS / f"mini.{name}.md")
        paths[-1].write_text(text)
    readme = ROOT / "README.md"
    readme.write_text(MARKED.sub(lambda _: texts["table1"], readme.read_text()))
    return [*paths, readme]


def short_table(rows: Sequence[Row]) -> str:
    """Return two kinds of noise and four numbers of each, those with most in the last epochs first."""
    lines = ["| method | " + " | ".join(f"{noise} {name}" for noise in NOISES for name in SHORT.values()) + " |"]
    lines.append("|---" * (1 + len(NOISES) * len(SHORT)) + "|")
    for method in ranking(_panels(rows)):
        cells = [METHODS[method].title]
        for noise in NOISES:
            group = [row for row in rows if (row["noise"], row["method"], row["variant"]) == (noise, method, "")]
            cells += [_spread(group, name) for name in SHORT]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row]) -> list[Path]:
    """Draw all methods side by side."""
    titles = {name: info.title for name, info in METHODS.items()}
    return save(draw_comparison(_panels(rows), titles), ROOT / "docs" / "images", "mini")


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
