"""Writers of files for the tests of readers, and the shared data folder if it exists."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.dataset_files import truncate as truncate
from tests.helpers.real_data import SHARED


def shared(name: str) -> Path:
    """Return a file of the shared data folder, or skip the test."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not in {SHARED}")
    return path


def save_image(path: Path, value: int = 0, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    """Write an image of one color, in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in ("L", "1") else (value, 0, 0)).save(path)
    return path


def noisy_jpeg(path: Path, seed: int = 0, size: tuple[int, int] = (120, 90)) -> Path:
    """Write a JPEG of noise: large enough that a truncated file still has a valid header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=90)
    return path


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """Write a text file with its line ends unchanged."""
    path.write_bytes(text.encode(encoding))
    return path
