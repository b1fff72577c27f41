"""Real files for the tests: images of one colour, tables as bytes, and the shared data folder if it is there."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def shared(name: str) -> Path:
    """Return a file of the shared data folder beside the project, or skip."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the shared data folder beside the project")
    return path


def save_image(path: Path, value: int = 0, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    """Write an image of one colour, in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in ("L", "1") else (value, 0, 0)).save(path)
    return path


def truncate(path: Path, share: float = 0.5) -> Path:
    """Cut a file short."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    return path


def noisy_jpeg(path: Path, seed: int = 0, size: tuple[int, int] = (120, 90)) -> Path:
    """Write a JPEG of noise: large enough that cutting it leaves a header that still opens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=90)
    return path


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """Write a table as it is, line ends and all."""
    path.write_bytes(text.encode(encoding))
    return path
