"""The demo with several seeds, for the README.

python benchmarks/demo.py       prints means and standard deviations and writes results/demo.csv
"""

import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import write_csv
from permll.demo import EPOCHS, METHODS, evaluate_correction, load_noisy_digits, train

SEEDS = range(5)


def main() -> None:
    """Run every method on every seed."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for seed in SEEDS:
        data = load_noisy_digits(seed)
        for method in METHODS:
            *_, last = train(data, method, seed)
            row: dict[str, object] = {"method": method, "seed": seed, "epochs": EPOCHS}
            row |= {"last": round(last.accuracy[-1], 4), "best": round(max(last.accuracy), 4)}
            judged = evaluate_correction(last.layer, data)._asdict() if last.layer is not None else {}
            row |= {key: round(value, 4) for key, value in judged.items()}
            rows.append(row)
    columns = max(rows, key=len)
    rows = [{key: row.get(key, "") for key in columns} for row in rows]
    for method in METHODS:
        group = [row for row in rows if row["method"] == method]
        for key in ("last", "best", "right_after", "precision", "recall"):
            values = [100 * float(str(row[key])) for row in group if row[key] != ""]
            if values:
                print(f"{method:7} {key:12} {statistics.mean(values):5.1f} +- {statistics.stdev(values):.1f}")
    print(f"wrote {write_csv('demo', rows)}")


if __name__ == "__main__":
    main()
