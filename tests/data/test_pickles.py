"""The reader of pickles reads what data files hold, and runs nothing."""

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

from permll.data.pickles import RefusedPickleError, read_pickle, read_torch

BATCH = {
    "data": np.arange(24, dtype=np.uint8).reshape(2, 12),
    "labels": [3, 7],
    "filenames": ["a.png", "b.png"],
    "batch_label": "training batch 1 of 5",
    "big": np.array([1, 2], dtype=">i8"),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


class Trap:
    """Touches a file when it is unpickled."""

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
def test_plain_values_and_arrays_are_read_in_every_protocol(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(BATCH, protocol=protocol))
    assert_same(read_pickle(path), BATCH)


def test_pickles_of_older_numpy_are_read(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(BATCH, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert_same(read_pickle(path), BATCH)


def test_a_pickle_of_python_2_is_read(tmp_path: Path) -> None:
    """Byte strings of Python 2, as in the released CIFAR batches: opcode U, a length and the bytes."""
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}q\x00U\x06labelsq\x01]q\x02(K\x03K\x07es.")
    assert read_pickle(path) == {"labels": [3, 7]}


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_saved_is_read(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "human.pt"
    labels = {"clean_label": np.arange(10), "worse_label": np.arange(10)[::-1].copy()}
    torch.save(labels, path, _use_new_zipfile_serialization=zipped)
    assert_same(read_torch(path), labels)


@pytest.mark.parametrize("where", ["alone", "in a dict", "in an array"])
@pytest.mark.parametrize("form", ["pickle", "torch zip", "torch old"])
def test_a_pickle_that_would_run_code_is_refused(form: str, where: str, tmp_path: Path) -> None:
    path, mark = tmp_path / "file", tmp_path / "it ran"
    trap: Any = Trap(mark)
    payload = {"alone": trap, "in a dict": {"labels": trap}, "in an array": np.array([trap], dtype=object)}[where]
    if form == "pickle":
        path.write_bytes(pickle.dumps(payload))
        with pytest.raises(RefusedPickleError, match=r"it asks for \w+\.mkdir|holds object"):
            read_pickle(path)
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch zip")
        with pytest.raises(RefusedPickleError, match=r"it asks for \w+\.mkdir|holds object"):
            read_torch(path)
    assert not mark.exists()
    pickle.loads(pickle.dumps(trap))  # the trap does work where it is let
    assert mark.exists()


@pytest.mark.parametrize("name", ["builtins.eval", "os.system", "numpy.load", "torch._utils._rebuild_tensor_v2"])
def test_no_other_name_is_to_be_had(name: str, tmp_path: Path) -> None:
    module, function = name.rsplit(".", 1)
    path = tmp_path / "file"
    path.write_bytes(f"c{module}\n{function}\n.".encode())
    with pytest.raises(RefusedPickleError, match=f"it asks for {name}"):
        read_pickle(path)


def dtype_opcodes(code: str) -> bytes:
    """Push a dtype and remember it as number 7."""
    return b"cnumpy\ndtype\n(U" + bytes([len(code)]) + code.encode() + b"K\x00K\x01tRq\x07"


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
ATTACKS = {
    "an array made of a pointer": b"cnumpy\nndarray\n(K\x01\x85U\x01OU\x08AAAAAAAAtR.",
    "an array of memory nobody wrote": b"cnumpy\nndarray\n(K\x14\x85U\x02u8tR.",
    "a type that grows under its array": ARRAY
    + b"(K\x01K\x01\x85"
    + dtype_opcodes("S8")
    + b"\x89U\x08AAAAAAAAtb0h\x07(K\x03U\x01|NNNM\x00\x01K\x01K\x00tb.",
    "a type of objects": dtype_opcodes("O") + b".",
    "a type with fields": dtype_opcodes("V8") + b".",
    "more shape than bytes": ARRAY + b"(K\x01M\xff\xff\x85" + dtype_opcodes("u8") + b"\x89U\x08AAAAAAAAtb.",
    "a negative shape": ARRAY + b"(K\x01J\xfe\xff\xff\xff\x85" + dtype_opcodes("u8") + b"\x89U\x08AAAAAAAAtb.",
    "no type at all": ARRAY + b"(K\x01K\x08\x85N\x89U\x08AAAAAAAAtb.",
    "a changed function": b"c_codecs\nencode\n}U\x0c__defaults__Nsb.",
    "a changed class": b"cnumpy\ndtype\n}U\x05valueNsb.",
    "a stand-in instead of a value": b"c_codecs\nencode\n.",
    "a memory of its own choice": b"\x80\x04]r\xff\xff\xff\x7f.",
    "a list in itself": b"]q\x00h\x00a.",
    "a nest": b"]" * 5000 + b"a" * 4999 + b".",
    "bytes in another encoding": b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00utf-7tR.",
    "a reference outside": b"K\x05Q.",
    "a registered extension": b"\x80\x02\x82\x01.",
    "an old instance": b"(ios\nsystem\n.",
}


@pytest.mark.parametrize("opcodes", ATTACKS.values(), ids=ATTACKS.keys())
def test_hand_made_pickles_neither_run_nor_reach_into_memory(opcodes: bytes, tmp_path: Path) -> None:
    """In a process of its own: what reaches into memory ends it."""
    path = tmp_path / "file"
    path.write_bytes(b"\x80\x02" + opcodes if not opcodes.startswith(b"\x80") else opcodes)
    code = (
        "import resource, sys; from pathlib import Path; from permll.data.pickles import *\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "try: read_pickle(Path(sys.argv[1]))\n"
        "except RefusedPickleError as refused: print(refused)"
    )
    shown = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(str(path)), "it was read"


def test_a_pickled_array_alone_is_read(tmp_path: Path) -> None:
    path = tmp_path / "array"
    path.write_bytes(pickle.dumps(np.arange(5)))
    np.testing.assert_array_equal(read_torch(path), np.arange(5))


def test_a_zip_file_that_is_none_of_torchs_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(RefusedPickleError, match=r"not one that torch\.save wrote"):
        read_torch(path)


def test_tensors_are_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "tensors.pt"
    torch.save({"labels": torch.arange(3)}, path)
    with pytest.raises(RefusedPickleError, match="was not read: it"):
        read_torch(path)


@pytest.mark.parametrize("keep", [0, 1, 20, 200])
def test_a_truncated_pickle_is_one_sentence(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(BATCH)[:keep])
    with pytest.raises(RefusedPickleError, match="is damaged or no pickle"):
        read_pickle(path)
