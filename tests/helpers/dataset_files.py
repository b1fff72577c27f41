"""Writers of dataset files in the official formats."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def write_idx(path: Path, values: np.ndarray) -> None:
    content = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)


def write_cifar_binary(path: Path, columns: list[np.ndarray], images: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = [column.astype(np.uint8)[:, None] for column in columns]
    np.concatenate([*labels, images.reshape(len(images), -1)], axis=1).tofile(path)


def write_cifar_python(path: Path, labels: dict[str, np.ndarray], images: np.ndarray) -> None:
    """Write a batch as a pickle with the published keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    batch = {name: column.tolist() for name, column in labels.items()}
    batch |= {"data": images.reshape(len(images), -1), "filenames": [f"{row}.png" for row in range(len(images))]}
    path.write_bytes(pickle.dumps(batch | {"batch_label": "test"}, protocol=4))


def write_jpeg(path: Path, color: tuple[int, int, int], size: tuple[int, int] = (12, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path, "JPEG", quality=95)


def write_noise_jpeg(path: Path, seed: int, side: int = 64) -> None:
    """Write an image of noise, so that truncating the file loses pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path, "JPEG")


def truncate(path: Path, fraction: float = 0.5) -> Path:
    """Keep the first part of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    return path
