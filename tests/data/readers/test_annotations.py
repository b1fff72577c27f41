"""Answers of several annotators in wide and long form: reading, consensus, and errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from permll.data import load
from permll.data.dataset import LabeledData

ANSWERS = [
    ("a", ["cat", "cat", ""]),
    ("b", ["dog", "dog", "cat"]),
    ("ü", ["cat", "", "cat"]),
    ("d", ["", "dog", "dog"]),
    ("e", ["cat", "cat", "dog"]),
    ("f", ["dog", "dog", "dog"]),
]
IDS = tuple(name for name, _ in ANSWERS)
EXPECTED = ["cat", "dog", "cat", "dog", "cat", "dog"]


def wide_csv(folder: Path, answers: Any = ANSWERS, more: str = "") -> Path:
    path = folder / "wide.csv"
    lines = [f"id,text,ann_1,ann_2,ann_3{more and ',label'}"]
    lines += [f"{name},about {name},{','.join(cells)}{more and ','}{more}" for name, cells in answers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def long_csv(folder: Path, head: str = "id,annotator,label", lines: list[str] | None = None) -> Path:
    path = folder / "answers.csv"
    if lines is None:
        lines = [
            f"{name},ann_{number},{label}" for name, cells in reversed(ANSWERS) for number, label in enumerate(cells, 1)
        ]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def texts_csv(folder: Path) -> Path:
    path = folder / "texts.csv"
    path.write_text("id,text\n" + "".join(f"{name},about {name}\n" for name in IDS), encoding="utf-8")
    return path


def names(data: LabeledData) -> list[str]:
    return [data.classes[k] for k in data.labels.tolist()]


def answered(data: LabeledData) -> list[dict[str, str]]:
    assert data.annotations is not None
    return [{name: data.classes[k] for name, k in data.annotations.to_sample(row)} for row in range(len(data))]


WIDE = [{f"ann_{i}": label for i, label in enumerate(cells, 1) if label} for _, cells in ANSWERS]


@pytest.mark.parametrize("annotators", ["ann_*", ["ann_1", "ann_2", "ann_3"], ["ann_[12]", "ann_3"]])
def test_wide_csv(tmp_path: Path, annotators: Any) -> None:
    data = load(wide_csv(tmp_path), annotators=annotators)
    assert (data.ids, names(data), answered(data)) == (IDS, EXPECTED, WIDE)
    assert data.metadata["text"] == "text"
    taken = data.take([4, 1])
    assert answered(taken) == [WIDE[4], WIDE[1]]
    assert "consensus of 3 annotators" in " ".join(data.metadata["assumed"])


def test_long_csv_beside_a_table(tmp_path: Path) -> None:
    data = load(texts_csv(tmp_path), annotations=long_csv(tmp_path))
    assert (data.ids, names(data), answered(data)) == (IDS, EXPECTED, WIDE)


def test_long_form_with_other_column_names(tmp_path: Path) -> None:
    path = long_csv(tmp_path, "question,who,said")
    with pytest.raises(ValueError, match=r"3 columns \(question, who, said\).*annotation_columns="):
        load(texts_csv(tmp_path), annotations=path)
    data = load(texts_csv(tmp_path), annotations=path, annotation_columns=["question", "who", "said"])
    assert names(data) == EXPECTED
    with pytest.raises(ValueError, match="annotation_columns="):
        load(texts_csv(tmp_path), annotations=path, annotation_columns=["question", "who", "nothing"])
    with pytest.raises(ValueError, match="samples, annotators and labels"):
        load(texts_csv(tmp_path), annotations=path, annotation_columns=["question", "who"])


def test_crowd_kit_columns_are_recognized() -> None:
    frame = pd.DataFrame({"task": [0, 0, 1, 1], "worker": ["w", "v", "w", "v"], "label": ["x", "x", "y", "y"]})
    for annotations in (frame, pl.from_dict(frame.to_dict("list"))):
        data = load(np.eye(2), annotations=annotations, rare="keep")
        assert names(data) == ["x", "y"]


TABLE = [[0, 0, -1], [1, 1, 0], [0, -1, 0], [-1, 1, 1], [0, 0, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    "answers",
    [
        np.array(TABLE, np.int8),
        torch.tensor(TABLE),
        TABLE,
        np.where(np.array(TABLE) < 0, np.nan, TABLE),
        [[None if one < 0 else one for one in row] for row in TABLE],
        pd.DataFrame(TABLE),
        pd.DataFrame(TABLE).replace(-1, np.nan),
        pl.DataFrame(TABLE, schema=["0", "1", "2"], orient="row"),
    ],
    ids=["int8", "tensor", "list", "nan", "none", "frame", "frame-nan", "polars"],
)
def test_arrays_and_frames_in_memory(answers: Any) -> None:
    data = load(np.random.default_rng(0).random((6, 2)), annotations=answers)
    assert data.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert answered(data)[:2] == [{"0": "0", "1": "0"}, {"0": "1", "1": "1", "2": "0"}]


def test_arrays_in_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.eye(6), answers=np.array(TABLE))
    np.save(tmp_path / "answers.npy", np.array(TABLE))
    np.savez(tmp_path / "x.npz", x=np.eye(6))
    for data in (
        load(tmp_path / "data.npz", annotators="answers"),
        load(tmp_path / "x.npz", annotations=tmp_path / "answers.npy"),
    ):
        assert data.labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_own_labels_give_way_to_the_consensus(tmp_path: Path) -> None:
    lines = [(name, cells) for name, cells in ANSWERS]
    path = wide_csv(tmp_path, lines, more="cat")
    path.write_text(path.read_text(encoding="utf-8").replace("dog,dog,dog,cat", "dog,dog,dog,dog"), encoding="utf-8")
    assert names(load(path, annotators="ann_*")) == EXPECTED
    path.write_text(path.read_text(encoding="utf-8").replace("cat,cat,dog,cat", "cat,cow,dog,cat"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"1 unknown label \(cow\): labels must be among the 2 classes"):
        load(path, annotators="ann_*")


def test_columns_of_annotators_are_no_features(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [f"{row % 5}.5,{row % 3},{row % 2},{row % 2}" for row in range(20)]
    path.write_text("\n".join(["size,weight,ann_1,ann_2", *rows]) + "\n")
    data = load(path, annotators="ann_*")
    assert data.metadata["features"] == ["size", "weight"]
    assert data.labels.tolist() == [row % 2 for row in range(20)]


def test_images_in_folders(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name)
    said = {"cat/1.png": "cat", "cat/2.png": "dog", "dog/1.png": "dog", "dog/2.png": "cat"}
    lines = [f"{name},{who},{label}" for name, label in said.items() for who in ("ann", "bob")]
    data = load(tmp_path / "photos", annotations=long_csv(tmp_path, lines=lines))
    assert dict(zip(data.ids, names(data), strict=True)) == said


def test_samples_without_answers(tmp_path: Path) -> None:
    path = wide_csv(tmp_path, [*ANSWERS, ("g", ["", "", ""])])
    with pytest.raises(ValueError, match=r"no annotator answered for 1 line \(8\).*drop_empty=True"):
        load(path, annotators="ann_*")
    for options in ({"drop_empty": True}, {"no_label": ""}):
        data = load(path, annotators="ann_*", **options)
        assert (data.ids, answered(data)) == (IDS, WIDE)
    assert data.metadata["left_out"][-1]["names"] == ["g"]


def test_marks_of_missing_answers(tmp_path: Path) -> None:
    marked = [(name, [cell or "?" for cell in cells]) for name, cells in ANSWERS]
    assert answered(load(wide_csv(tmp_path, marked), annotators="ann_*", no_label="?")) == WIDE


def test_similar_labels_are_merged_before_the_consensus(tmp_path: Path) -> None:
    answers = [(name, [cell.upper() if i == 2 else cell for i, cell in enumerate(cells)]) for name, cells in ANSWERS]
    data = load(wide_csv(tmp_path, answers), annotators="ann_*", merge_similar_labels=True)
    assert answered(data) == WIDE


def test_answers_of_a_class_that_no_sample_has_are_left_out(tmp_path: Path) -> None:
    answers = [*ANSWERS, *((name * 2, cells) for name, cells in ANSWERS), ("z", ["cat", "cat", "ctax"])]
    data = load(wide_csv(tmp_path, answers), annotators="ann_*")
    assert data.classes == ("cat", "dog")
    assert answered(data)[-1] == {"ann_1": "cat", "ann_2": "cat"}
    entry = data.metadata["left_out"][-1]
    assert (entry["what"], entry["names"], entry["count"]) == ("answer", ["ctax"], 1)


def test_class_names_and_their_order(tmp_path: Path) -> None:
    data = load(np.eye(6), annotations=TABLE, classes=["no", "yes"])
    assert (data.classes, data.labels.tolist()) == (("no", "yes"), [0, 1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match="labels must be one of the 2 classes"):
        load(wide_csv(tmp_path), annotators="ann_*", classes=["cat", "cow"])


LONG = [f"{name},{who},{label}" for name, label in zip(IDS, EXPECTED, strict=True) for who in ("ann", "bob")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*LONG, "zz,ann,cat"], r"answers to 1 unknown sample \(zz\): they must be ids of the data, such as a"),
        ([*LONG, "a,ann,dog"], r"once for each sample; repeated: 1 answer \(ann for a\)"),
        ([*LONG, "a,ann,cat"], r"repeated: 1 answer \(ann for a\)"),
        ([line for line in LONG if "ann" in line], "only one annotator, 'ann'"),
        (LONG[2:], r"no annotator answered for 1 line \(2\)"),
        ([*LONG, "a,,cat"], r"names no annotator in 1 line \(14\)"),
        ([*LONG, ",ann,cat"], r"names no sample in 1 line \(14\)"),
        ([f"{name},ann," for name in IDS], "no answers of annotators"),
    ],
)
def test_errors_of_the_long_form(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(texts_csv(tmp_path), annotations=long_csv(tmp_path, lines=lines))


def test_other_errors(tmp_path: Path) -> None:
    x = np.eye(6)
    with pytest.raises(ValueError, match=r"no column 'an_\*' of an annotator"):
        load(wide_csv(tmp_path), annotators="an_*")
    with pytest.raises(ValueError, match="only one annotator, 'ann_1'"):
        load(wide_csv(tmp_path), annotators="ann_1")
    with pytest.raises(ValueError, match="3 rows for 6 samples"):
        load(x, annotations=TABLE[:3])
    with pytest.raises(ValueError, match="annotators= and annotations= exclude each other"):
        load(wide_csv(tmp_path), annotators="ann_*", annotations=TABLE)
    with pytest.raises(ValueError, match="labels= and annotations= exclude each other"):
        load(x, labels=[0, 1] * 3, annotations=TABLE)
    with pytest.raises(ValueError, match=r"shape \(N, annotators\), got \(6,\)"):
        load(x, annotations=np.zeros(6, int))
    with pytest.raises(ValueError, match="one row per sample and one column per annotator"):
        load(x, annotations=[[0, 1], [1]])
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(x, annotations=tmp_path / "none.csv")
    (tmp_path / "answers.xlsx").touch()
    with pytest.raises(ValueError, match=r"must be a .csv, .tsv, .parquet or .npy file"):
        load(x, annotations=tmp_path / "answers.xlsx")
    with pytest.raises(ValueError, match="no answers of annotators"):
        load(x, annotations=np.full((6, 3), -1))
    dataset = torch.utils.data.TensorDataset(torch.eye(6), torch.tensor([0, 1] * 3))
    with pytest.raises(ValueError, match="give others with annotations="):
        load(dataset, annotators="y")
    assert load(dataset, annotations=TABLE).labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_reviewed_labels_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "reviewed.csv"
    lines = [
        f"{name},about {name},{','.join(cells)},{'dog' if name == 'a' else 'cow' if name in 'bd' else 'cat'},"
        f"{'chosen' if name in 'abd' else 'given'},cat"
        for name, cells in [*ANSWERS, ("g", ["", "", ""])]
    ]
    path.write_text("\n".join(["id,text,ann_1,ann_2,ann_3,label,label_source,label_original", *lines]) + "\n")
    data = load(path, annotators="ann_*", drop_empty=True)
    assert names(data) == ["dog", "cow", "cat", "cow", "cat", "dog"]
    assert data.trusted is not None
    assert data.trusted.tolist() == [True, True, False, True, False, False]
    assert answered(data) == WIDE
    by_mask = load(path, annotators="ann_*", gold=[True, *[False] * 5, True])
    assert names(by_mask) == ["dog", *EXPECTED[1:], "cat"]
    assert answered(by_mask)[-1] == {}


def test_built_in_sets_have_no_annotators() -> None:
    with pytest.raises(ValueError, match="digits is a built-in dataset"):
        load("digits", annotations=TABLE)
