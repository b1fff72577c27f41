"""``load``: built-in datasets by name, user data by path or object."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from PIL import Image

from permll.data import load


def image_folder(folder: Path, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (70, 80), (50 * number, 9, 9)).save(folder / name / f"{number}.png")
    return folder


def test_load_reads_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_folder(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"^digits is the built-in dataset; write \./digits for the local path\.$"):
        assert load("digits").metadata["name"] == "digits"
    for path in ("./digits", tmp_path / "digits", str(tmp_path / "digits")):
        assert load(path).classes == ("cat", "dog")
    image_folder(tmp_path / "photos")
    assert len(load("photos")) == 4


def test_load_unknown_name_suggests_nearest() -> None:
    with pytest.raises(ValueError, match="unknown dataset 'cifar1O', did you mean cifar10"):
        load("cifar1O")


def test_load_root_from_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLL_DATA", str(tmp_path / "from the environment"))
    with pytest.raises(FileNotFoundError, match="from the environment"):
        load("cifar10")


def test_load_rejects_root_for_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="root= is for built-in datasets"):
        load(image_folder(tmp_path / "p"), root=tmp_path)


def test_load_split_of_user_data(tmp_path: Path) -> None:
    image_folder(tmp_path / "train")
    image_folder(tmp_path / "valid", ("cat", "dog", "hen"))
    assert load(tmp_path, split="valid").classes == ("cat", "dog", "hen")
    with pytest.raises(FileNotFoundError, match="valdi, did you mean valid"):
        load(tmp_path, split="valdi")
    rows = {"x": [[0.0, 1.0], [2.0, 3.0], [1.0, 1.0], [5.0, 0.0]], "label": ["a", "b", "a", "b"]}
    both = DatasetDict(train=Dataset.from_dict(rows), test=Dataset.from_dict(rows))
    assert load(both, split="test", label="label").classes == ("a", "b")
    with pytest.raises(ValueError, match="unknown split 'tset', did you mean test"):
        load(both, split="tset")
    with pytest.raises(ValueError, match="is not supported here"):
        load(np.zeros((4, 2)), labels=[0, 1, 0, 1], split="train")
