"""Label files of any origin: the same labels out of each form, and a sentence for what does not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.noise import label_file
from permll.noise.files import read_label_file

CLEAN = np.array([0, 1, 2, 1, 0])
NOISY = np.array([0, 2, 2, 1, 1])


def write(path: Path, content: Any) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **content)
    elif path.suffix == ".npy":
        np.save(path, content)
    else:
        path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", NOISY),
        ("a.npy", NOISY.astype(np.uint8)[:, None]),
        ("a.npz", {"anything": NOISY}),
        ("a.npz", {"clean": CLEAN, "labels": CLEAN, "noisy": NOISY, "x": np.zeros((5, 2))}),
        ("a.txt", "0\n2\n2\n1\n1"),
        ("a.txt", "\ufeff0\r\n2\r\n2\r\n1\r\n1\r\n\r\n"),
        ("a.csv", "label\n0\n2\n2\n1\n1\n"),
        ("a.csv", 'file,noisy_label,label\n"a, b.png",0,9\nb,2,9\nc,2,9\nd,1,9\ne, 1 ,9\n'),
        ("a.tsv", "id\ty\n0\t0\n1\t2\n2\t2\n3\t1\n4\t1\n"),
        ("labels", "0\n2\n2\n1\n1\n"),
    ],
)
def test_labels_are_read_from_every_form(name: str, content: Any, tmp_path: Path) -> None:
    record = label_file(write(tmp_path / name, content), CLEAN)
    assert record.noisy.tolist() == NOISY.tolist()
    assert record.clean.tolist() == CLEAN.tolist()
    assert (record.num_classes, record.seed, record.noise["name"]) == (3, None, f"file:{name}")
    assert record.rate == 0.4


def test_a_key_says_which(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {"noisy": CLEAN, "second": NOISY})
    assert label_file(path, CLEAN, key="second").rate == 0.4
    assert label_file(path, CLEAN).rate == 0
    table = write(tmp_path / "a.csv", "one,two\n0,1\n2,1\n")
    assert read_label_file(table, key="one").tolist() == [0, 2]


def test_more_classes_than_the_clean_labels_show_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "0\n3\n2\n1\n0\n")
    assert label_file(path, CLEAN, num_classes=4).noisy.max() == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "0\n3\n2\n1\n0\n", r"a\.txt: 1 labels lie outside 0\.\.2, the first is 3 at position 1"),
        ("a.txt", "0\n-1\n2\n1\n0\n", r"the first is -1 at position 1"),
        ("a.txt", "0\n1\n2\n", r"a\.txt has 3 labels and the data set 5: it must have one for each sample"),
        ("a.txt", "0\ncat\n2\n1\n0\n", r"a\.txt, line 2: 'cat' is no class number"),
        ("a.txt", "0\n\n2\n1\n0\n", r"a\.txt, line 2: '' is no class number"),
        ("a.txt", "0\n1\n2\n1\n99999999999999999999\n", r"line 5: '9+' is no class number"),
        ("a.txt", "", r"a\.txt is empty"),
        ("a.csv", "0,1\n2,3\n", r"a\.csv has 2 columns without names: name them in the first line"),
        ("a.csv", "one,two\n0,1\n", r"a\.csv holds one, two: say which of them are the labels"),
        ("a.csv", "id,label\n0,1\n1\n", r"a\.csv, line 3: '' is no class number"),
        ("a.npz", {"a": CLEAN, "b": CLEAN}, r"a\.npz holds a, b: say which of them are the labels"),
        ("a.npy", NOISY + 0.5, r"a\.npy: labels must be whole numbers of shape \(N,\)"),
        ("a.npy", np.zeros((5, 3), dtype=int), r"a\.npy: labels must be whole numbers of shape \(N,\)"),
        ("a.npy", np.array([print], dtype=object), r"a\.npy holds no plain numbers but Python objects"),
    ],
)
def test_what_does_not_fit_is_one_sentence(name: str, content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        label_file(write(tmp_path / name, content), CLEAN)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(name) <= 1


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {"y": np.arange(1000)})
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"a\.npz is damaged|a\.npz holds no plain numbers"):
        read_label_file(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.npz is damaged: "):
        read_label_file(path)
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    with pytest.raises(ValueError, match=r"a\.png is no text; label files are"):
        read_label_file(picture)
    with pytest.raises(ValueError, match=r"nothing called 'lable', did you mean label\? It holds label, x"):
        read_label_file(write(tmp_path / "b.csv", "label,x\n1,2\n"), key="lable")
    with pytest.raises(FileNotFoundError):
        read_label_file(tmp_path / "none.npz")
