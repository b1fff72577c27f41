"""CIFAR-N files: label sets, checks against the data set, and refused files."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from permll.noise import read_cifar_n
from permll.noise.cifar_n import LABEL_SETS, fine_to_coarse
from tests.helpers.noise_cases import MakesFolder, fine_labels, write_cifar_n

# Number of wrong labels among 50,000 in the released files.
WRONG = {
    "aggre": 4505,
    "random1": 8617,
    "random2": 9061,
    "random3": 8820,
    "worst": 20104,
    "fine": 20100,
    "coarse": 13202,
}


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("which", LABEL_SETS)
def test_cifar_n_reads_label_set_by_name_and_key(which: str, by_key: bool, tmp_path: Path) -> None:
    path = tmp_path / "human.pt"
    clean, noisy = write_cifar_n(path, which, fine_labels(which, 20), 30)
    record = read_cifar_n(path, LABEL_SETS[which].key if by_key else which, clean.tolist())
    assert (record.noisy == noisy).all()
    assert (record.clean == clean).all()
    assert record.changed.sum() == 30
    assert (record.num_classes, record.seed) == (LABEL_SETS[which].num_classes, None)
    assert record.noise["name"] == f"{LABEL_SETS[which].data_set}:{which}"
    loaded = type(record).load(record.save(tmp_path / "noise.npz"))
    assert (loaded.seed, loaded.noise, loaded.hash) == (None, record.noise, record.hash)


@pytest.mark.parametrize("which", LABEL_SETS)
def test_cifar_n_accepts_released_rates_without_warning(which: str, tmp_path: Path) -> None:
    fine = fine_labels(which, 5000 if LABEL_SETS[which].data_set == "cifar10n" else 500)
    clean, _ = write_cifar_n(tmp_path / "human.pt", which, fine, WRONG[which])
    assert read_cifar_n(tmp_path / "human.pt", which, clean).rate == WRONG[which] / 50_000


def test_cifar_n_warns_of_other_rate(tmp_path: Path) -> None:
    clean, _ = write_cifar_n(tmp_path / "human.pt", "worst", fine_labels("worst", 5000), WRONG["worst"] + 10)
    with pytest.warns(UserWarning, match=r"human\.pt: 40\.23 % of worse_label are wrong, but 40\.21 %") as caught:
        record = read_cifar_n(tmp_path / "human.pt", "worst", clean)
    assert record.changed.sum() == WRONG["worst"] + 10
    assert caught[0].filename == __file__


def test_cifar_n_derives_superclasses_from_fine_labels(tmp_path: Path) -> None:
    fine = fine_labels("coarse", 20)
    zeros = np.zeros_like(fine)
    clean, noisy = write_cifar_n(tmp_path / "human.pt", "coarse", fine, 100, clean_coarse_label=zeros)
    record = read_cifar_n(tmp_path / "human.pt", "coarse", clean)
    assert (record.noisy == noisy).all()
    assert record.changed.sum() == 100
    with pytest.raises(ValueError, match=r"labels lie outside 0\.\.19"):
        read_cifar_n(tmp_path / "human.pt", "coarse", fine)


def test_cifar_n_refuses_faulty_coarse_labels(tmp_path: Path) -> None:
    fine = fine_labels("coarse", 20)
    faulty = np.array([1, 4, 7, 9, 10, 12, 14, 15, 16, 17, 18, 19])[fine % 12]
    torch.save({"clean_label": fine, "noisy_coarse_label": faulty}, tmp_path / "human.pt")
    with pytest.raises(
        ValueError, match=r"have only 12 of the 20 superclasses, .* before March 2023: download the file again"
    ):
        read_cifar_n(tmp_path / "human.pt", "coarse", fine_to_coarse()[fine])


def test_cifar_n_refuses_other_order(tmp_path: Path) -> None:
    clean, _ = write_cifar_n(tmp_path / "human.pt", "worst", fine_labels("worst", 20), 30)
    swapped = clean.copy()
    at = int(np.flatnonzero(clean != clean[5])[0])
    swapped[[5, at]] = swapped[[at, 5]]
    with pytest.raises(
        ValueError, match=rf"differ from the data set's at 2 positions \({at}, 5\).*TensorFlow Datasets"
    ):
        read_cifar_n(tmp_path / "human.pt", "worst", swapped)
    with pytest.raises(ValueError, match=r"differ from the data set's at 1\d\d positions \((\d+, ){10}\.\.\.\)"):
        read_cifar_n(tmp_path / "human.pt", "worst", np.roll(clean, 1))
    with pytest.raises(
        ValueError, match=r"has 200 labels, but the data set has 180: read the labels of the full training set"
    ):
        read_cifar_n(tmp_path / "human.pt", "worst", clean[:180])


@pytest.mark.parametrize("form", ["pickle", "torch zip", "torch old"])
def test_cifar_n_refuses_file_with_code(form: str, tmp_path: Path) -> None:
    path, mark = tmp_path / "CIFAR-10_human.pt", tmp_path / "it ran"
    payload = {"clean_label": np.arange(10), "worse_label": MakesFolder(mark)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(payload))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch zip")
    with pytest.raises(ValueError, match=r"CIFAR-10_human\.pt was rejected, since it may run code: it uses \w+\.mkdir"):
        read_cifar_n(path, "worst", np.arange(10))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "which", "message"),
    [
        (
            {"clean_label": np.arange(10)},
            "worst",
            r"has no worse_label, which label set worst needs; it holds clean_label\.",
        ),
        ({"worse_label": np.arange(10)}, "worst", r"has no clean_label, which label set worst needs"),
        ([1, 2], "worst", r"holds a list, not the label sets of a CIFAR-N file"),
        ({"clean_label": np.arange(10), "worse_label": np.arange(9)}, "worst", r"damaged: 10 labels in clean_label, 9"),
        (
            {"clean_label": np.arange(10), "worse_label": np.arange(1, 11)},
            "worst",
            r"worse_label is invalid: .* the first is 10",
        ),
        (
            {"clean_label": np.arange(10), "worse_label": "many"},
            "worst",
            r"worse_label is invalid: .* must be whole numbers",
        ),
        ({}, "wurst", r"unknown CIFAR-N label set 'wurst', did you mean worst\? Available: aggre, random1"),
        ({}, "xyz", r"unknown CIFAR-N label set 'xyz'\. Available: aggre"),
    ],
)
def test_cifar_n_error_is_one_sentence(content: Any, which: str, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "human.pt")
    with pytest.raises(ValueError, match=message) as caught:
        read_cifar_n(tmp_path / "human.pt", which, np.arange(10))
    assert "\n" not in str(caught.value)


def test_cifar_n_refuses_tensorflow_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "CIFAR-10_human_ordered.npy"
    np.save(path, np.arange(10))
    with pytest.raises(FileNotFoundError, match=r"CIFAR-N file .*none\.pt does not exist"):
        read_cifar_n(tmp_path / "none.pt", "worst", np.arange(10))
    with pytest.raises(ValueError, match=r"_ordered\.npy is in the order of TensorFlow Datasets: use the \.pt file"):
        read_cifar_n(path, "worst", np.arange(10))
