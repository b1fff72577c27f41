"""Findings: consistent with one posterior, and unchanged by save and load."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll import findings
from permll.findings import CSV_FILE, PARQUET_FILE, Findings


def some(rows: int = 50, classes: int = 4, seed: int = 0, **more: object) -> Findings:
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(classes, 0.5), rows)
    labels = rng.integers(0, classes, rows)
    ids = [f"row-{i}" for i in range(rows)]
    return Findings.from_posterior(ids, [f"class {k}" for k in range(classes)], labels, posterior, **more)  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(2, 12), st.integers(0, 1000))
def test_findings_are_consistent(rows: int, classes: int, seed: int) -> None:
    found = some(rows, classes, seed)
    rows_found = found.head(None)
    count = sum(one.is_issue for one in rows_found)
    assert count == int(found.is_issue.sum())
    assert [one.rank for one in rows_found] == list(range(1, rows + 1))
    assert all(one.is_issue for one in rows_found[:count])  # the flagged come first
    for part in (rows_found[:count], rows_found[count:]):
        assert [one.label_quality for one in part] == sorted(one.label_quality for one in part)
    for one in rows_found:
        assert one.confidence >= one.label_quality
        assert one.is_issue == (one.proposed_label != one.given_label and one.label_quality <= found.threshold)


def test_findings_save_and_load(tmp_path: Path) -> None:
    rows = 20
    kept = {"reasons": np.arange(rows) % 16, "neighbors": np.ones((rows, 3)), "duplicates": ((1, 2), (4, 7, 9))}
    found = some(rows, **kept, threshold=0.3, metadata={"method": "permll"})
    found.save(tmp_path)
    again = Findings.load(tmp_path)
    assert again.head(None) == found.head(None)
    assert again.duplicates == found.duplicates
    assert again.metadata == found.metadata
    assert again.neighbors.dtype == np.int32
    assert [again.class_probs(row) for row in range(rows)] == [found.class_probs(row) for row in range(rows)]


def test_findings_csv_is_ordered_by_rank(tmp_path: Path) -> None:
    found = some(30)
    found.save(tmp_path)
    with (tmp_path / CSV_FILE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [one.id for one in found.head(None)]
    assert [float(row["label_quality"]) for row in rows] == [one.label_quality for one in found.head(None)]


def test_findings_parquet_equals_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars", reason="no polars here: pip install 'permll[table]'")
    found = some(30, reasons=np.arange(30) % 16)
    found.save(tmp_path)
    frame = pl.read_parquet(tmp_path / PARQUET_FILE)
    assert frame.rows() == [tuple(one)[: len(found.column_names)] for one in found.head(None)]
    with (tmp_path / CSV_FILE).open(newline="") as file:
        assert [frame.columns, *([str(cell) for cell in row] for row in frame.rows())] == list(csv.reader(file))
    monkeypatch.setattr(findings, "find_spec", lambda _: None)  # as where polars is not installed
    some(10).save(tmp_path)
    assert not (tmp_path / PARQUET_FILE).exists()  # rather none than one of other findings
    assert len((tmp_path / CSV_FILE).read_text().splitlines()) == 11


def test_findings_load_refuses_folder_without_findings(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no findings: permll clean DATA"):
        Findings.load(tmp_path)
