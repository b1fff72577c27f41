"""The demo with several values of ``correct_after``, as evidence for the default.

python benchmarks/correct_after.py     prints means and standard deviations and writes results/correct_after.csv
"""

import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import write_csv
from permll.demo import evaluate_correction, load_noisy_digits, train

SEEDS = range(5)
FRACTIONS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


def main() -> None:
    """Run every fraction on every seed."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for correct_after in FRACTIONS:
        for seed in SEEDS:
            data = load_noisy_digits(seed)
            *_, last = train(data, "permll", seed, correct_after=correct_after)
            assert last.layer is not None
            judged = {key: round(value, 4) for key, value in evaluate_correction(last.layer, data)._asdict().items()}
            rows.append({"correct_after": correct_after, "seed": seed, "last": round(last.accuracy[-1], 4), **judged})
        group = [row for row in rows if row["correct_after"] == correct_after]
        for key in ("last", "right_after", "precision", "recall"):
            values = [100 * float(str(row[key])) for row in group]
            print(
                f"{correct_after:4} {key:12} {statistics.mean(values):5.1f} +- {statistics.stdev(values):.1f}",
                flush=True,
            )
    print(f"wrote {write_csv('correct_after', rows)}")


if __name__ == "__main__":
    main()
