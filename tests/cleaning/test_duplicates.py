"""Exact duplicates with different labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import permll
from permll.cleaning.similar_samples import conflicting_duplicates
from permll.data.inputs import Images, Inputs, Table, Texts, Vectors

ROWS = [0, 1, 0, 2, 1]  # rows 0 and 2 are equal, and rows 1 and 4
PIXELS = torch.arange(3 * 12, dtype=torch.uint8).reshape(3, 1, 3, 4)


@pytest.mark.parametrize(
    "inputs",
    [
        Vectors(torch.randn(3, 4)[ROWS]),
        Images(PIXELS[ROWS]),
        Texts(tuple("abc"[i] for i in ROWS)),
        Table({"size": np.array([1.0, np.nan, 3.0])[ROWS], "color": np.array(["red", "", "blue"])[ROWS]}),
    ],
    ids=lambda inputs: type(inputs).__name__,
)
def test_conflicting_duplicates_for_every_kind_of_input(inputs: Inputs) -> None:
    assert conflicting_duplicates(inputs, torch.tensor([0, 1, 1, 0, 1])) == ((0, 2),)
    assert conflicting_duplicates(inputs, torch.tensor([0, 1, 1, 0, 0])) == ((0, 2), (1, 4))
    assert conflicting_duplicates(inputs, torch.tensor([0, 1, 0, 0, 1])) == ()


def test_conflicting_duplicates_compares_file_content(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
    for name, shade in {"cat/1": 10, "cat/2": 20, "dog/1": 10, "dog/2": 30}.items():
        Image.new("RGB", (80, 80), (shade, shade, shade)).save(tmp_path / f"{name}.png")
    data = permll.data.load(tmp_path)
    groups = [[data.ids[row] for row in rows] for rows in conflicting_duplicates(data.inputs, data.labels)]
    assert groups == [["cat/1.png", "dog/1.png"]]
