"""All that is measured of speed and room, as one table of ratios with their targets.

python benchmarks/suite.py [--root ROOT] [--features FEATURES]     measures anew, into results/*.csv
python benchmarks/suite.py --only-render                           measures nothing

Input and training need CIFAR-10 below ROOT; without it, and without the features of CIFAR-100, the numbers that are
there stay. Leaves with 1 if a target is missed. What is compared takes turns in one run, so other work on the machine
is unfair to nobody; but two ranks need two cores for themselves.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, read_csv

Verdict = tuple[str, str, float, str, bool]  # its file, what it is, its value, the target, whether it is met
FOLDER = Path(__file__).resolve().parent
# What is measured, the file it goes into, and whether the target is the least or the most that may come out.
MEASURED = {"layer": "", "state": "", "ranks": "", "clean_memory": "", "input": "root", "training": "root"}
# Of state.csv: what, how rows are kept, classes, rows, and the most that may come out.
STATE = (
    ("step: N rows / 10^4 rows", "dense", 100, 10_000_000, 1.2),
    ("step: N rows / 10^4 rows", "top_k=16", 100, 10_000_000, 1.2),
    ("step: layer / cross-entropy", "top_k=16", 21_000, 1_000_000, 2.0),
    ("room of the table", "top_k=16", 21_000, 1_000_000, 1000.0),
)
AT_LEAST = ("dense form / layer", "images/s", "plain loop", "resnet8, 10 classes")


def verdicts() -> Iterator[Verdict]:
    """Yield of every number with a target: its file, what it is, its value, the target, and whether it is met."""
    for name in (*MEASURED, "cleaning"):
        if not (RESULTS / f"{name}.csv").is_file():
            continue
        if name == "cleaning":
            yield _cleaning()
        if name == "state":
            yield from _state()
        if name in ("cleaning", "state"):
            continue
        for row in read_csv(name):
            if row.get("target"):
                more = ", ".join(row[key] for key in ("net", "network", "case") if row.get(key))
                classes = f", c = {int(row['classes']):,}" if row.get("classes") and name == "layer" else ""
                least = row["what"].startswith(AT_LEAST)
                target = f"{'>=' if least else '<='} {float(row['target']):g}"
                value = float(row.get("ratio_median") or row["value"])
                yield name, f"{row['what']}{f': {more}' if more else ''}{classes}", value, target, row["met"] == "True"


def _state() -> Iterator[Verdict]:
    rows = {(row["what"], row["case"], int(row["classes"]), int(row["rows"])): row for row in read_csv("state")}
    for what, case, classes, count, most in STATE:
        row = rows.get((what, case, classes, count))
        if row is not None:
            value, unit = float(row["value"]), "" if row["unit"] == "ratio" else f" {row['unit']}"
            name = f"{what}, {case}, c = {classes:,}, N = {count:,}"
            yield "state", name, value, f"<= {most:g}{unit}", value <= most


def _cleaning() -> Verdict:
    rows = read_csv("cleaning")
    means = {
        (who, name): sum(float(row["cpu_seconds"]) for row in rows if (row["who"], row["set"]) == (who, name))
        for who in ("permll", "cleanlab")
        for name in {row["set"] for row in rows}
    }
    worst = max(means["permll", name] / means["cleanlab", name] for name in {row["set"] for row in rows})
    return (
        "cleaning",
        "processor time of permll clean / cleanlab, the worst of seven sets",
        worst,
        "<= 0.333",
        worst <= 1 / 3,
    )


def table(found: Iterable[Verdict]) -> str:
    """Return the verdicts as Markdown."""
    lines = ["| measured | what | value | target | |", "|---|---|---:|---:|---|"]
    for name, what, value, target, met in found:
        lines.append(f"| {name} | {what} | {value:.3g} | {target} | {'met' if met else 'MISSED'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure what can be measured, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where CIFAR-10 is")
    parser.add_argument("--features", type=Path, help="features of CIFAR-100")
    parser.add_argument("--only-render", action="store_true")
    args = parser.parse_args()
    for name, needs in MEASURED.items():
        if args.only_render or (needs == "root" and args.root is None):
            continue
        more = ["--root", str(args.root)] if needs == "root" else []
        if name == "state":
            more = ["--features", str(args.features)] if args.features else ["--part", "speed"]
        print(f"# {name}", flush=True)
        subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *more], check=False)
        if more == ["--part", "speed"]:
            subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), "--part", "room"], check=False)
    found = list(verdicts())
    text = table(found)
    (RESULTS / "suite.md").write_text(text)
    print(text)
    return 0 if all(met for *_, met in found) else 1


if __name__ == "__main__":
    sys.exit(main())
