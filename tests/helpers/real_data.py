"""The real CIFAR files, unpacked once per test session from the folder of shared data."""

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from permll.data.datasets.mnist import DEBIAN

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_cifar(factory: pytest.TempPathFactory) -> Path:
    """Return a folder with cifar-10-batches-bin and cifar-100-binary/test.bin; workers of one session share it."""
    script = SHARED / "unpack_cifar.py"
    if not script.is_file():
        pytest.skip(f"the real CIFAR data are not at {SHARED}")
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


# When the files of Fashion-MNIST were packed. Debian's package has the same packed bytes without name and time.
_PACKED = {
    "train-images-idx3-ubyte": 1504176606,
    "train-labels-idx1-ubyte": 1504176606,
    "t10k-images-idx3-ubyte": 1504176627,
    "t10k-labels-idx1-ubyte": 1504176627,
}


def published_fashion() -> dict[str, bytes]:
    """Return Fashion-MNIST's files byte for byte as they are on the net, from those of Debian's package."""
    files = {}
    for name, packed in _PACKED.items():
        head = b"\x1f\x8b\x08\x08" + struct.pack("<IBB", packed, 0, 3) + name.encode() + b"\0"
        files[f"{name}.gz"] = head + (DEBIAN / f"{name}.gz").read_bytes()[10:]
    return files
