"""Clothing1M: a folder of its shape, small, in both layouts people keep it in."""

from pathlib import Path

import pytest
import torch

from permll.data.datasets import class_names as names
from permll.data.registry import find
from tests.helpers.dataset_files import write_jpeg

INFO = find("clothing1m")
# Label of each key: noisy and clean lists as in the published files, where some images have both labels.
TRAIN = {f"images/{n % 10}/0{n}/{n},10{n}.jpg": n % 14 for n in range(28)}
CLEAN = {f"images/{n % 10}/1{n % 3}/{n},20{n}.jpg": (n + 3) % 14 for n in range(12)}
CLEAN_KEYS = list(CLEAN)
PARTS = {"val": CLEAN_KEYS[:4], "test": CLEAN_KEYS[4:8], "clean_train": CLEAN_KEYS[8:]}


def lines(path: Path, content: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in content))


def make(root: Path, *, annotations: bool, prefix: bool) -> Path:
    """Write everything; return the folder of the text files."""
    text = root / "annotations" if annotations else root
    text.mkdir(parents=True, exist_ok=True)
    lines(text / "noisy_train_key_list.txt", list(TRAIN))
    # The file of noisy labels holds more than the training set: images of the validation and test sets too.
    both = dict.fromkeys(CLEAN_KEYS[:6], 13)
    lines(text / "noisy_label_kv.txt", [f"{key} {label}" for key, label in (both | TRAIN).items()])
    lines(text / "clean_label_kv.txt", [f"{key} {label}" for key, label in CLEAN.items()])
    for part, keys in PARTS.items():
        lines(text / f"clean_{part.removeprefix('clean_')}_key_list.txt", keys)
    for n, key in enumerate([*TRAIN, *CLEAN]):
        write_jpeg(root / (key if prefix else key.removeprefix("images/")), (5 * n, 100, 250 - 5 * n))
    return text


@pytest.mark.parametrize("annotations", [True, False])
@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("home", [".", "clothing1m", "Clothing1M"])
def test_both_layouts_are_read(home: str, prefix: bool, annotations: bool, tmp_path: Path) -> None:
    make(tmp_path / "root" / home, annotations=annotations, prefix=prefix)
    train, val, test = (INFO.load(tmp_path / "root", split) for split in INFO.splits)
    assert train.ids == tuple(TRAIN)
    assert train.labels.tolist() == list(TRAIN.values())
    assert (val.ids, test.ids) == (tuple(PARTS["val"]), tuple(PARTS["test"]))
    assert test.labels.tolist() == [CLEAN[key] for key in PARTS["test"]]  # clean ones, although noisy ones exist too
    assert train.classes == names.CLOTHING1M
    batch = train.inputs.batch(torch.tensor([27, 0]))
    assert batch.shape == (2, 3, 256, 256)
    assert batch.float().mean((2, 3)).flatten().tolist() == pytest.approx([135, 100, 115, 0, 100, 250], abs=3)


def test_the_clean_training_set_is_there_only_for_those_who_name_it(tmp_path: Path) -> None:
    make(tmp_path, annotations=False, prefix=True)
    assert "clean_train" not in INFO.splits
    clean = INFO.load(tmp_path, "clean_train", size=32, fit="crop")
    assert clean.ids == tuple(PARTS["clean_train"])
    assert clean.labels.tolist() == [CLEAN[key] for key in clean.ids]
    assert clean.inputs.batch(torch.tensor([0])).shape == (1, 3, 32, 32)


def test_the_authors_class_names_are_used_if_they_are_there(tmp_path: Path) -> None:
    text = make(tmp_path, annotations=True, prefix=True)
    lines(text / "category_names_eng.txt", [f"Class {n}" for n in range(14)])
    assert INFO.load(tmp_path, "val").classes[13] == "Class 13"
    lines(text / "category_names_eng.txt", ["T-Shirt"])
    with pytest.raises(ValueError, match="must name 14 classes, it names 1"):
        INFO.load(tmp_path, "val")


def test_missing_images_and_labels_are_listed_at_once(tmp_path: Path) -> None:
    text = make(tmp_path, annotations=False, prefix=True)
    gone = list(TRAIN)[:12]
    for key in gone:
        (tmp_path / key).unlink()
    kept = [f"{key} {label}" for key, label in TRAIN.items() if key not in list(TRAIN)[-2:]]
    lines(text / "noisy_label_kv.txt", [*kept, f"{list(TRAIN)[-1]} 14"])
    with pytest.raises(FileNotFoundError) as caught:
        INFO.load(tmp_path, "train")
    message = str(caught.value)
    assert f"lacks labels in 0..13 for 2 images ({list(TRAIN)[-2]}, {list(TRAIN)[-1]}) and 12 image files (" in message
    assert ", ".join(gone[:10]) + ", ...)" in message
    assert gone[10] not in message


def test_missing_labels_alone_are_listed(tmp_path: Path) -> None:
    text = make(tmp_path, annotations=False, prefix=True)
    lines(text / "clean_label_kv.txt", [f"{key} {label}" for key, label in CLEAN.items() if key != PARTS["val"][1]])
    with pytest.raises(ValueError, match=r"lacks labels in 0\.\.13 for 1 image \(images/1/11/1,201\.jpg\)"):
        INFO.load(tmp_path, "val")
    assert len(INFO.load(tmp_path, "test")) == 4


def test_training_images_of_the_held_out_sets_are_refused(tmp_path: Path) -> None:
    text = make(tmp_path, annotations=False, prefix=True)
    lines(text / "noisy_train_key_list.txt", [*TRAIN, PARTS["test"][0]])
    with pytest.raises(ValueError, match=r"names 1 image \(images/4/11/4,204\.jpg\) of the validation or test set"):
        INFO.load(tmp_path, "train")


@pytest.mark.parametrize(
    "gone", ["noisy_train_key_list.txt", "noisy_label_kv.txt", "clean_val_key_list.txt", "clean_test_key_list.txt"]
)
def test_a_missing_list_is_named(gone: str, tmp_path: Path) -> None:
    (make(tmp_path, annotations=True, prefix=True) / gone).unlink()
    with pytest.raises(FileNotFoundError, match=rf"is incomplete, 1 file \({gone}\) missing: ask its authors"):
        INFO.load(tmp_path, "train")


def test_broken_lists_are_one_sentence(tmp_path: Path) -> None:
    text = make(tmp_path, annotations=False, prefix=True)
    with (text / "noisy_label_kv.txt").open("a") as file:
        file.write("images/0/00/alone.jpg\n")
    with pytest.raises(ValueError, match=r"has no file name and label in 1 line \(34\), counted from 0"):
        INFO.load(tmp_path, "train")
    (text / "clean_val_key_list.txt").write_text("")
    with pytest.raises(ValueError, match=r"the val list of Clothing1M in .* is empty"):
        INFO.load(tmp_path, "val")
    (text / "clean_val_key_list.txt").write_bytes(b"images/0/\xff.jpg\n")
    with pytest.raises(ValueError, match=r"clean_val_key_list\.txt is damaged: byte 9 is no UTF-8 text"):
        INFO.load(tmp_path, "val")


def test_ids_and_labels_do_not_depend_on_where_the_files_are(tmp_path: Path) -> None:
    make(tmp_path / "one", annotations=True, prefix=True)
    make(tmp_path / "two", annotations=False, prefix=False)
    one, two = (INFO.load(tmp_path / name, "train") for name in ("one", "two"))
    assert one.ids == two.ids
    assert torch.equal(one.labels, two.labels)
    rows = torch.arange(28)
    assert torch.equal(one.inputs.batch(rows), two.inputs.batch(rows))
