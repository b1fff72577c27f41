"""``read``: imports, and the same data from different sources."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import torch
from datasets import Dataset

from permll.data.readers import read
from tests.helpers.reader_files import write

HEAVY = {"PIL", "polars", "pandas", "datasets", "sklearn", "scipy", "rich", "pyarrow"}


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(shown.stdout.split())


def test_read_imports_nothing_heavy() -> None:
    added = modules_after("import permll.data.readers, permll.data.encoding") - modules_after("import torch")
    assert "permll" in added
    assert not added & HEAVY


def test_read_gives_same_data_from_many_sources(tmp_path: Path) -> None:
    x = np.array([[0.5, 1.0], [2.0, 3.5], [4.0, 0.0], [1.0, 1.5]])
    answers = ["ja", "nein", "nein", "ja"]
    columns = {"a": x[:, 0], "b": x[:, 1], "y": answers}
    rows = "".join(f"{a},{b},{word}\n" for (a, b), word in zip(x, answers, strict=True))
    sources = [
        write(tmp_path / "a.csv", "a,b,y\n" + rows),
        pl.DataFrame(columns),
        pd.DataFrame(columns),
        Dataset.from_dict({name: list(column) for name, column in columns.items()}),
    ]
    tables = [read(source) for source in sources]
    for data in tables:
        assert data.classes == ("ja", "nein")
        assert data.ids == ("0", "1", "2", "3")
        assert data.labels.tolist() == [0, 1, 1, 0]
        np.testing.assert_array_equal(np.stack(list(data.inputs.columns.values()), 1), x)
    vectors = read(x, labels=answers)
    assert torch.equal(vectors.labels, tables[0].labels)
    np.testing.assert_array_equal(vectors.inputs.values, x)


def test_metadata_describes_source(tmp_path: Path) -> None:
    path = write(
        tmp_path / "flowers.csv",
        "id;size;land;kind\nx1;1;de;rose\nx2;2;de;\nx3;3;de;rose\nx4;5;de;tulip\nx5;4;de;tulip\n",
    )
    data = read(path, label="kind", id="id", no_label="")
    assert data.metadata == {
        "name": "flowers",
        "source": str(path),
        "separator": ";",
        "label": "kind",
        "kind": "table",
        "features": ["size"],
        "left_out": [
            {"what": "column", "why": "the same in every row", "count": 1, "names": ["land"]},
            {"what": "row", "why": "no label ('')", "count": 1, "names": ["x2"]},
        ],
    }
    assert repr(data) == "LabeledData(flowers: 4 samples, 2 classes, Table of 1 column)"
