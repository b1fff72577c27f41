"""All speed and memory benchmarks, as one table of ratios and targets.

python benchmarks/suite.py [--root ROOT] [--features FEATURES]     measures, and writes results/*.csv
python benchmarks/suite.py --only-render                           measures nothing

Input and training need CIFAR-10 in ROOT; without it, and without FEATURES of CIFAR-100, the existing numbers are kept.
Exits with 1 if a target is missed. Candidates alternate within a run, so other processes affect them equally; only
multi_process needs two idle cores.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, read_csv

Verdict = tuple[str, str, float, str, bool]  # file, description, value, target, whether the target is met
FOLDER = Path(__file__).resolve().parent
# Benchmarks, and the option that each requires.
BENCHMARKS = {
    "layer": "",
    "sample_state": "",
    "multi_process": "",
    "clean_memory": "",
    "label_errors": "",
    "input": "root",
    "training": "root",
}
# Of sample_state.csv: what, case, classes, rows, and maximum value.
SAMPLE_STATE_TARGETS = (
    ("step: N rows / 10^4 rows", "dense", 100, 10_000_000, 1.2),
    ("step: N rows / 10^4 rows", "top_k=16", 100, 10_000_000, 1.2),
    ("step: layer / cross-entropy", "top_k=16", 21_000, 1_000_000, 2.0),
    ("memory of the table", "top_k=16", 21_000, 1_000_000, 1000.0),
)
HIGHER_IS_BETTER = ("dense form / layer", "images/s", "plain loop", "resnet8, 10 classes")


def verdicts() -> Iterator[Verdict]:
    """Yield all numbers that have a target."""
    for name in (*BENCHMARKS, "cleaning"):
        if not (RESULTS / f"{name}.csv").is_file():
            continue
        if name == "cleaning":
            yield _cleaning_verdict()
            continue
        if name == "sample_state":
            yield from _sample_state_verdicts()
            continue
        for row in read_csv(name):
            if row.get("target"):
                case = ", ".join(row[key] for key in ("net", "network", "case") if row.get(key))
                classes = f", c = {int(row['classes']):,}" if row.get("classes") and name == "layer" else ""
                is_minimum = row["what"].startswith(HIGHER_IS_BETTER)
                target = f"{'>=' if is_minimum else '<='} {float(row['target']):g}"
                value = float(row.get("ratio_median") or row["value"])
                yield name, f"{row['what']}{f': {case}' if case else ''}{classes}", value, target, row["met"] == "True"


def _sample_state_verdicts() -> Iterator[Verdict]:
    rows = {(row["what"], row["case"], int(row["classes"]), int(row["rows"])): row for row in read_csv("sample_state")}
    for what, case, classes, count, maximum in SAMPLE_STATE_TARGETS:
        row = rows.get((what, case, classes, count))
        if row is not None:
            value, unit = float(row["value"]), "" if row["unit"] == "ratio" else f" {row['unit']}"
            name = f"{what}, {case}, c = {classes:,}, N = {count:,}"
            yield "sample_state", name, value, f"<= {maximum:g}{unit}", value <= maximum


def _cleaning_verdict() -> Verdict:
    rows = read_csv("cleaning")
    means = {
        (who, name): sum(float(row["cpu_seconds"]) for row in rows if (row["who"], row["set"]) == (who, name))
        for who in ("permll", "cleanlab")
        for name in {row["set"] for row in rows}
    }
    worst = max(means["permll", name] / means["cleanlab", name] for name in {row["set"] for row in rows})
    return (
        "cleaning",
        "processor time of permll clean / cleanlab, the worst set",
        worst,
        "<= 0.333",
        worst <= 1 / 3,
    )


def table(results: Iterable[Verdict]) -> str:
    """Return the verdicts as Markdown."""
    lines = ["| measured | what | value | target | |", "|---|---|---:|---:|---|"]
    for name, what, value, target, met in results:
        lines.append(f"| {name} | {what} | {value:.3g} | {target} | {'met' if met else 'MISSED'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the benchmarks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="folder of CIFAR-10")
    parser.add_argument("--features", type=Path, help="features of CIFAR-100")
    parser.add_argument("--only-render", action="store_true")
    args = parser.parse_args()
    for name, needs in BENCHMARKS.items():
        if args.only_render or (needs == "root" and args.root is None):
            continue
        options = [["--root", str(args.root)] if needs == "root" else []]
        if name == "sample_state":
            by_part = [["--part", part] for part in ("speed", "memory")]
            options = [["--features", str(args.features)]] if args.features else by_part
        print(f"# {name}", flush=True)
        for words in options:
            subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *words], check=False)
    results = list(verdicts())
    text = table(results)
    (RESULTS / "suite.md").write_text(text)
    print(text)
    return 0 if all(met for *_, met in results) else 1


if __name__ == "__main__":
    sys.exit(main())
