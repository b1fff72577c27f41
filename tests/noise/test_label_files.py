"""Label files: equal labels from every format, and one-sentence errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.data.labels import encode_labels
from permll.noise import read_noisy_labels
from permll.noise.label_files import read_clean_labels, read_label_file
from tests.helpers.noise_cases import write_labels

CLEAN = np.array([0, 1, 2, 1, 0])
NOISY = np.array([0, 2, 2, 1, 1])


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
def test_noisy_labels_read_from_every_format(name: str, content: Any, tmp_path: Path) -> None:
    record = read_noisy_labels(write_labels(tmp_path / name, content), CLEAN)
    assert record.noisy.tolist() == NOISY.tolist()
    assert record.clean.tolist() == CLEAN.tolist()
    assert (record.num_classes, record.seed, record.noise["name"]) == (3, None, f"file:{name}")
    assert record.rate == 0.4


def test_label_key_selects_array_or_column(tmp_path: Path) -> None:
    path = write_labels(tmp_path / "a.npz", {"noisy": CLEAN, "second": NOISY})
    assert read_noisy_labels(path, CLEAN, key="second").rate == 0.4
    assert read_noisy_labels(path, CLEAN).rate == 0
    table = write_labels(tmp_path / "a.csv", "one,two\n0,1\n2,1\n")
    assert read_label_file(table, key="one").tolist() == [0, 2]
    assert read_label_file(table, key="Two").tolist() == [1, 1]
    column = write_labels(tmp_path / "a.txt", "species\ncat\ndog\n")
    assert read_label_file(column, key="species").tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "dog\ncat\ncat\n"),
        ("a.txt", "Label\ndog\ncat\ncat\n"),
        ("a.csv", 'LABEL\n"dog"\ncat\n cat \n'),
        ("a.csv", "file,label\na,dog\nb,cat\nc,cat\n"),
        ("a.npy", np.array(["dog", "cat", "cat"])),
        ("a.npz", {"y": np.array([b"dog", b"cat", b"cat"])}),
    ],
)
def test_text_labels_read_from_every_format(name: str, content: Any, tmp_path: Path) -> None:
    path = write_labels(tmp_path / name, content)
    assert read_clean_labels(path).labels.tolist() == encode_labels(["dog", "cat", "cat"])[0].tolist() == [1, 0, 0]
    assert read_clean_labels(path)[1:] == (2, ("cat", "dog"))
    record = read_noisy_labels(path, [1, 1, 0], classes=["cat", "dog"])
    assert (record.noisy.tolist(), record.noise["classes"]) == ([1, 0, 0], ["cat", "dog"])
    with pytest.raises(ValueError, match=rf"{name}: labels must be one of the 2 classes; unknown .* 1 row \(0: dog\)"):
        read_noisy_labels(path, [1, 1, 0], classes=["cat", "cow"])


def test_single_column_header_is_ambiguous(tmp_path: Path) -> None:
    assert read_clean_labels(write_labels(tmp_path / "a.txt", "y\nn\ny\n")).labels.tolist() == [1, 0, 1]
    with pytest.warns(UserWarning, match=r"a\.csv: the first line, 'species', is read as a label"):
        read_label_file(write_labels(tmp_path / "a.csv", "species\ncat\ndog\ncat\n"))


def test_clean_text_labels_use_published_order(tmp_path: Path) -> None:
    path = write_labels(tmp_path / "a.txt", "Trouser\nT-shirt/top\nBag\n")
    clean = read_clean_labels(path, data_set="fashion_mnist")
    assert (clean.labels.tolist(), clean.num_classes) == ([1, 0, 8], 10)
    assert read_clean_labels(path).labels.tolist() == [2, 1, 0]
    with pytest.raises(
        ValueError, match=r"a\.txt: labels must be one of the 10 classes; unknown .* 1 row \(0: Jeans\)"
    ):
        read_clean_labels(write_labels(tmp_path / "a.txt", "Jeans\nBag\n"), data_set="fashion_mnist")


def test_labels_from_one_need_num_classes(tmp_path: Path) -> None:
    path = write_labels(tmp_path / "a.txt", "\n".join(map(str, range(1, 11))))
    message = r"^labels run from 1 to 10: number the classes from 0, or pass --classes 11 if class 0 exists\.$"
    with pytest.raises(ValueError, match=message):
        read_clean_labels(path)
    assert read_clean_labels(path, num_classes=11).num_classes == 11
    with pytest.raises(ValueError, match=r"labels run from 1 to 3: .* pass num_classes=4 if class 0 exists"):
        read_noisy_labels(path, [1, 2, 3])


def test_clean_text_labels_refuse_other_number_of_classes(tmp_path: Path) -> None:
    path = write_labels(tmp_path / "a.txt", "cat\ndog\n")
    with pytest.raises(ValueError, match=r"a\.txt has 2 classes, not 5: omit the number"):
        read_clean_labels(path, num_classes=5)
    with pytest.raises(ValueError, match=r"a\.txt has a single class, cat: label noise needs at least two"):
        read_clean_labels(write_labels(tmp_path / "a.txt", "cat\ncat\n"))


def test_noisy_labels_accept_num_classes(tmp_path: Path) -> None:
    path = write_labels(tmp_path / "a.txt", "0\n3\n2\n1\n0\n")
    assert read_noisy_labels(path, CLEAN, num_classes=4).noisy.max() == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "0\n3\n2\n1\n0\n", r"a\.txt: 1 labels lie outside 0\.\.2, the first is 3 at position 1"),
        ("a.txt", "0\n-1\n2\n1\n0\n", r"the first is -1 at position 1"),
        ("a.txt", "0\n1\n2\n", r"a\.txt has 3 labels, but the data set has 5: give one label per sample"),
        ("a.txt", "0\ncat\n2\n1\n0\n", r"a\.txt, line 2: 'cat' is not a class number"),
        ("a.txt", "0\n\n2\n1\n0\n", r"a\.txt, line 2: the label is missing; add it"),
        ("a.txt", "0\n1\n2\n1\n99999999999999999999\n", r"line 5: '9+' is not a class number"),
        ("a.txt", "", r"a\.txt is empty"),
        ("a.csv", "0,1\n2,3\n", r"a\.csv has 2 columns but no header: add column names"),
        ("a.csv", "one,two\n0,1\n", r"a\.csv has one, two: name the labels \(--key .*, key= in"),
        ("a.csv", "id,label\n0,1\n1\n", r"a\.csv, line 3: the label is missing; add it"),
        ("a.txt", "0\n1.5\n2\n1\n0\n", r"a\.txt, line 2: '1\.5' is not a class number"),
        ("a.txt", "0.5\n1.5\n", r"a\.txt, line 1: '0\.5' is not a class number"),
        ("a.txt", "cat\ndog\n7\n", r"a\.txt, line 3: '7' is a number among text labels; use one kind"),
        ("a.txt", "cat\ndog\ncat\ncat\ndog\n", r"a\.txt: text labels need the class names in order"),
        ("a.txt", "species\n0\n1\n2\n", r"line 1: 'species' is not a class number; if it is a header, name it \(--key"),
        ("a.txt", "label\n", r"a\.txt has a header but no labels"),
        ("a.npz", {"a": CLEAN, "b": CLEAN}, r"a\.npz has a, b: name the labels"),
        ("a.npy", NOISY + 0.5, r"a\.npy: labels must be whole numbers of shape \(N,\)"),
        ("a.npy", np.zeros((5, 3), dtype=int), r"a\.npy: labels must be whole numbers of shape \(N,\)"),
        ("a.npy", np.array([print], dtype=object), r"a\.npy contains Python objects"),
    ],
)
def test_noisy_labels_error_is_one_sentence(name: str, content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_noisy_labels(write_labels(tmp_path / name, content), CLEAN)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(name) <= 1


def test_label_file_errors_name_the_file(tmp_path: Path) -> None:
    path = write_labels(tmp_path / "a.npz", {"y": np.arange(1000)})
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"a\.npz is damaged|a\.npz contains Python objects"):
        read_label_file(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.npz is damaged: "):
        read_label_file(path)
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    with pytest.raises(ValueError, match=r"a\.png is not text; label files are"):
        read_label_file(picture)
    with pytest.raises(ValueError, match=r"no column or array 'lable', did you mean label\? It has label, x"):
        read_label_file(write_labels(tmp_path / "b.csv", "label,x\n1,2\n"), key="lable")
    with pytest.raises(FileNotFoundError, match=r"label file .*c\.csv does not exist, did you mean b\.csv\?$"):
        read_label_file(tmp_path / "c.csv")
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a label file"):
        read_label_file(tmp_path)
