"""The pickle reader reads data files and never runs code."""

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from permll.data.pickles import UnsafePickleError, read_pickle, read_torch

BATCH = {
    "data": np.arange(24, dtype=np.uint8).reshape(2, 12),
    "labels": [3, 7],
    "filenames": ["a.png", "b.png"],
    "batch_label": "training batch 1 of 5",
    "big": np.array([1, 2], dtype=">i8"),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def assert_same(read: Any, written: Any) -> None:
    assert read.keys() == written.keys()
    for key, value in written.items():
        np.testing.assert_array_equal(read[key], value)
        if isinstance(value, np.ndarray):
            assert (read[key].dtype.kind, read[key].itemsize) == (value.dtype.kind, value.itemsize)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_read_pickle_reads_values_and_arrays_of_every_protocol(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(BATCH, protocol=protocol))
    assert_same(read_pickle(path), BATCH)


def test_read_pickle_reads_old_numpy(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(BATCH, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert_same(read_pickle(path), BATCH)


def test_read_pickle_reads_python_2(tmp_path: Path) -> None:
    """Byte strings of Python 2, as in the released CIFAR batches: opcode U, a length and the bytes."""
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}q\x00U\x06labelsq\x01]q\x02(K\x03K\x07es.")
    assert read_pickle(path) == {"labels": [3, 7]}


@pytest.mark.parametrize("zipped", [True, False])
def test_read_torch_reads_both_formats(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "human.pt"
    labels = {"clean_label": np.arange(10), "worse_label": np.arange(10)[::-1].copy()}
    torch.save(labels, path, _use_new_zipfile_serialization=zipped)
    assert_same(read_torch(path), labels)


@pytest.mark.parametrize("where", ["alone", "in a dict", "in an array"])
@pytest.mark.parametrize("form", ["pickle", "torch zip", "torch old"])
def test_read_pickle_rejects_code(form: str, where: str, tmp_path: Path) -> None:
    path, mark = tmp_path / "file", tmp_path / "it ran"
    trap: Any = Trap(mark)
    payload = {"alone": trap, "in a dict": {"labels": trap}, "in an array": np.array([trap], dtype=object)}[where]
    if form == "pickle":
        path.write_bytes(pickle.dumps(payload))
        with pytest.raises(UnsafePickleError, match=r"it uses \w+\.mkdir|holds object"):
            read_pickle(path)
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch zip")
        with pytest.raises(UnsafePickleError, match=r"it uses \w+\.mkdir|holds object"):
            read_torch(path)
    assert not mark.exists()
    pickle.loads(pickle.dumps(trap))  # the trap works
    assert mark.exists()


@pytest.mark.parametrize("name", ["builtins.eval", "os.system", "numpy.load", "torch._utils._rebuild_tensor_v2"])
def test_read_pickle_rejects_other_names(name: str, tmp_path: Path) -> None:
    module, function = name.rsplit(".", 1)
    path = tmp_path / "file"
    path.write_bytes(f"c{module}\n{function}\n.".encode())
    with pytest.raises(UnsafePickleError, match=f"it uses {name}"):
        read_pickle(path)


def dtype_opcodes(code: str) -> bytes:
    """Return opcodes that push a dtype and store it in the memo as number 7."""
    return b"cnumpy\ndtype\n(U" + bytes([len(code)]) + code.encode() + b"K\x00K\x01tRq\x07"


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
ATTACKS = {
    "array from a pointer": b"cnumpy\nndarray\n(K\x01\x85U\x01OU\x08AAAAAAAAtR.",
    "array of uninitialized memory": b"cnumpy\nndarray\n(K\x14\x85U\x02u8tR.",
    "dtype that grows": ARRAY
    + b"(K\x01K\x01\x85"
    + dtype_opcodes("S8")
    + b"\x89U\x08AAAAAAAAtb0h\x07(K\x03U\x01|NNNM\x00\x01K\x01K\x00tb.",
    "dtype of objects": dtype_opcodes("O") + b".",
    "dtype with fields": dtype_opcodes("V8") + b".",
    "more shape than bytes": ARRAY + b"(K\x01M\xff\xff\x85" + dtype_opcodes("u8") + b"\x89U\x08AAAAAAAAtb.",
    "a negative shape": ARRAY + b"(K\x01J\xfe\xff\xff\xff\x85" + dtype_opcodes("u8") + b"\x89U\x08AAAAAAAAtb.",
    "no dtype": ARRAY + b"(K\x01K\x08\x85N\x89U\x08AAAAAAAAtb.",
    "a changed function": b"c_codecs\nencode\n}U\x0c__defaults__Nsb.",
    "a changed class": b"cnumpy\ndtype\n}U\x05valueNsb.",
    "a stand-in instead of a value": b"c_codecs\nencode\n.",
    "huge memo index": b"\x80\x04]r\xff\xff\xff\x7f.",
    "recursive list": b"]q\x00h\x00a.",
    "deep nesting": b"]" * 5000 + b"a" * 4999 + b".",
    "bytes in another encoding": b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00utf-7tR.",
    "persistent id": b"K\x05Q.",
    "extension code": b"\x80\x02\x82\x01.",
    "old-style instance": b"(ios\nsystem\n.",
}


@pytest.mark.parametrize("opcodes", ATTACKS.values(), ids=ATTACKS.keys())
def test_read_pickle_survives_hostile_pickles(opcodes: bytes, tmp_path: Path) -> None:
    """Run in a separate process, which an invalid memory access would kill."""
    path = tmp_path / "file"
    path.write_bytes(b"\x80\x02" + opcodes if not opcodes.startswith(b"\x80") else opcodes)
    code = (
        "import resource, sys; from pathlib import Path; from permll.data.pickles import *\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "try: read_pickle(Path(sys.argv[1]))\n"
        "except UnsafePickleError as error: print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(str(path)), "it was read"


def test_read_pickle_reads_single_array(tmp_path: Path) -> None:
    path = tmp_path / "array"
    path.write_bytes(pickle.dumps(np.arange(5)))
    np.testing.assert_array_equal(read_torch(path), np.arange(5))


def test_read_torch_rejects_other_zip_files(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(UnsafePickleError, match=r"not one of torch\.save"):
        read_torch(path)


def test_read_torch_rejects_tensors(tmp_path: Path) -> None:
    path = tmp_path / "tensors.pt"
    torch.save({"labels": torch.arange(3)}, path)
    with pytest.raises(UnsafePickleError, match="was rejected, since it may run code: it"):
        read_torch(path)


@pytest.mark.parametrize("keep", [0, 1, 20, 200])
def test_read_pickle_rejects_truncated_file(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(BATCH)[:keep])
    with pytest.raises(UnsafePickleError, match="is damaged or not a pickle"):
        read_pickle(path)
