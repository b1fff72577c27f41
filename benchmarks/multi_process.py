"""What a second rank brings and costs: steps a second, bytes exchanged, bytes of state, checkpoints.

python benchmarks/multi_process.py      prints a table and writes results/multi_process.csv

One and two ranks take turns of some steps, each rank with one thread: on a machine with two cores that are otherwise
idle. A turn is long enough for a second core to wake up.
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
# An epoch has more steps than are measured.
IMAGES = {"kind": "images", "rows": 16_000, "classes": 10, "steps": 25, "rounds": ROUNDS}
MANY = {"kind": "vectors", "rows": 100_000, "classes": 1000, "steps": 50, "rounds": ROUNDS}
CASES: dict[str, dict[str, Any]] = {
    "resnet8, 10 classes: ce": {**IMAGES, "method": "ce", "placement": "auto"},
    "resnet8, 10 classes: permll, replicated": {**IMAGES, "method": "permll", "placement": "replicated"},
    "resnet8, 10 classes: permll, sharded": {**IMAGES, "method": "permll", "placement": "sharded"},
    "resnet8, 10 classes: co_teaching": {**IMAGES, "method": "co_teaching", "placement": "auto", "steps": 10},
    "mlp, 1,000 classes: permll, replicated": {**MANY, "method": "permll", "placement": "replicated"},
    "mlp, 1,000 classes: permll, sharded": {**MANY, "method": "permll", "placement": "sharded"},
}
TARGETS = {"resnet8, 10 classes: ce": 1.2, "resnet8, 10 classes: permll, sharded": 1.2}


def on_two_ranks() -> list[dict[str, Any]]:
    """Return what is measured of every case."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(ROOT / "benchmarks" / "on_ranks.py")]
    done = subprocess.run([*command, json.dumps(list(CASES.values()))], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure everything; leave with 1 if a target is missed."""
    rows = []
    for (name, case), found in zip(CASES.items(), on_two_ranks(), strict=True):
        ratios = sorted(one / two for one, two in zip(found["ones"], found["twos"], strict=True))
        speed, target = statistics.median(ratios), TARGETS.get(name)
        rows.append(
            {
                "what": name,
                "rows": case["rows"],
                "classes": case["classes"],
                "batch": BATCH,
                "images_per_second_1_rank": round(BATCH / statistics.median(found["ones"])),
                "images_per_second_2_ranks": round(BATCH / statistics.median(found["twos"])),
                "ratio_median": round(speed, 3),
                "ratio_low": round(ratios[0], 3),
                "ratio_high": round(ratios[-1], 3),
                "rounds": case["rounds"],
                "target": target,
                "met": None if target is None else speed >= target,
                "bytes_per_step_and_rank": round(found["bytes"]),
                "of_these_gradients": round(found["weights"]),
                "state_bytes_1_rank": round(found["state_1"]),
                "state_bytes_per_rank_of_2": round(found["state_2"]),
                "checkpoint_seconds_1_rank": round(found["checkpoint_seconds_1"], 3),
                "checkpoint_seconds_2_ranks": round(found["checkpoint_seconds_2"], 3),
                "checkpoint_bytes": round(found["checkpoint_bytes_2"]),
            }
        )
        state = found["state_2"]
        print(f"{name:45s} {speed:.2f} x  {found['bytes']:12,.0f} B/step  {state:12,.0f} B of state", flush=True)
    write_csv("ranks", rows)
    return 0 if all(row["met"] is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
