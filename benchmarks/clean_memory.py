"""Peak memory of ``permll clean`` on a million samples with 64 features, without that of the imports.

python benchmarks/clean_memory.py      prints a line and writes results/clean_memory.csv
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import write_csv

ROWS, FEATURES, CLASSES = 1_000_000, 64, 10
TARGET = 12.0  # times the size of the features


def peak_memory(*command: str) -> float:
    """Return the peak memory in bytes of the largest process started so far; start small ones first."""
    subprocess.run(
        [sys.executable, *command], check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def main() -> int:
    """Measure; return exit code 1 if the target is missed."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    values = (rng.normal(size=(CLASSES, FEATURES))[labels] + rng.normal(size=(ROWS, FEATURES))).astype(np.float32)
    wrong = rng.random(ROWS) < 0.1
    labels[wrong] = rng.integers(0, CLASSES, int(wrong.sum()))
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "features.npz", X=values, y=labels)
        size = values.nbytes
        del values
        imports = peak_memory("-c", "import permll.training.train, lightning_fabric, sklearn")
        start = time.perf_counter()
        out = str(Path(folder) / "run")
        peak = peak_memory("-m", "permll", "clean", str(Path(folder) / "features.npz"), "--out", out)
        seconds = time.perf_counter() - start
    ratio = (peak - imports) / size
    row: dict[str, object] = {
        "what": "peak memory of permll clean / bytes of features",
        "rows": ROWS,
        "features": FEATURES,
    }
    row |= {
        "classes": CLASSES,
        "bytes_of_features": size,
        "bytes_of_interpreter": round(imports),
        "bytes_peak": round(peak),
    }
    row |= {"seconds": round(seconds), "ratio_median": round(ratio, 2), "target": TARGET, "met": ratio <= TARGET}
    print(f"{row['what']}: {ratio:.1f} (<= {TARGET:g}), {peak / 2**30:.2f} GiB, {seconds:.0f} s")
    write_csv("clean_memory", [row])
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
