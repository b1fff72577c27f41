"""Parquet files of pandas: index, nullable integers and ordered categories are read and kept."""

from pathlib import Path

import pandas as pd
import pytest

import permll
from permll.cleaning.apply import apply
from tests.helpers.apply_runs import CLASSES, ROWS, feature_array, label_of, make_run

ORDER = ["owl", "cat", "dog", "fish"]


def frame() -> pd.DataFrame:
    sizes = [None if row == 7 else 3 * row for row in range(ROWS)]
    columns = {
        "size": pd.array(sizes, dtype="Int64"),
        "weight": feature_array()[:, 0],
        "grade": pd.Categorical(["low", "high"] * (ROWS // 2), ["low", "middle", "high"], ordered=True),
        "label": pd.Categorical([label_of(row) for row in range(ROWS)], ORDER, ordered=True),
    }
    return pd.DataFrame(columns, index=pd.Index([f"r{row}" for row in range(ROWS)], name="key"))


def test_parquet_of_pandas_is_read_like_the_frame(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "data.parquet")
    one, other = permll.data.load(frame()), permll.data.load(tmp_path / "data.parquet")
    assert one.ids == other.ids == tuple(f"r{row}" for row in range(ROWS))
    assert one.classes == other.classes == ("owl", "cat", "dog")
    assert list(one.inputs.columns) == list(other.inputs.columns) == ["size", "weight", "grade"]


def test_index_that_is_not_unique_is_no_feature(tmp_path: Path) -> None:
    frame().reset_index(drop=True).set_index(pd.Index([0, 1] * (ROWS // 2))).to_parquet(tmp_path / "data.parquet")
    data = permll.data.load(tmp_path / "data.parquet")
    assert data.ids == tuple(map(str, range(ROWS)))
    assert list(data.inputs.columns) == ["size", "weight", "grade"]


def test_apply_keeps_types_of_pandas(tmp_path: Path) -> None:
    before = frame()
    before.to_parquet(tmp_path / "data.parquet")
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"r3": ("dog", 0.99)})
    apply(run, tmp_path / "new.parquet", auto=True)
    after = pd.read_parquet(tmp_path / "new.parquet")
    expected = before.assign(label_original=before["label"], label_source="given")
    expected.loc["r3", ["label", "label_source"]] = ["dog", "auto"]
    pd.testing.assert_frame_equal(after, expected, check_dtype=False)
    assert [str(after[name].dtype) for name in ("size", "weight")] == ["Int64", "float32"]
    for name in ("label", "label_original"):
        assert after[name].cat.ordered
        assert after[name].cat.categories.tolist() == ORDER
    assert set(CLASSES) == set(after["label"])


@pytest.mark.parametrize("kind", ["Int64", "string"])
def test_apply_keeps_type_of_labels(kind: str, tmp_path: Path) -> None:
    before = frame().assign(label=pd.array([row % 3 for row in range(ROWS)], dtype="Int64").astype(kind))
    before.to_parquet(tmp_path / "data.parquet")
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"r3": ("2", 0.99)})
    apply(run, tmp_path / "new.parquet", auto=True)
    after = pd.read_parquet(tmp_path / "new.parquet")
    assert after["label"].dtype == after["label_original"].dtype == before["label"].dtype
    assert (after["label"]["r3"], after["label_original"]["r3"]) == ((2, 0) if kind == "Int64" else ("2", "0"))
