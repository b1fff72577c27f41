"""The reader of pickles reads what data files hold, and runs nothing."""

import os
import pickle
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
