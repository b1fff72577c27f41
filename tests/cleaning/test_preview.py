"""Sample previews and thumbnails."""

import io
import json

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
    preview_value,
    to_image,
)


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
