"""Gold labels: which labels the readers take as reviewed by a person."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from permll.data import LabeledData, load

X = [[0.1, 2.0], [0.3, 1.0], [5.0, 0.2], [4.0, 0.1]]
LABELS = ["cat", "cat", "dog", "dog"]


def frame(**columns: Any) -> pl.DataFrame:
    inputs = {"a": [row[0] for row in X], "b": [row[1] for row in X], "label": LABELS}
    return pl.DataFrame({**inputs, **columns}, strict=False)


def trusted(data: LabeledData) -> list[bool]:
    return [] if data.trusted is None else data.trusted.tolist()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("values", [[True, False, False, True], ["yes", "no", "", "TRUE"], [1, 0, None, 1]])
def test_gold_column_of_a_table(suffix: str, values: list[Any], tmp_path: Path) -> None:
    table, path = frame(checked=values), tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path, separator="\t" if suffix == "tsv" else ",")
    data = load(path, gold="checked")
    assert trusted(data) == [True, False, False, True]
    assert data.metadata["features"] == ["a", "b"]
    assert load(path, features=["a", "b"]).trusted is None


def test_history_of_apply_is_gold(tmp_path: Path) -> None:
    sources = ["kept", "given", "auto", "chosen"]
    assert trusted(load(frame(label_original=LABELS, label_source=sources))) == [True, False, False, True]
    assert load(frame(label_original=LABELS, label_source=["given", "auto", "unsure", "given"])).trusted is None
    np.savez(tmp_path / "a.npz", x=np.array(X), y=np.array(LABELS), label_original=LABELS, label_source=sources)
    assert trusted(load(tmp_path / "a.npz")) == [True, False, False, True]


def test_mask_of_arrays_follows_the_rows(tmp_path: Path) -> None:
    mask = [True, True, False, False]
    data = load(np.array(X), labels=["cat", "", "cat", "dog"], gold=mask, no_label="", rare="keep")
    assert dict(zip(data.ids, trusted(data), strict=True)) == {"0": True, "2": False, "3": False}
    np.savez(tmp_path / "a.npz", x=np.array(X), y=np.array(LABELS), sure=[0, 0, 1, 1])
    assert trusted(load(tmp_path / "a.npz", gold="sure").take([3, 0])) == [True, False]


def test_gold_of_a_dataset() -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"text": ["a cat", "cats", "a dog", "dogs"], "label": LABELS, "checked": [False, True, True, False]}
    assert trusted(load(datasets.Dataset.from_dict(rows), gold="checked")) == [False, True, True, False]


def test_invalid_gold_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"gold must be true or false, but is 'maybe' in 1 row \(2\)\."):
        load(frame(checked=["yes", "no", "maybe", ""]), gold="checked")
    with pytest.raises(ValueError, match=r"gold has 3 values for 4 rows\.$"):
        load(np.array(X), labels=LABELS, gold=[True, False, True])
    with pytest.raises(ValueError, match="checkt"):
        load(frame(checked=[True] * 4), gold="checkt")
    with pytest.raises(ValueError, match=r"gold must be a list \(true or false for each sample\)"):
        load(np.array(X), labels=LABELS, gold=3)
