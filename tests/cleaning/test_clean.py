"""``permll.clean``: label issues of any form of data, consistent in memory and on disk."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import permll
from permll.findings import CSV_FILE, Finding, Findings
from permll.training import Callback, Run
from tests.helpers.mislabeled_data import CLASSES, mislabeled

EPOCHS = 6


class NoStep(Callback):
    """Fails if anything is trained."""

    def on_step_end(self, trainer: Any) -> None:  # noqa: ARG002
        raise AssertionError("a finished run is only read")


def clean(*data: Any, out: Path, **options: Any) -> Findings:
    return permll.clean(*data, out=out, epochs=EPOCHS, **{"callbacks": []} | options)


def forms() -> dict[str, tuple[Any, ...]]:
    """Return the same rows as arrays, as a data frame, and as ``LabeledData``."""
    rows = mislabeled()
    columns = {f"x{number}": rows.values[:, number].tolist() for number in range(rows.values.shape[1])}
    return {
        "arrays": (rows.values, rows.labels),
        "frame": (pd.DataFrame({**columns, "label": rows.labels}),),
        "data": (permll.data.load(rows.values, labels=rows.labels),),
    }


def cells(one: Finding, found: Findings) -> list[str]:
    values = (getattr(one, name) for name in found.column_names)
    return ["" if value is None else str(value) for value in values]


def check_agreement(found: Findings, folder: Path) -> None:
    """Check that issues, ranks and proposals are consistent, in memory and on disk."""
    rows_found = found.head(None)
    flagged = int(found.is_issue.sum())
    assert [one.rank for one in rows_found] == list(range(1, len(found) + 1))
    assert [one.is_issue for one in rows_found] == [True] * flagged + [False] * (len(found) - flagged)
    for one in rows_found:
        assert 0 <= one.label_quality <= 1
        assert 0 <= one.conservative_confidence <= one.confidence <= 1
        assert one.is_issue == (one.label_quality <= found.threshold)
    for row in range(len(found)):
        assert found[row] == rows_found[int(found.rank[row]) - 1]
        assert next(iter(found.class_probs(row))) == found[row].proposed_label
    assert Findings.load(folder).head(None) == rows_found
    with (folder / CSV_FILE).open(newline="") as file:
        assert list(csv.reader(file)) == [list(found.column_names), *(cells(one, found) for one in rows_found)]


@pytest.mark.parametrize("form", ["arrays", "frame", "data"])
def test_clean_finds_wrong_labels_in_every_form(form: str, tmp_path: Path) -> None:
    rows = mislabeled()
    found = clean(*forms()[form], out=tmp_path / "run")
    assert found.ids == tuple(map(str, range(len(rows.given))))
    assert found.classes == CLASSES
    assert found.given_labels.tolist() == rows.given.tolist()
    check_agreement(found, tmp_path / "run")
    flagged = set(np.flatnonzero(found.is_issue).tolist())
    assert len(flagged & rows.wrong) > len(rows.wrong) / 2
    assert len(flagged - rows.wrong) <= 3
    assert len(rows.wrong & set(found.order[: len(rows.wrong)].tolist())) >= 0.9 * len(rows.wrong)
    proposed = found.proposed_labels[sorted(flagged & rows.wrong)]
    is_right, is_given = (proposed == labels[sorted(flagged & rows.wrong)] for labels in (rows.true, rows.given))
    assert (is_right | is_given).all()
    assert is_right.mean() > 0.8


@pytest.mark.parametrize("method", ["ce", "elr"])
def test_clean_takes_any_method(method: str, tmp_path: Path) -> None:
    rows = mislabeled()
    found = clean(rows.values, rows.labels, out=tmp_path / "run", method=method)
    assert Run(tmp_path / "run").recipe.method.name == found.metadata["method"] == method
    check_agreement(found, tmp_path / "run")
    assert len(rows.wrong & set(found.order[: len(rows.wrong)].tolist())) >= 0.9 * len(rows.wrong)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of features that was cleaned, with its run beside it."""
    rows = mislabeled()
    path = tmp_path_factory.mktemp("source") / "vectors.npz"
    np.savez(path, x=rows.values, y=np.array(rows.labels))
    clean(path, out=path.parent / "run")
    return path


def test_clean_threshold_changes_only_issues(source: Path) -> None:
    run = source.parent / "run"
    before = Findings.load(run)
    counts = []
    for threshold in (1.0, 0.5, 0.1, 0.0):
        found = clean(source, out=run, threshold=threshold, callbacks=[NoStep()])
        assert found.threshold == threshold
        assert found.label_quality.tolist() == before.label_quality.tolist()
        check_agreement(found, run)
        counts.append(int(found.is_issue.sum()))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == len(before)
    assert counts[1] == pytest.approx(before.metadata["noise"]["rate"] * len(before), abs=1)  # two groups are rounded
    assert counts[1] > 0
    assert counts[-1] == 0


def test_clean_only_reads_finished_run(source: Path) -> None:
    run = source.parent / "run"
    found = clean(source, out=run)
    stamps = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    again = clean(source, out=run, callbacks=[NoStep()])
    assert again.head(None) == found.head(None)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == stamps
    with pytest.raises(ValueError, match="is a run of another recipe"):
        clean(source, out=run, method="ce")


def test_clean_recognizes_data_in_memory(tmp_path: Path) -> None:
    rows = mislabeled(90)
    found = clean(rows.values, rows.labels, out=tmp_path / "run")
    again = clean(rows.values, rows.labels, out=tmp_path / "run", callbacks=[NoStep()])
    for name in ("given_labels", "top_classes", "top_probs", "label_quality", "neighbors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    with pytest.raises(ValueError, match="was started with other labels for 1 sample"):
        clean(rows.values, [*rows.labels[:-1], "ant" if rows.labels[-1] != "ant" else "bee"], out=tmp_path / "run")


def test_clean_reports_conflicting_duplicates(tmp_path: Path) -> None:
    rows = mislabeled(60)
    values = rows.values.copy()
    values[[3, 4]] = values[0]
    labels = ["ant", *rows.labels[1:3], "bee", "bee", *rows.labels[5:]]
    found = clean(values, labels, out=tmp_path / "run")
    assert found.duplicates == ((0, 3, 4),)
    for row in (0, 3, 4):
        assert "an exact duplicate has another label" in found[row].reason


def test_clean_refuses_data_without_labels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs labels: give them with labels=\."):
        clean(torch.zeros(20, 3), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
