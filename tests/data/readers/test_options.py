"""Validation of the options of ``read``."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from permll.data.readers import read

X = [[0.0], [1.0], [2.0], [3.0]]
Y = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": (32, 48)}, r"image_size must be a number of pixels, the side of a square; got \(32, 48\)\."),
        ({"image_size": 32.5}, r"image_size must be a number of pixels"),
        ({"image_size": "32"}, r"image_size must be a number of pixels"),
        ({"image_size": True}, r"image_size must be a number of pixels"),
        ({"image_size": -1}, r"image_size must be a number of pixels"),
        ({"label": 3}, r"label must be a name \(str\), got 3\."),
        ({"text": ["a"]}, r"text must be a name \(str\), got \['a'\]\."),
        ({"image": 0}, r"image must be a name"),
        ({"id": ("a", "b")}, r"id must be a name"),
        ({"features": 3}, r"features must be a name or a list of names \(str\), got 3\."),
        ({"features": [0, 1]}, r"features must be a name or a list of names"),
        ({"features": []}, r"features must be a name or a list of names"),
        ({"features": {"x": 1}}, r"features must be a name or a list of names"),
        ({"classes": 3}, r"classes must be a list \(class names in order\), got 3\."),
        ({"classes": {0: "cat", 1: "dog"}}, r"classes must be a list \(class names in order"),
        ({"classes": {"cat"}}, r"classes must be a list \(class names in order"),
        ({"labels": 3}, r"labels must be a list \(one label per sample\), got 3\."),
        ({"labels": {"a": 1}}, r"labels must be a list \(one label per sample"),
        ({"ids": 4}, r"ids must be a list \(one id per sample\), got 4\."),
        ({"rare": None}, r"rare must be one of refuse, drop, keep; got None"),
        ({"rare": ["drop"]}, r"rare must be one of refuse, drop, keep"),
        ({"check": "no"}, r"check must be True or False, got 'no'\."),
        ({"skip_unreadable": 1}, r"skip_unreadable must be True or False, got 1\."),
    ],
    ids=str,
)
def test_options_reject_wrong_types(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(X, **{"labels": Y} | options)
    assert "\n" not in str(caught.value)


def test_options_accept_library_types() -> None:
    images = [Image.new("RGB", (9, 7)) for _ in X]
    assert read(images, labels=pd.Series(Y), image_size=np.int64(4), check=np.True_).inputs.pixels.shape == (4, 3, 4, 4)
    frame = pd.DataFrame({"a": [1.0, 3.0, 2.0, 7.0], "b": [5.0, 1.0, 0.0, 2.0], "y": Y})
    assert list(read(frame, features=frame.columns[:2]).inputs.columns) == ["a", "b"]
    assert read(X, labels=Y, classes=np.array(["no", "yes"]), ids=pd.Index(list("abcd"))).classes == ("no", "yes")
