"""Two processes compared with one: steps per second, bytes exchanged, bytes of state, checkpoints.

python benchmarks/multi_process.py      prints a table and writes results/multi_process.csv

Runs of one and of two processes alternate every few steps, with one thread per process; the machine needs two idle
cores.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.multi_process_worker import BATCH
from benchmarks.timing import write_csv

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 4
# Epochs are longer than the measured steps.
IMAGES = {"kind": "images", "rows": 16_000, "classes": 10, "steps": 25, "rounds": ROUNDS}
MANY_CLASSES = {"kind": "vectors", "rows": 100_000, "classes": 1000, "steps": 50, "rounds": ROUNDS}
CASES: dict[str, dict[str, Any]] = {
    "resnet8, 10 classes: ce": {**IMAGES, "method": "ce", "placement": "auto"},
    "resnet8, 10 classes: permll, replicated": {**IMAGES, "method": "permll", "placement": "replicated"},
    "resnet8, 10 classes: permll, sharded": {**IMAGES, "method": "permll", "placement": "sharded"},
    "resnet8, 10 classes: co_teaching": {**IMAGES, "method": "co_teaching", "placement": "auto", "steps": 10},
    "mlp, 1,000 classes: permll, replicated": {**MANY_CLASSES, "method": "permll", "placement": "replicated"},
    "mlp, 1,000 classes: permll, sharded": {**MANY_CLASSES, "method": "permll", "placement": "sharded"},
}
TARGETS = {"resnet8, 10 classes: ce": 1.2, "resnet8, 10 classes: permll, sharded": 1.2}


def measure_cases() -> list[dict[str, Any]]:
    """Return the measurements of all cases, in two processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += [
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "localhost:0",
        str(ROOT / "benchmarks" / "multi_process_worker.py"),
    ]
    process = subprocess.run([*command, json.dumps(list(CASES.values()))], capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr[-3000:])
    results: list[dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return results


def main() -> int:
    """Measure everything; return exit code 1 if a target is missed."""
    rows = []
    for (name, case), result in zip(CASES.items(), measure_cases(), strict=True):
        ratios = sorted(one / two for one, two in zip(result["ones"], result["twos"], strict=True))
        speed, target = statistics.median(ratios), TARGETS.get(name)
        rows.append(
            {
                "what": name,
                "rows": case["rows"],
                "classes": case["classes"],
                "batch": BATCH,
                "images_per_second_1_rank": round(BATCH / statistics.median(result["ones"])),
                "images_per_second_2_ranks": round(BATCH / statistics.median(result["twos"])),
                "ratio_median": round(speed, 3),
                "ratio_low": round(ratios[0], 3),
                "ratio_high": round(ratios[-1], 3),
                "rounds": case["rounds"],
                "target": target,
                "met": None if target is None else speed >= target,
                "bytes_per_step_and_rank": round(result["bytes"]),
                "of_these_gradients": round(result["weights"]),
                "state_bytes_1_rank": round(result["state_1"]),
                "state_bytes_per_rank_of_2": round(result["state_2"]),
                "checkpoint_seconds_1_rank": round(result["checkpoint_seconds_1"], 3),
                "checkpoint_seconds_2_ranks": round(result["checkpoint_seconds_2"], 3),
                "checkpoint_bytes": round(result["checkpoint_bytes_2"]),
            }
        )
        state = result["state_2"]
        print(f"{name:45s} {speed:.2f} x  {result['bytes']:12,.0f} B/step  {state:12,.0f} B of state", flush=True)
    write_csv("multi_process", rows)
    return 0 if all(row["met"] is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
