"""Clothing1M: small copies in both layouts."""

from pathlib import Path

import pytest
import torch

from permll.data.datasets import class_names
from permll.data.registry import find_dataset
from tests.helpers.clothing1m_files import CLEAN, SPLITS, TRAIN, write_clothing1m
from tests.helpers.dataset_files import write_lines

INFO = find_dataset("clothing1m")


@pytest.mark.parametrize("annotations", [True, False])
@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("home", [".", "clothing1m", "Clothing1M"])
def test_clothing1m_reads_both_layouts(home: str, prefix: bool, annotations: bool, tmp_path: Path) -> None:
    write_clothing1m(tmp_path / "root" / home, annotations=annotations, prefix=prefix)
    train, val, test = (INFO.load(tmp_path / "root", split) for split in INFO.samples)
    assert train.ids == tuple(TRAIN)
    assert train.labels.tolist() == list(TRAIN.values())
    assert (val.ids, test.ids) == (tuple(SPLITS["val"]), tuple(SPLITS["test"]))
    assert test.labels.tolist() == [CLEAN[key] for key in SPLITS["test"]]  # clean ones, although noisy ones exist too
    assert train.classes == class_names.CLOTHING1M
    batch = train.inputs.batch(torch.tensor([27, 0]))
    assert batch.shape == (2, 3, 256, 256)
    assert batch.float().mean((2, 3)).flatten().tolist() == pytest.approx([135, 100, 115, 0, 100, 250], abs=3)


def test_clean_train_split_needs_its_name(tmp_path: Path) -> None:
    write_clothing1m(tmp_path, annotations=False, prefix=True)
    assert "clean_train" not in INFO.samples
    clean = INFO.load(tmp_path, "clean_train", size=32, fit="crop")
    assert clean.ids == tuple(SPLITS["clean_train"])
    assert clean.labels.tolist() == [CLEAN[key] for key in clean.ids]
    assert clean.inputs.batch(torch.tensor([0])).shape == (1, 3, 32, 32)


def test_clothing1m_reads_class_names(tmp_path: Path) -> None:
    text = write_clothing1m(tmp_path, annotations=True, prefix=True)
    write_lines(text / "category_names_eng.txt", [f"Class {n}" for n in range(14)])
    assert INFO.load(tmp_path, "val").classes[13] == "Class 13"
    write_lines(text / "category_names_eng.txt", ["T-Shirt"])
    with pytest.raises(ValueError, match="must name 14 different classes, but it names 1"):
        INFO.load(tmp_path, "val")


def test_missing_images_and_labels_are_named(tmp_path: Path) -> None:
    text = write_clothing1m(tmp_path, annotations=False, prefix=True)
    gone = list(TRAIN)[:12]
    for key in gone:
        (tmp_path / key).unlink()
    kept = [f"{key} {label}" for key, label in TRAIN.items() if key not in list(TRAIN)[-2:]]
    write_lines(text / "noisy_label_kv.txt", [*kept, f"{list(TRAIN)[-1]} 14"])
    with pytest.raises(FileNotFoundError) as caught:
        INFO.load(tmp_path, "train")
    message = str(caught.value)
    assert f"lacks labels in 0..13 for 2 images ({list(TRAIN)[-2]}, {list(TRAIN)[-1]}) and 12 image files (" in message
    assert ", ".join(gone[:10]) + ", ...)" in message
    assert gone[10] not in message


def test_missing_labels_are_named(tmp_path: Path) -> None:
    text = write_clothing1m(tmp_path, annotations=False, prefix=True)
    write_lines(
        text / "clean_label_kv.txt", [f"{key} {label}" for key, label in CLEAN.items() if key != SPLITS["val"][1]]
    )
    with pytest.raises(ValueError, match=r"lacks labels in 0\.\.13 for 1 image \(images/1/11/1,201\.jpg\)"):
        INFO.load(tmp_path, "val")
    assert len(INFO.load(tmp_path, "test")) == 4


def test_training_list_with_held_out_images_raises(tmp_path: Path) -> None:
    text = write_clothing1m(tmp_path, annotations=False, prefix=True)
    write_lines(text / "noisy_train_key_list.txt", [*TRAIN, SPLITS["test"][0]])
    with pytest.raises(
        ValueError, match=r"contains 1 image \(images/4/11/4,204\.jpg\) of the validation or test split"
    ):
        INFO.load(tmp_path, "train")


@pytest.mark.parametrize(
    "gone", ["noisy_train_key_list.txt", "noisy_label_kv.txt", "clean_val_key_list.txt", "clean_test_key_list.txt"]
)
def test_missing_list_is_named(gone: str, tmp_path: Path) -> None:
    (write_clothing1m(tmp_path, annotations=True, prefix=True) / gone).unlink()
    with pytest.raises(
        FileNotFoundError, match=rf"is incomplete, 1 file \({gone}\) missing: request it from its authors"
    ):
        INFO.load(tmp_path, "train")


def test_damaged_lists_raise(tmp_path: Path) -> None:
    text = write_clothing1m(tmp_path, annotations=False, prefix=True)
    with (text / "noisy_label_kv.txt").open("a") as file:
        file.write("images/0/00/alone.jpg\n")
    with pytest.raises(ValueError, match=r"lacks a file name or label in 1 line \(34\), counted from 0"):
        INFO.load(tmp_path, "train")
    (text / "clean_val_key_list.txt").write_text("")
    with pytest.raises(ValueError, match=r"the val list of Clothing1M in .* is empty"):
        INFO.load(tmp_path, "val")
    (text / "clean_val_key_list.txt").write_bytes(b"images/0/\xff.jpg\n")
    with pytest.raises(ValueError, match=r"clean_val_key_list\.txt is damaged: byte 9 is not UTF-8"):
        INFO.load(tmp_path, "val")


def test_ids_and_labels_do_not_depend_on_location(tmp_path: Path) -> None:
    write_clothing1m(tmp_path / "one", annotations=True, prefix=True)
    write_clothing1m(tmp_path / "two", annotations=False, prefix=False)
    one, two = (INFO.load(tmp_path / name, "train") for name in ("one", "two"))
    assert one.ids == two.ids
    assert torch.equal(one.labels, two.labels)
    rows = torch.arange(28)
    assert torch.equal(one.inputs.batch(rows), two.inputs.batch(rows))
