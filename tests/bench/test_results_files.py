"""CSV files of results: the machine columns of each row."""

from pathlib import Path

import pytest
from benchmarks import timing
from benchmarks.timing import machine_columns, read_csv, write_csv


def test_rows_of_another_machine_keep_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "RESULTS", tmp_path)
    old = {"set": "a", "seed": "1", **machine_columns(), "cpu": "another", "date": "2020-01-01"}
    write_csv("some", [old])
    write_csv("some", [*read_csv("some"), {"set": "b", "seed": 2}])
    assert read_csv("some") == [old, {"set": "b", "seed": "2", **machine_columns()}]
    assert list(read_csv("some")[0]) == ["set", "seed", *machine_columns()]
