"""Time and memory of ``find_label_errors``, beside cleanlab's ``find_label_issues`` in one process.

python benchmarks/label_errors.py      prints the rows and writes results/label_errors.csv

Memory is that beside labels and probabilities. Requires cleanlab and Linux.
"""

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import measure, ratio, write_csv
from permll import find_label_errors

SIZES = ((50_000, 10), (50_000, 100))
LARGE = (1_000_000, 10)
ROUNDS = 7
MAX_RATIO, MAX_SECONDS, MAX_MEMORY = 5.0, 1.0, 3.0
CHILD = """
import sys, time
from pathlib import Path
import numpy as np
from permll import find_label_errors
def memory(name):
    return next(1024 * int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(name))
labels, probs = np.load(sys.argv[1]), np.load(sys.argv[2])
find_label_errors(labels[:1000], np.array(probs[:1000]))
Path("/proc/self/clear_refs").write_text("5")  # resets the peak
before = memory("VmRSS")
seconds = []
for _ in range(3):
    start = time.perf_counter()
    find_label_errors(labels, probs)
    seconds.append(time.perf_counter() - start)
print(min(seconds), memory("VmHWM") - before)
"""


def simulate(rows: int, classes: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return labels, a fifth of them random, and probabilities of a classifier that is right for most rows."""
    generator = np.random.default_rng(0)
    truth = generator.integers(classes, size=rows)
    logits = 1.5 * generator.standard_normal((rows, classes), dtype=np.float32)
    logits[np.arange(rows), truth] += 4
    probs = np.exp(logits - logits.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    labels = np.where(generator.random(rows) < 0.2, generator.integers(classes, size=rows), truth)
    labels[:classes] = np.arange(classes)
    return labels, probs


def main() -> int:
    """Measure; return exit code 1 if a target is missed."""
    from cleanlab.filter import find_label_issues

    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for size in SIZES:
        labels, probs = simulate(*size)
        by_cleanlab = partial(find_label_issues, return_indices_ranked_by="self_confidence", n_jobs=1)
        candidates = {
            "permll": partial(find_label_errors, labels, probs),
            "cleanlab": partial(by_cleanlab, labels, probs),
        }
        seconds = measure(candidates, ROUNDS)
        value = ratio(seconds["permll"], seconds["cleanlab"]).median
        rows.append(_row("time: find_label_errors / cleanlab", size, value, MAX_RATIO))
    labels, probs = simulate(*LARGE)
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("labels.npy", "probs.npy")]
        np.save(paths[0], labels)
        np.save(paths[1], probs)
        printed = subprocess.run([sys.executable, "-c", CHILD, *paths], check=True, capture_output=True, text=True)
    best, memory = map(float, printed.stdout.split())
    rows.append(_row("seconds of find_label_errors", LARGE, best, MAX_SECONDS))
    rows.append(
        _row(
            "memory of find_label_errors / bytes of its input",
            LARGE,
            memory / (probs.nbytes + labels.nbytes),
            MAX_MEMORY,
        )
    )
    write_csv("label_errors", rows)
    for row in rows:
        print(*row.values())
    return 0 if all(row["met"] for row in rows) else 1


def _row(what: str, size: tuple[int, int], value: float, target: float) -> dict[str, object]:
    case = f"{size[0]:,} x {size[1]}"
    return {"what": what, "case": case, "ratio_median": f"{value:.3f}", "target": target, "met": value <= target}


if __name__ == "__main__":
    sys.exit(main())
