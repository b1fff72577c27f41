"""The one door: names go to the registry, everything else is the user's own."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from PIL import Image

from permll.data import load


def folder_of_pictures(folder: Path, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (70, 80), (50 * number, 9, 9)).save(folder / name / f"{number}.png")
    return folder


def test_a_name_is_looked_up_and_a_path_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of_pictures(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"^digits is read as the built-in set; what is here is \./digits\.$"):
        assert load("digits").metadata["name"] == "digits"
    for own in ("./digits", tmp_path / "digits", str(tmp_path / "digits")):
        assert load(own).classes == ("cat", "dog")
    folder_of_pictures(tmp_path / "photos")
    assert len(load("photos")) == 4


def test_a_name_that_is_none_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="'cifar1O' is no built-in data set, did you mean cifar10"):
        load("cifar1O")


def test_the_root_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLL_DATA", str(tmp_path / "from the environment"))
    with pytest.raises(FileNotFoundError, match="from the environment"):
        load("cifar10")


def test_a_root_has_no_meaning_for_a_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="root is where built-in data sets are"):
        load(folder_of_pictures(tmp_path / "p"), root=tmp_path)


def test_splits_of_a_users_own_data(tmp_path: Path) -> None:
    folder_of_pictures(tmp_path / "train")
    folder_of_pictures(tmp_path / "valid", ("cat", "dog", "hen"))
    assert load(tmp_path, split="valid").classes == ("cat", "dog", "hen")
    with pytest.raises(FileNotFoundError, match="valdi, did you mean valid"):
        load(tmp_path, split="valdi")
    rows = {"x": [[0.0, 1.0], [2.0, 3.0], [1.0, 1.0], [5.0, 0.0]], "label": ["a", "b", "a", "b"]}
    both = DatasetDict(train=Dataset.from_dict(rows), test=Dataset.from_dict(rows))
    assert load(both, split="test", label="label").classes == ("a", "b")
    with pytest.raises(ValueError, match="no split 'tset', did you mean test"):
        load(both, split="tset")
    with pytest.raises(ValueError, match="has no meaning here"):
        load(np.zeros((4, 2)), labels=[0, 1, 0, 1], split="train")
