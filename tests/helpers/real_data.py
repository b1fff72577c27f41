"""Real CIFAR and Fashion-MNIST files, if they are available."""

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from permll.data.datasets.mnist import DEBIAN_FOLDER

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_cifar(factory: pytest.TempPathFactory) -> Path:
    """Return a folder with cifar-10-batches-bin and cifar-100-binary/test.bin, extracted once per test session."""
    script = SHARED / "unpack_cifar.py"
    if not script.is_file():
        pytest.skip(f"the real CIFAR data is not in {SHARED}")
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    out, done = base / "cifar", base / "cifar.done"
    with (base / "cifar.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, script, out], check=True, timeout=120)
            done.touch()
    return out


# Time stamps of the published gzip files. Debian's package has the same compressed bytes without name and time.
_TIMES = {
    "train-images-idx3-ubyte": 1504176606,
    "train-labels-idx1-ubyte": 1504176606,
    "t10k-images-idx3-ubyte": 1504176627,
    "t10k-labels-idx1-ubyte": 1504176627,
}


def published_fashion() -> dict[str, bytes]:
    """Return the published files of Fashion-MNIST, byte for byte, from those of Debian's package."""
    files = {}
    for name, time in _TIMES.items():
        head = b"\x1f\x8b\x08\x08" + struct.pack("<IBB", time, 0, 3) + name.encode() + b"\0"
        files[f"{name}.gz"] = head + (DEBIAN_FOLDER / f"{name}.gz").read_bytes()[10:]
    return files
