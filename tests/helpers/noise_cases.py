"""Labels, files and strategies for the tests of label noise."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from permll.data import LabeledData, Vectors
from permll.noise import Noise, class_maps, corrupt
from permll.noise.cifar_n import LABEL_SETS, fine_to_coarse
from permll.noise.synthetic import asymmetric, from_matrix, symmetric

REAL_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LABELS = np.repeat(np.arange(10), 300)


def real_data(name: str) -> dict[str, Any]:
    """Return the arrays of a file of real data; skip the test if the file is missing."""
    path = REAL_DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files if not key.startswith(("x_", "q_", "text_"))}


def labeled_vectors(classes: int = 10, each: int = 20, name: str = "") -> LabeledData:
    """Random vectors with sorted labels, as a data set called ``name``."""
    labels = torch.arange(classes).repeat_interleave(each)
    ids = tuple(map(str, range(len(labels))))
    class_names = tuple(map(str, range(classes)))
    return LabeledData(Vectors(torch.rand(len(labels), 2)), labels, class_names, ids, {"name": name})


@st.composite
def noisy_cases(draw: st.DrawFn) -> tuple[np.ndarray, Noise, int]:
    """Unbalanced labels, any noise model, any seed."""
    c = draw(st.integers(2, 12))
    labels = np.array(draw(st.lists(st.integers(0, c - 1), min_size=1, max_size=200)))
    rate = draw(st.floats(0, 1))
    pick = draw(st.sampled_from(["coin", "exact", "per_class"]))
    kind = draw(st.sampled_from(["with", "without", "pair", "matrix"]))
    if kind == "matrix":
        raw = np.random.default_rng(draw(st.integers(0, 99))).random((c, c)) + 1e-3
        return labels, from_matrix(raw / raw.sum(1, keepdims=True)), draw(st.integers(0, 99))
    if kind == "pair":
        return labels, asymmetric(class_maps.next_class(c), c, rate, pick=pick), draw(st.integers(0, 99))
    return labels, symmetric(c, rate, include_true=kind == "with", pick=pick), draw(st.integers(0, 99))


def fine_labels(which: str, each: int) -> np.ndarray:
    """Shuffled fine labels of the training set that a CIFAR-N label set belongs to."""
    c = 10 if LABEL_SETS[which].data_set == "cifar10n" else 100
    return np.random.default_rng(0).permutation(np.repeat(np.arange(c), each))


def write_cifar_n(path: Path, which: str, fine: np.ndarray, wrong: int, **more: Any) -> tuple[np.ndarray, np.ndarray]:
    """Write a CIFAR-N file whose first ``wrong`` labels are one too high; return clean and noisy labels."""
    label_set = LABEL_SETS[which]
    clean = fine_to_coarse()[fine] if which == "coarse" else fine
    noisy = clean.copy()
    noisy[:wrong] = (noisy[:wrong] + 1) % label_set.num_classes
    torch.save({"clean_label": fine, label_set.key: noisy, **more}, path)
    return clean, noisy


class MakesFolder:
    """Malicious pickle: creates a folder when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def write_labels(path: Path, content: Any) -> Path:
    """Write a label file in the format of its suffix."""
    if path.suffix == ".npz":
        np.savez(path, **content)
    elif path.suffix == ".npy":
        np.save(path, content)
    else:
        path.write_bytes(content.encode())
    return path


def write_record(folder: Path, **changes: object) -> Path:
    """Write a noise record with ``changes`` to its arrays or its description; "missing" removes an entry."""
    record = corrupt(LABELS, "sym:0.4", seed=0)
    about = {"num_classes": 10, "seed": 0, "noise": record.noise, "hash": record.hash}
    arrays = {"clean": record.clean, "noisy": record.noisy}
    about |= {key: value for key, value in changes.items() if key in about}
    arrays |= {key: value for key, value in changes.items() if key in arrays}
    about = {key: value for key, value in about.items() if value != "missing"}
    np.savez(folder / "noise.npz", about=np.array(changes.get("about", json.dumps(about))), **arrays)
    return folder / "noise.npz"
