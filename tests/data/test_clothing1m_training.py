"""Clothing1M end to end: a folder of its shape, trained with the layer, sampling balanced by corrected labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from permll import PermutationLayer
from permll.data import Stream, load
from permll.data.transforms import Chain, Crop, Flip, default_views
from permll.data.transforms.defaults import IMAGENET

CLASSES = 14
SHOWN = (0, 5, 9)  # T-Shirt, Hoodie, Suit: few classes, so that few images suffice
WRONG = 5  # every fifth label of the training set
COLOURS = {0: (230, 60, 60), 5: (60, 200, 60), 9: (60, 60, 230)}


def true_class(number: int) -> int:
    """Return T-shirts for half of the images, hoodies for a third, suits for the rest: unbalanced, as the real one."""
    return SHOWN[(0, 0, 0, 1, 1, 2)[number % 6]]


def write(root: Path, name: str, number: int) -> str:
    key = f"images/{number % 10}/{number % 7:02}/{name}{number},{number}.jpg"
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number).integers(-30, 30, (24, 20, 3))
    Image.fromarray((np.array(COLOURS[true_class(number)]) + noise).clip(0, 255).astype(np.uint8)).save(
        path, quality=90
    )
    return key


def write_lists(root: Path, **lists: list[str]) -> None:
    for name, content in lists.items():
        (root / f"{name}.txt").write_text("\n".join(content) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """120 training images, a fifth of them with the next class's label, and clean lists to validate and test on."""
    train = [write(tmp_path, "t", number) for number in range(120)]
    given = [
        SHOWN[(SHOWN.index(true_class(number)) + 1) % 3] if number % WRONG == 0 else true_class(number)
        for number in range(120)
    ]
    clean = {write(tmp_path, "c", number): true_class(number) for number in range(120, 150)}
    keys = list(clean)
    write_lists(
        tmp_path,
        noisy_train_key_list=train,
        noisy_label_kv=[f"{key} {label}" for key, label in zip(train, given, strict=True)],
        clean_label_kv=[f"{key} {label}" for key, label in clean.items()],
        clean_train_key_list=keys[20:],
        clean_val_key_list=keys[:10],
        clean_test_key_list=keys[10:20],
    )
    return tmp_path


def test_training_with_sampling_balanced_by_corrected_labels(root: Path) -> None:
    torch.manual_seed(0)
    data, test = (load("clothing1m", root=root, split=split, size=16) for split in ("train", "test"))
    true = torch.tensor([true_class(number) for number in range(len(data))])
    wrong = data.labels != true
    assert wrong.sum() == 24
    assert default_views(data.inputs).keys() == {"plain", "weak", "strong"}
    stream = Stream(data, 24, views={"weak": Chain(Crop(14), Flip(), IMAGENET)}, order="weighted", seed=1)
    net = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    layer = PermutationLayer(data.labels, CLASSES, ids=data.ids, correct_after=0.3, epochs=12)
    for epoch in range(12):
        for batch in stream:
            optimizer.zero_grad()
            layer(net(batch.x), batch.index).backward()
            optimizer.step()
            layer.step()
        stream.balance(layer.corrected_labels())
        assert stream.epoch == epoch + 1
    corrected = layer.corrected_labels()
    assert (corrected == true).float().mean() > 0.95 > (data.labels == true).float().mean()
    # The next epoch draws the classes of the corrected labels equally often, which those of the given ones are not.
    stream.draws = 1200
    drawn = torch.cat([batch.index for batch in stream])
    share = torch.bincount(corrected[drawn], minlength=CLASSES)[list(SHOWN)] / len(drawn)
    assert (share - 1 / 3).abs().max() < 0.06
    plain = default_views(data.inputs)["plain"](test.inputs.batch(torch.arange(len(test))), torch.arange(len(test)))
    assert (net(plain).argmax(1) == test.labels).float().mean() == 1
