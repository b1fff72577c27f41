"""Splits and folds that keep groups together, and groups as readers find them."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data import load, split
from permll.data.readers.options import check_keywords
from permll.data.splits import grouped_split, stratified_split
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.command_line import run_process
from tests.helpers.mislabeled_data import mislabeled


def groups_of(rows: int, count: int, seed: int = 0) -> list[str]:
    return [f"ärztin {k}" for k in np.random.default_rng(seed).integers(0, count, rows)]


@given(rows=st.integers(60, 300), groups=st.integers(12, 40), fraction=st.floats(0.1, 0.4), seed=st.integers(0, 99))
def test_a_group_is_on_one_side(rows: int, groups: int, fraction: float, seed: int) -> None:
    labels = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, rows))
    names = groups_of(rows, groups, seed)
    parts = grouped_split(labels, names, fraction, seed)
    held_out = {names[row] for row in parts.validation.tolist()}
    assert not held_out & {names[row] for row in parts.train.tolist()}
    assert torch.equal(torch.cat([parts.train, parts.validation]).sort().values, torch.arange(rows))
    largest = max(names.count(name) for name in set(names))
    assert abs(len(parts.validation) - fraction * rows) <= 2 * largest
    assert set(labels[parts.train].tolist()) == set(labels.tolist()), "every label keeps a training row"
    assert parts.metadata["kind"] == "grouped"
    assert parts.metadata["groups"] == len(held_out)


def test_grouped_split_keeps_class_proportions() -> None:
    labels = torch.from_numpy(np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [1000, 500, 100])))
    drawn = labels[grouped_split(labels, groups_of(1600, 200), 0.2, 0).validation].bincount(minlength=3) / 320
    np.testing.assert_allclose(drawn.numpy(), [1000 / 1600, 500 / 1600, 100 / 1600], atol=0.03)


def test_grouped_split_is_seeded() -> None:
    labels, names = torch.arange(200) % 4, groups_of(200, 30)
    one, same, other = (grouped_split(labels, names, 0.2, seed) for seed in (0, 0, 1))
    assert torch.equal(one.validation, same.validation)
    assert not torch.equal(one.validation, other.validation)


@pytest.mark.parametrize("names", [["one"] * 20, ["a"] * 10 + ["b"] * 10])
def test_groups_that_cannot_be_divided_are_refused(names: list[str]) -> None:
    labels = torch.tensor([0] * 10 + [1] * 10)  # with two groups, each is all of a label
    with pytest.raises(ValueError, match="no group can be held out"):
        grouped_split(labels, names, 0.2, 0)


def test_wrong_number_of_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="groups must have one name per label: got 3 for 4 labels"):
        grouped_split(torch.tensor([0, 1, 0, 1]), ["a", "b", "c"], 0.5, 0)


def test_split_of_data_uses_groups() -> None:
    x = np.random.default_rng(0).normal(size=(100, 3))
    labels, names = ["cat", "dog"] * 50, groups_of(100, 20)
    data = load(x, labels=labels, groups=names)
    assert data.groups == tuple(names)
    train, held_out = split(data, 0.2)
    assert train.groups is not None
    assert held_out.groups is not None
    assert not set(train.groups) & set(held_out.groups)
    assert torch.equal(
        split(load(x, labels=labels), 20)[1].labels, data.labels[stratified_split(data.labels, 20, 0).validation]
    )


def frame(**more: Any) -> pl.DataFrame:
    return pl.DataFrame({"x": [0.1, 0.2, 0.3, 0.4], "label": ["a", "b", "a", "b"], **more})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_groups_column_is_no_feature(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{suffix}"
    table = frame(patient=[7, 7, 9, 9])
    table.write_csv(path) if suffix == "csv" else table.write_parquet(path)
    data = load(path, groups="patient")
    assert data.groups == ("7", "7", "9", "9")
    assert list(data.inputs.columns) == ["x"]  # type: ignore[attr-defined]
    assert data.take([3, 0]).groups == ("9", "7")


def test_groups_of_arrays_follow_rows_that_are_left_out(tmp_path: Path) -> None:
    x = np.zeros((4, 2), np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=["a", "", "a", "b"], who=["p", "q", "r", "s"])
    data = load(tmp_path / "a.npz", groups="who", no_label="", rare="keep")
    assert data.groups == ("p", "r", "s")


def test_groups_of_a_hugging_face_dataset() -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"text": ["so good", "too bad", "great", "poor"], "label": [1, 0, 1, 0], "writer": ["a", "a", "b", "b"]}
    assert load(datasets.Dataset.from_dict(rows), groups="writer").groups == ("a", "a", "b", "b")


def test_invalid_groups_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the group is empty in 1 row \(2\): every sample needs one\."):
        load(frame(patient=["a", "b", None, "c"]), groups="patient")
    with pytest.raises(ValueError, match="patiant"):
        load(frame(patient=["a", "b", "c", "d"]), groups="patiant")
    x = np.zeros((4, 2))
    with pytest.raises(ValueError, match=r"groups has 3 values for 4 rows\.$"):
        load(x, labels=["a", "b"] * 2, groups=["p", "p", "q"])
    with pytest.raises(ValueError, match=r"groups='who' names a column, but there are none"):
        load(x, labels=["a", "b"] * 2, groups="who")
    with pytest.raises(ValueError, match=r"groups must be a list \(one group per sample\)"):
        load(x, labels=["a", "b"] * 2, groups=3)
    assert check_keywords({"groups": None}, "read") == {}


def test_clean_holds_out_whole_groups(tmp_path: Path) -> None:
    data = mislabeled(240)
    names = groups_of(240, 30)
    columns = {f"x{k}": data.values[:, k] for k in range(data.values.shape[1])}
    pl.DataFrame({**columns, "label": data.labels, "patient": names}).write_csv(tmp_path / "table.csv")
    out = tmp_path / "run"
    result = run_process("clean", tmp_path / "table.csv", "--groups", "patient", "--out", out, "--epochs", "2")
    assert result.returncode == 0, result.stderr
    labels = Run(out).labels
    group = dict(enumerate(names))
    held_out = {group[int(name)] for name in labels.validation_ids}
    assert held_out
    assert not held_out & {group[int(name)] for name in labels.ids}
    assert Findings.load(out).metadata["groups"] == {"held_out": len(held_out), "total": len(set(names))}
