"""Small copies of Clothing1M: one with arbitrary labels in both layouts, one that can be learned."""

from pathlib import Path

import numpy as np
from PIL import Image

from tests.helpers.dataset_files import write_jpeg, write_lines

# Labels by key: noisy and clean lists as in the published files, where some images have both labels.
TRAIN = {f"images/{n % 10}/0{n}/{n},10{n}.jpg": n % 14 for n in range(28)}
CLEAN = {f"images/{n % 10}/1{n % 3}/{n},20{n}.jpg": (n + 3) % 14 for n in range(12)}
CLEAN_KEYS = list(CLEAN)
SPLITS = {"val": CLEAN_KEYS[:4], "test": CLEAN_KEYS[4:8], "clean_train": CLEAN_KEYS[8:]}

LEARNABLE_CLASSES = (0, 5, 9)  # T-Shirt, Hoodie, Suit: few classes, so that few images suffice
_COLORS = {0: (230, 60, 60), 5: (60, 200, 60), 9: (60, 60, 230)}
_NOISE_PERIOD = 5  # every fifth training label is wrong


def write_clothing1m(root: Path, *, annotations: bool, prefix: bool) -> Path:
    """Write all files; return the folder of the text files."""
    text = root / "annotations" if annotations else root
    write_lines(text / "noisy_train_key_list.txt", list(TRAIN))
    # The file of noisy labels also contains images of the validation and test splits.
    both = dict.fromkeys(CLEAN_KEYS[:6], 13)
    write_lines(text / "noisy_label_kv.txt", [f"{key} {label}" for key, label in (both | TRAIN).items()])
    write_lines(text / "clean_label_kv.txt", [f"{key} {label}" for key, label in CLEAN.items()])
    for split, keys in SPLITS.items():
        write_lines(text / f"clean_{split.removeprefix('clean_')}_key_list.txt", keys)
    for n, key in enumerate([*TRAIN, *CLEAN]):
        write_jpeg(root / (key if prefix else key.removeprefix("images/")), (5 * n, 100, 250 - 5 * n))
    return text


def true_class(number: int) -> int:
    """Return the class of a learnable image: unbalanced, 3 : 2 : 1."""
    return LEARNABLE_CLASSES[(0, 0, 0, 1, 1, 2)[number % 6]]


def write_learnable_clothing1m(root: Path) -> Path:
    """Write 120 training images, every fifth with the label of the next class, and 30 with clean labels."""
    train = [_write_learnable_image(root, "t", number) for number in range(120)]
    next_class = dict(zip(LEARNABLE_CLASSES, (*LEARNABLE_CLASSES[1:], LEARNABLE_CLASSES[0]), strict=True))
    classes = [true_class(number) for number in range(120)]
    given = [next_class[label] if number % _NOISE_PERIOD == 0 else label for number, label in enumerate(classes)]
    clean = {_write_learnable_image(root, "c", number): true_class(number) for number in range(120, 150)}
    keys = list(clean)
    write_lines(root / "noisy_train_key_list.txt", train)
    write_lines(root / "noisy_label_kv.txt", [f"{key} {label}" for key, label in zip(train, given, strict=True)])
    write_lines(root / "clean_label_kv.txt", [f"{key} {label}" for key, label in clean.items()])
    write_lines(root / "clean_train_key_list.txt", keys[20:])
    write_lines(root / "clean_val_key_list.txt", keys[:10])
    write_lines(root / "clean_test_key_list.txt", keys[10:20])
    return root


def _write_learnable_image(root: Path, name: str, number: int) -> str:
    key = f"images/{number % 10}/{number % 7:02}/{name}{number},{number}.jpg"
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number).integers(-30, 30, (24, 20, 3))
    pixels = (np.array(_COLORS[true_class(number)]) + noise).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=90)
    return key
