"""The CIFAR-N files: what they say, for whom they are, and what is refused."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from permll.noise import human_labels
from permll.noise.human import SETS, superclasses

# Wrong labels among 50,000 in the released files.
WRONG = {
    "aggre": 4505,
    "random1": 8617,
    "random2": 9061,
    "random3": 8820,
    "worst": 20104,
    "fine": 20100,
    "coarse": 13202,
}


def labels_of(which: str, each: int) -> np.ndarray:
    """Fine classes of a training part, shuffled."""
    c = 10 if SETS[which].data_set == "cifar10n" else 100
    return np.random.default_rng(0).permutation(np.repeat(np.arange(c), each))


def human_file(path: Path, which: str, fine: np.ndarray, wrong: int, **more: Any) -> tuple[np.ndarray, np.ndarray]:
    """Write a file in which the first ``wrong`` labels are one too high; return the caller's labels and the noisy."""
    clean = superclasses()[fine] if which == "coarse" else fine
    noisy = clean.copy()
    noisy[:wrong] = (noisy[:wrong] + 1) % SETS[which].num_classes
    torch.save({"clean_label": fine, SETS[which].key: noisy, **more}, path)
    return clean, noisy


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("which", SETS)
def test_every_set_is_read_by_name_and_by_key(which: str, by_key: bool, tmp_path: Path) -> None:
    path = tmp_path / "human.pt"
    clean, noisy = human_file(path, which, labels_of(which, 20), 30)
    record = human_labels(path, SETS[which].key if by_key else which, clean.tolist())
    assert (record.noisy == noisy).all()
    assert (record.clean == clean).all()
    assert record.changed.sum() == 30
    assert (record.num_classes, record.seed) == (SETS[which].num_classes, None)
    assert record.noise["name"] == f"{SETS[which].data_set}:{which}"
    loaded = type(record).load(record.save(tmp_path / "noise.npz"))
    assert (loaded.seed, loaded.noise, loaded.hash) == (None, record.noise, record.hash)


@pytest.mark.parametrize("which", SETS)
def test_the_released_rates_pass_without_a_word(which: str, tmp_path: Path) -> None:
    fine = labels_of(which, 5000 if SETS[which].data_set == "cifar10n" else 500)
    clean, _ = human_file(tmp_path / "human.pt", which, fine, WRONG[which])
    assert human_labels(tmp_path / "human.pt", which, clean).rate == WRONG[which] / 50_000


def test_another_rate_is_told(tmp_path: Path) -> None:
    clean, _ = human_file(tmp_path / "human.pt", "worst", labels_of("worst", 5000), WRONG["worst"] + 10)
    with pytest.warns(UserWarning, match=r"40\.23 % of worse_label in .*human\.pt are wrong, but 40\.21 %") as caught:
        record = human_labels(tmp_path / "human.pt", "worst", clean)
    assert record.changed.sum() == WRONG["worst"] + 10
    assert caught[0].filename == __file__


def test_superclasses_are_found_from_the_classes_whatever_the_file_says_of_them(tmp_path: Path) -> None:
    fine = labels_of("coarse", 20)
    zeros = np.zeros_like(fine)
    clean, noisy = human_file(tmp_path / "human.pt", "coarse", fine, 100, clean_coarse_label=zeros)
    record = human_labels(tmp_path / "human.pt", "coarse", clean)
    assert (record.noisy == noisy).all()
    assert record.changed.sum() == 100
    with pytest.raises(ValueError, match=r"labels lie outside 0\.\.19"):
        human_labels(tmp_path / "human.pt", "coarse", fine)


def test_the_faulty_coarse_labels_are_refused(tmp_path: Path) -> None:
    fine = labels_of("coarse", 20)
    faulty = np.array([1, 4, 7, 9, 10, 12, 14, 15, 16, 17, 18, 19])[fine % 12]
    torch.save({"clean_label": fine, "noisy_coarse_label": faulty}, tmp_path / "human.pt")
    with pytest.raises(
        ValueError, match=r"know only 12 of the 20 superclasses: .* before March 2023; get the file again"
    ):
        human_labels(tmp_path / "human.pt", "coarse", superclasses()[fine])


def test_labels_in_another_order_are_refused(tmp_path: Path) -> None:
    clean, _ = human_file(tmp_path / "human.pt", "worst", labels_of("worst", 20), 30)
    swapped = clean.copy()
    at = int(np.flatnonzero(clean != clean[5])[0])
    swapped[[5, at]] = swapped[[at, 5]]
    with pytest.raises(
        ValueError, match=rf"differ from the data set's at 2 positions \({at}, 5\).*TensorFlow Datasets"
    ):
        human_labels(tmp_path / "human.pt", "worst", swapped)
    with pytest.raises(ValueError, match=r"differ from the data set's at 1\d\d positions \((\d+, ){10}\.\.\.\)"):
        human_labels(tmp_path / "human.pt", "worst", np.roll(clean, 1))
    with pytest.raises(
        ValueError, match=r"has 200 labels and the data set 180: read the file for the whole training part"
    ):
        human_labels(tmp_path / "human.pt", "worst", clean[:180])


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("form", ["pickle", "torch zip", "torch old"])
def test_a_file_that_would_run_code_is_refused(form: str, tmp_path: Path) -> None:
    path, mark = tmp_path / "CIFAR-10_human.pt", tmp_path / "it ran"
    payload = {"clean_label": np.arange(10), "worse_label": Trap(mark)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(payload))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch zip")
    with pytest.raises(ValueError, match=r"CIFAR-10_human\.pt was rejected, since it may run code: it uses \w+\.mkdir"):
        human_labels(path, "worst", np.arange(10))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "which", "message"),
    [
        ({"clean_label": np.arange(10)}, "worst", r"has no worse_label, which worst needs; it holds clean_label\."),
        ({"worse_label": np.arange(10)}, "worst", r"has no clean_label, which worst needs"),
        ([1, 2], "worst", r"holds a list, not the label sets of a CIFAR-N file"),
        ({"clean_label": np.arange(10), "worse_label": np.arange(9)}, "worst", r"damaged: 10 labels in clean_label, 9"),
        (
            {"clean_label": np.arange(10), "worse_label": np.arange(1, 11)},
            "worst",
            r"worse_label in .* the first is 10",
        ),
        ({"clean_label": np.arange(10), "worse_label": "many"}, "worst", r"worse_label in .* must be whole numbers"),
        ({}, "wurst", r"'wurst' is no set of human labels, did you mean worst\? There are aggre, random1"),
        ({}, "xyz", r"'xyz' is no set of human labels\. There are aggre"),
    ],
)
def test_what_does_not_fit_is_one_sentence(content: Any, which: str, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "human.pt")
    with pytest.raises(ValueError, match=message) as caught:
        human_labels(tmp_path / "human.pt", which, np.arange(10))
    assert "\n" not in str(caught.value)


def test_files_for_tensorflow_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "CIFAR-10_human_ordered.npy"
    np.save(path, np.arange(10))
    with pytest.raises(FileNotFoundError, match="there is no file of human labels"):
        human_labels(tmp_path / "none.pt", "worst", np.arange(10))
    with pytest.raises(ValueError, match=r"_ordered\.npy is in the order of TensorFlow Datasets: use the file .* \.pt"):
        human_labels(path, "worst", np.arange(10))
