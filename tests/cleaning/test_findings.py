"""Findings: one posterior says everything, and what is saved comes back."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning import findings
from permll.findings import CSV, PARQUET, Findings


def some(rows: int = 50, classes: int = 4, seed: int = 0, **more: object) -> Findings:
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(classes, 0.5), rows)
    labels = rng.integers(0, classes, rows)
    ids = [f"row-{i}" for i in range(rows)]
    return Findings.from_posterior(ids, [f"class {k}" for k in range(classes)], labels, posterior, **more)  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(2, 12), st.integers(0, 1000))
def test_flags_ranks_and_proposals_agree(rows: int, classes: int, seed: int) -> None:
    found = some(rows, classes, seed)
    format_list = found.head()
    count = sum(one.flagged for one in format_list)
    assert count == int(found.is_issue.sum())
    assert [one.rank for one in format_list] == list(range(1, rows + 1))
    assert all(one.flagged for one in format_list[:count])  # the flagged come first
    for part in (format_list[:count], format_list[count:]):
        assert [one.quality for one in part] == sorted(one.quality for one in part)
    for one in format_list:
        assert one.belief >= one.quality
        assert one.flagged == (one.proposed != one.given and one.quality <= found.threshold)


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    rows = 20
    kept = {"reasons": np.arange(rows) % 16, "neighbors": np.ones((rows, 3)), "duplicates": ((1, 2), (4, 7, 9))}
    found = some(rows, **kept, threshold=0.3, metadata={"method": "permll"})
    found.save(tmp_path)
    again = Findings.load(tmp_path)
    assert again.first() == found.head()
    assert again.duplicates == found.duplicates
    assert again.metadata == found.metadata
    assert again.neighbors.dtype == np.int32
    assert [again.class_probs(row) for row in range(rows)] == [found.class_probs(row) for row in range(rows)]


def test_the_csv_has_a_line_for_every_label_the_most_suspect_first(tmp_path: Path) -> None:
    found = some(30)
    found.save(tmp_path)
    with (tmp_path / CSV).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [one.id for one in found.head()]
    assert [float(row["quality"]) for row in rows] == [one.quality for one in found.head()]


def test_the_parquet_file_is_the_csv_with_its_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars", reason="no polars here: pip install 'permll[table]'")
    found = some(30, reasons=np.arange(30) % 16)
    found.save(tmp_path)
    frame = pl.read_parquet(tmp_path / PARQUET)
    assert frame.rows() == [tuple(one) for one in found.head()]
    with (tmp_path / CSV).open(newline="") as file:
        assert [frame.columns, *([str(cell) for cell in row] for row in frame.rows())] == list(csv.reader(file))
    monkeypatch.setattr(findings, "find_spec", lambda _: None)  # as where polars is not installed
    some(10).save(tmp_path)
    assert not (tmp_path / PARQUET).exists()  # rather none than one of other findings
    assert len((tmp_path / CSV).read_text().splitlines()) == 11


def test_a_folder_without_findings_says_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no findings: permll clean DATA"):
        Findings.load(tmp_path)
