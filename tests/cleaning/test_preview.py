"""Samples as a browser gets them: all kinds, large ones cut, damaged ones without a picture."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from permll.cleaning.preview import CELLS, SHORT_TEXT, TEXT, VALUES, preview_value
from permll.cleaning.thumbnails import encode, to_image


@pytest.mark.parametrize(
    ("value", "limit"),
    [("x" * (TEXT + 5), TEXT), ({f"c{n}": n for n in range(CELLS + 5)}, CELLS), (torch.arange(VALUES + 5.0), VALUES)],
)
def test_what_is_too_long_is_cut_and_says_so(value: object, limit: int) -> None:
    look = preview_value(value, short=False)
    assert look["more"] == 5
    assert len(next(look[key] for key in ("text", "cells", "values") if key in look)) == limit
    assert len(preview_value("x" * 1000, short=True)["text"]) == SHORT_TEXT


def test_every_look_is_json_even_of_numbers_that_are_none() -> None:
    for value in (torch.tensor([float("nan"), float("inf"), 1.0]), {"a": float("nan"), "b": float("inf")}, object()):
        json.dumps(preview_value(value, short=False), allow_nan=False)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I", "F", "I;16"])
@pytest.mark.parametrize("side", [160, 1200])
def test_images_of_every_mode_are_encoded_as_a_browser_reads_them(mode: str, side: int) -> None:
    source = Image.new(mode, (400, 200))
    image = to_image(source)
    assert image is not None
    picture = encode(image, side)
    with Image.open(io.BytesIO(picture.content)) as opened:
        assert opened.size == (min(400, side), min(200, side // 2))
        assert Image.MIME[opened.format or ""] == picture.type


def test_pictures_stand_upright_and_tensors_keep_their_pixels() -> None:
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
    with Image.open(io.BytesIO(encode(image, 160).content)) as opened:
        np.testing.assert_array_equal(np.asarray(opened).transpose(2, 0, 1), pixels.numpy())
    stretched = to_image(torch.tensor([[-1.0, 1.0]]))
    assert stretched is not None
    assert np.asarray(stretched).tolist() == [[0, 255]]
    assert to_image(torch.zeros(7, 4, 4)) is None
