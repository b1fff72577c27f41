"""``find_label_errors`` with data: paths, frames and arrays, and labels and probabilities in many forms."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import permll
from permll.cleaning.apply.api import apply
from permll.data.loading import load
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.cleaning_files import write_dataset
from tests.helpers.given_predictions import accept_flagged, probabilities, wrong_rows
from tests.helpers.mislabeled_data import CLASSES, mislabeled

P = probabilities(map(str, range(200)))


def frame(**columns: Any) -> pd.DataFrame:
    known = mislabeled()
    values = {f"size {k}": known.values[:, k] for k in range(3)}
    return pd.DataFrame({**values, "kind": known.labels, **columns})


def same(one: Findings, other: Findings) -> bool:
    return np.array_equal(one.label_quality, other.label_quality) and one.classes == other.classes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_dataset("table", tmp_path)
    return tmp_path / "table.csv"


def test_findings_are_those_without_data(path: Path) -> None:
    alone = permll.find_label_errors(mislabeled().labels, P)
    found = permll.find_label_errors(None, P, data=path)
    assert same(alone, found)
    assert np.array_equal(alone.is_issue, found.is_issue)
    assert (found.conservative_confidence <= alone.conservative_confidence).all()  # none into rare classes
    assert found.metadata["source"] == str(path)
    assert found.metadata["run"] == ""


@pytest.mark.parametrize("labels", ["names", "numbers", "series", None])
def test_labels_of_a_file_are_checked(labels: str | None, path: Path) -> None:
    known = mislabeled()
    forms: dict[str | None, Any] = {"names": known.labels, "numbers": known.given, "series": pd.Series(known.labels)}
    found = permll.find_label_errors(forms.get(labels), P, data=path)
    assert same(found, permll.find_label_errors(None, P, data=path))
    if labels is not None:
        other = forms[labels][::-1]
        with pytest.raises(
            ValueError, match=r"^labels differ from those of .*table.csv for \d+ samples .*: leave labels"
        ):
            permll.find_label_errors(list(other), P, data=path)


@pytest.mark.parametrize("form", ["pandas", "pandas with index", "polars", "tensor", "list", "numpy"])
def test_forms_of_probabilities(form: str, path: Path) -> None:
    shuffled = pd.DataFrame(P, columns=CLASSES).sample(frac=1, random_state=0)
    forms: dict[str, Any] = {
        "pandas": pd.DataFrame(P[:, ::-1], columns=CLASSES[::-1]),
        "pandas with index": shuffled,
        "polars": pl.DataFrame(P, schema=list(CLASSES)).with_columns(id=pl.int_range(200).cast(pl.String)).reverse(),
        "tensor": torch.from_numpy(P),
        "list": P.tolist(),
        "numpy": P,
    }
    found = permll.find_label_errors(None, forms[form], data=path)
    assert same(found, permll.find_label_errors(None, P, data=path))


def test_frame_with_class_names_orders_columns_without_data() -> None:
    known = mislabeled()
    found = permll.find_label_errors(known.labels, pd.DataFrame(P[:, ::-1], columns=CLASSES[::-1]))
    assert found.classes == CLASSES[::-1]
    expected = permll.find_label_errors(known.labels, P)
    assert np.allclose(found.label_quality, expected.label_quality, atol=1e-5)


def test_probabilities_of_a_shuffled_frame_follow_its_index() -> None:
    data = frame().sample(frac=1, random_state=1)
    p = pd.DataFrame(P, columns=CLASSES).loc[data.index]
    in_order = permll.find_label_errors(None, p.to_numpy(), data=data, label="kind")
    assert same(in_order, permll.find_label_errors(None, p, data=data, label="kind"))
    assert same(in_order, permll.find_label_errors(None, p[::-1], data=data, label="kind"))


def test_class_without_a_label_can_be_proposed(path: Path) -> None:
    extra = np.column_stack([0.9 * P, 0.1 * np.ones(200)])
    extra[5] = [0.01, 0.01, 0.01, 0.97]
    found = permll.find_label_errors(None, pd.DataFrame(extra, columns=[*CLASSES, "newt"]), data=path)
    assert found.classes == (*CLASSES, "newt")


def test_order_of_categories_needs_names(tmp_path: Path) -> None:
    """Categories that are ordered by meaning: an array in sorted order would be read in the wrong one."""
    order = ["cow", "ant", "bee"]
    data = frame(kind=pd.Categorical(mislabeled().labels, categories=order, ordered=True))
    with pytest.raises(ValueError, match=r"has classes in an order of its own \(cow, ant, bee\)"):
        permll.find_label_errors(None, P, data=data, label="kind")
    named = permll.find_label_errors(None, pd.DataFrame(P, columns=CLASSES), data=data, label="kind")
    ordered = permll.find_label_errors(None, P[:, [2, 0, 1]], data=data, label="kind", classes=order)
    assert named.classes == ("cow", "ant", "bee")
    assert same(named, ordered)


def test_integers_above_nine_are_in_order() -> None:
    labels = np.arange(240) % 12
    p = 0.9 * np.eye(12)[labels] + 0.1 / 12
    labels[:6] = (labels[:6] + 1) % 12
    data = pd.DataFrame({"size": np.random.default_rng(0).random(240), "label": labels})
    found = permll.find_label_errors(None, p, data=data)
    assert found.classes == tuple(map(str, range(12)))
    assert set(np.flatnonzero(found.is_issue)) <= set(range(6))


MEMORY: dict[str, Any] = {
    "pandas": lambda: {"data": frame(), "label": "kind"},
    "pandas with labels": lambda: {"data": frame().drop(columns="kind"), "labels": mislabeled().labels},
    "polars": lambda: {"data": pl.from_pandas(frame()), "label": "kind"},
    "texts": lambda: {"data": [f"word {k} – “ü”" for k in mislabeled().true], "labels": mislabeled().labels},
    "numpy": lambda: {"data": mislabeled().values, "labels": np.array(mislabeled().labels)},
    "tensor": lambda: {"data": torch.from_numpy(mislabeled().values), "labels": mislabeled().labels},
    "images": lambda: {"data": np.zeros((200, 6, 6), np.uint8), "labels": mislabeled().labels},
    "dict": lambda: {"data": {"x": mislabeled().values, "y": np.array(mislabeled().labels)}},
    "LabeledData": lambda: {"data": load(mislabeled().values, labels=mislabeled().labels)},
}


@pytest.mark.parametrize("form", MEMORY)
def test_data_in_memory_lead_to_a_corrected_file(form: str, tmp_path: Path) -> None:
    options = MEMORY[form]()
    labels = options.pop("labels", None)
    found = permll.find_label_errors(labels, P, out=tmp_path / "run", **options)
    again = permll.find_label_errors(labels, P, out=tmp_path / "run", **options)
    assert same(found, again)
    wrong = mislabeled().wrong
    accepted = accept_flagged(tmp_path / "run")
    assert accepted <= wrong
    assert len(accepted) >= 0.8 * len(wrong)
    section = Run(tmp_path / "run").recipe.data
    fixed = tmp_path / f"fixed{Path(section.source).suffix}"
    apply(tmp_path / "run", fixed)
    assert wrong_rows(fixed, **section.options) == wrong - accepted


def test_column_names_of_a_stored_frame_do_not_collide(tmp_path: Path) -> None:
    data = frame(id=np.arange(200) % 7, label=np.random.default_rng(1).random(200))
    permll.find_label_errors(None, P, data=data, label="kind", out=tmp_path / "run")
    columns = pl.read_parquet(tmp_path / "run" / "samples.parquet").columns
    assert {"id", "label", "id_", "label_"} <= set(columns)
    assert accept_flagged(tmp_path / "run") <= mislabeled().wrong


def test_gold_labels_are_not_flagged(path: Path) -> None:
    gold = np.isin(np.arange(200), list(mislabeled().wrong))
    found = permll.find_label_errors(None, P, data=path, gold=gold)
    assert not found.is_issue[gold].any()
    assert (found.label_quality[gold] == 1).all()
    assert found.is_reviewed[gold].all()


def test_features_give_neighbors(path: Path) -> None:
    known = mislabeled()
    found = permll.find_label_errors(None, P, data=path, features=known.values)
    assert found.neighbors.shape == (200, 8)
    assert (known.true[found.neighbors[0]] == known.true[0]).all()
    expected = permll.find_label_errors(known.labels, P, features=known.values)
    assert np.allclose(found.label_quality, expected.label_quality, atol=1e-6)


def test_duplicates_with_different_labels_are_found() -> None:
    known = mislabeled()
    values = known.values.copy()
    row = next(iter(known.wrong))
    twin = next(other for other in range(200) if other not in known.wrong and known.given[other] != known.given[row])
    values[twin] = values[row]
    found = permll.find_label_errors(known.labels, P, data=values)
    assert [set(rows) for rows in found.duplicates] == [{row, twin}]
    assert found.conservative_confidence[[row, twin]].tolist() == [0, 0]


def test_images_of_a_folder_are_matched_by_path(tmp_path: Path) -> None:
    write_dataset("images", tmp_path)
    data = load(tmp_path / "images")
    p = pd.DataFrame(probabilities(data.ids), columns=CLASSES, index=list(data.ids))
    found = permll.find_label_errors(None, p[::-1], data=tmp_path / "images")
    assert same(found, permll.find_label_errors(None, p.to_numpy(), data=tmp_path / "images"))


def test_arguments_that_need_data_or_labels(path: Path) -> None:
    labels = mislabeled().labels
    with pytest.raises(ValueError, match=r"1 argument \(out=\) need data: pass the samples as data=\.$"):
        permll.find_label_errors(labels, P, out="run")
    with pytest.raises(ValueError, match="there are no labels: pass them, or data= that have some"):
        permll.find_label_errors(None, P)
    with pytest.raises(TypeError, match="unexpected keyword 'lable', did you mean label"):
        permll.find_label_errors(None, P, data=path, lable="kind")
    with pytest.raises(ValueError, match=r"pred_probs has 199 rows, but .*table.csv has 200 labeled samples: give one"):
        permll.find_label_errors(None, P[1:], data=path)
    with pytest.raises(ValueError, match=r"must have shape \(N, c\) with c >= 2, got \(200, 1\)"):
        permll.find_label_errors(None, P[:, :1], data=path)
