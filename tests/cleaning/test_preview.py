"""Sample previews and thumbnails."""

import io
import json
import math
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from permll.cleaning.preview import (
    MAX_CELLS,
    MAX_TEXT,
    MAX_VALUES,
    SHORT_TEXT,
    encode_thumbnail,
    preview_sample,
    preview_value,
    to_image,
)
from permll.data.inputs import Table
from permll.data.loading import load
from permll.data.sample_digests import sample_digests


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ("x" * (MAX_TEXT + 5), MAX_TEXT),
        ({f"c{n}": n for n in range(MAX_CELLS + 5)}, MAX_CELLS),
        (torch.arange(MAX_VALUES + 5.0), MAX_VALUES),
    ],
)
def test_preview_truncates_long_values(value: object, limit: int) -> None:
    look = preview_value(value, short=False)
    assert look["more"] == 5
    assert len(next(look[key] for key in ("text", "cells", "values") if key in look)) == limit
    assert len(preview_value("x" * 1000, short=True)["text"]) == SHORT_TEXT


def test_preview_is_json_for_nan_and_inf() -> None:
    for value in (torch.tensor([float("nan"), float("inf"), 1.0]), {"a": float("nan"), "b": float("inf")}, object()):
        json.dumps(preview_value(value, short=False), allow_nan=False)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I", "F", "I;16"])
@pytest.mark.parametrize("side", [160, 1200])
def test_thumbnail_encodes_every_image_mode(mode: str, side: int) -> None:
    source = Image.new(mode, (400, 200))
    image = to_image(source)
    assert image is not None
    picture = encode_thumbnail(image, side)
    with Image.open(io.BytesIO(picture.content)) as opened:
        assert opened.size == (min(400, side), min(200, side // 2))
        assert Image.MIME[opened.format or ""] == picture.type


def test_to_image_applies_exif_and_keeps_pixels() -> None:
    turned = Image.new("RGB", (40, 20))
    turned.getexif()[0x0112] = 6  # the camera was held sideways
    file = io.BytesIO()
    turned.save(file, "JPEG", exif=turned.getexif())
    with Image.open(file) as opened:
        upright = to_image(opened)
    assert upright is not None
    assert upright.size == (20, 40)
    pixels = torch.randint(0, 256, (3, 8, 9), dtype=torch.uint8)
    image = to_image(pixels)
    assert image is not None
    with Image.open(io.BytesIO(encode_thumbnail(image, 160).content)) as opened:
        np.testing.assert_array_equal(np.asarray(opened).transpose(2, 0, 1), pixels.numpy())
    stretched = to_image(torch.tensor([[-1.0, 1.0]]))
    assert stretched is not None
    assert np.asarray(stretched).tolist() == [[0, 255]]
    assert to_image(torch.zeros(7, 4, 4)) is None


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_preview_shows_dates_and_booleans_as_in_the_file(tmp_path: Path, suffix: str) -> None:
    pl = pytest.importorskip("polars", reason="no polars here: pip install 'permll[table]'")
    born = [date(1969, 7, 20), date(2024, 2, 29), None, date(1, 1, 1)]
    seen = [datetime(2024, 5, 1, 10, 30), None, datetime(1960, 1, 1, 23, 59, 59), datetime(2000, 1, 1)]
    columns = {"born": born, "seen": seen, "paid": [True, None, False, True], "size": [1, 2, 5, 4]}
    frame, path = pl.DataFrame({**columns, "label": ["a", "b", "a", "b"]}), tmp_path / f"table{suffix}"
    if suffix == ".csv":
        frame.write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")
    else:
        frame.write_parquet(path)
    inputs = load(str(path), label="label", features=list(columns)).inputs
    shown = [[value for _, value in preview_sample(inputs, row, short=True)["cells"]] for row in range(4)]
    assert shown == [
        ["1969-07-20", "2024-05-01 10:30:00", "true", "1"],
        ["2024-02-29", "", "", "2"],
        ["", "1960-01-01 23:59:59", "false", "5"],
        ["0001-01-01", "2000-01-01 00:00:00", "true", "4"],
    ]
    assert all(array.dtype == np.float64 for array in inputs.columns.values())  # the network still gets numbers
    assert len(set(sample_digests(inputs))) == 4


def test_table_returns_dates_only_where_they_exist() -> None:
    table = Table({"late": np.array([4e6, np.nan])}, {"late": "date"})
    assert table.get_sample(0) == {"late": 4e6}  # after the year 9999
    assert math.isnan(table.get_sample(1)["late"])
    assert table.take(torch.tensor([1])).types == {"late": "date"}
