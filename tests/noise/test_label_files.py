"""Label files of any origin: the same labels out of each form, and a sentence for what does not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.data.labels import encode_labels
from permll.noise import label_file
from permll.noise.label_files import clean_file, read_label_file

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
        ("a.txt", "0.0\n2.\n2.000e+00\n 1\n1\n"),
        ("a.txt", "Noisy_Label\n0\n2\n2\n1\n1\n"),
        ("a.csv", "id,Label\n5,0\n6,2\n7,2\n8,1\n9,1\n"),
        ("a.npz", {"Labels": NOISY.astype(np.float32), "x": np.zeros(5)}),
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
    assert read_label_file(table, key="Two").tolist() == [1, 1]
    column = write(tmp_path / "a.txt", "species\ncat\ndog\n")
    assert read_label_file(column, key="species").tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "dog\ncat\ncat\n"),  # the first is a label, too
        ("a.txt", "Label\ndog\ncat\ncat\n"),
        ("a.csv", 'LABEL\n"dog"\ncat\n cat \n'),
        ("a.csv", "file,label\na,dog\nb,cat\nc,cat\n"),
        ("a.npy", np.array(["dog", "cat", "cat"])),
        ("a.npz", {"y": np.array([b"dog", b"cat", b"cat"])}),
    ],
)
def test_words_are_labels_from_every_form(name: str, content: Any, tmp_path: Path) -> None:
    path = write(tmp_path / name, content)
    assert clean_file(path).labels.tolist() == encode_labels(["dog", "cat", "cat"])[0].tolist() == [1, 0, 0]
    assert clean_file(path)[1:] == (2, ("cat", "dog"))
    record = label_file(path, [1, 1, 0], classes=["cat", "dog"])
    assert (record.noisy.tolist(), record.noise["classes"]) == ([1, 0, 0], ["cat", "dog"])
    with pytest.raises(
        ValueError, match=rf"{name}: labels must be one of the 2 classes; unknown labels in 1 row \(0: dog\)"
    ):
        label_file(path, [1, 1, 0], classes=["cat", "cow"])


def test_a_label_that_is_called_like_a_header_is_a_label(tmp_path: Path) -> None:
    assert clean_file(write(tmp_path / "a.txt", "y\nn\ny\n")).labels.tolist() == [1, 0, 1]
    with pytest.warns(UserWarning, match=r"a\.csv: the first line, 'species', is taken for a label"):
        read_label_file(write(tmp_path / "a.csv", "species\ncat\ndog\ncat\n"))


def test_words_of_a_published_set_have_its_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "Trouser\nT-shirt/top\nBag\n")
    clean = clean_file(path, data_set="fashion_mnist")
    assert (clean.labels.tolist(), clean.num_classes) == ([1, 0, 8], 10)
    assert clean_file(path).labels.tolist() == [2, 1, 0]
    with pytest.raises(
        ValueError, match=r"a\.txt: labels must be one of the 10 classes; unknown labels in 1 row \(0: Jeans\)"
    ):
        clean_file(write(tmp_path / "a.txt", "Jeans\nBag\n"), data_set="fashion_mnist")


def test_labels_that_count_from_one_are_refused_unless_the_number_of_classes_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n".join(map(str, range(1, 11))))
    said = r"^labels run from 1 to 10: count from 0, or say how many classes there are \(--classes 11 if class 0 is"
    with pytest.raises(ValueError, match=said):
        clean_file(path)
    assert clean_file(path, num_classes=11).num_classes == 11
    with pytest.raises(ValueError, match=r"labels run from 1 to 3: .* \(num_classes=4 if class 0 is real\)"):
        label_file(path, [1, 2, 3])


def test_words_say_themselves_how_many_classes_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "cat\ndog\n")
    with pytest.raises(ValueError, match=r"a\.txt names 2 classes, not 5: words need no number"):
        clean_file(path, num_classes=5)
    with pytest.raises(ValueError, match=r"a\.txt has one class only, cat: noise needs two"):
        clean_file(write(tmp_path / "a.txt", "cat\ncat\n"))


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
        ("a.txt", "0\n\n2\n1\n0\n", r"a\.txt, line 2: there is no label; fill it in"),
        ("a.txt", "0\n1\n2\n1\n99999999999999999999\n", r"line 5: '9+' is no class number"),
        ("a.txt", "", r"a\.txt is empty"),
        ("a.csv", "0,1\n2,3\n", r"a\.csv has 2 columns without names: name them in the first line"),
        ("a.csv", "one,two\n0,1\n", r"a\.csv holds one, two: say which .* the labels \(--key .*, key= in"),
        ("a.csv", "id,label\n0,1\n1\n", r"a\.csv, line 3: there is no label; fill it in"),
        ("a.txt", "0\n1.5\n2\n1\n0\n", r"a\.txt, line 2: '1\.5' is no class number"),
        ("a.txt", "0.5\n1.5\n", r"a\.txt, line 1: '0\.5' is no class number"),
        ("a.txt", "cat\ndog\n7\n", r"a\.txt, line 3: '7' is a number among words; write all labels in one way"),
        ("a.txt", "cat\ndog\ncat\ncat\ndog\n", r"a\.txt: the labels are words: say what the classes are called"),
        ("a.txt", "species\n0\n1\n2\n", r"line 1: 'species' is no class number; if it is a header, name it \(--key"),
        ("a.txt", "label\n", r"a\.txt has a header but no labels below it"),
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
    with pytest.raises(FileNotFoundError, match=r"there is no label file .*c\.csv, did you mean b\.csv\?$"):
        read_label_file(tmp_path / "c.csv")
    with pytest.raises(IsADirectoryError, match="is a folder: name the label file in it"):
        read_label_file(tmp_path)
