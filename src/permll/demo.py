"""The main job in miniature: digits with 40 % wrong labels, one small network, with and without the layer.

It runs through the one training loop; ``permll demo`` shows it with a progress display.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from permll.data import LabeledData, Vectors
from permll.data.transforms.defaults import as_it_is
from permll.layer.module import PermutationLayer
from permll.methods import find_method
from permll.noise.corruption import corrupt
from permll.noise.models import symmetric
from permll.report.figures.label_issues import LabelIssue
from permll.training.trainer import Trainer

Method = Literal["ce", "permll"]
METHODS: dict[Method, str] = {"ce": "Cross-entropy", "permll": "PermLL"}
EPOCHS = 60
NOISE = 0.4
CLASSES = 10
_TEST, _BATCH, _HIDDEN = 450, 64, 256


class Digits(NamedTuple):
    """Images as rows of 64 grey values in [0, 1]; ``given`` labels to train on, true ones only to judge by."""

    train: Tensor
    given: Tensor
    true: Tensor
    test: Tensor
    test_true: Tensor


class Training(NamedTuple):
    """How one training went: test accuracy after each epoch, and the layer if there was one."""

    accuracy: list[float]
    layer: PermutationLayer | None


class Verdict(NamedTuple):
    """What the layer made of the labels, counted against the truth."""

    right_before: float
    right_after: float
    wrong: int
    found: int
    precision: float
    recall: float


def noisy_digits(seed: int, noise: float = NOISE) -> Digits:
    """Split scikit-learn's digits and give exactly the share ``noise`` of the training labels another class."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    split = train_test_split(x, y.astype(np.int64), test_size=_TEST, stratify=y, random_state=seed)
    train, test, true, test_true = (torch.from_numpy(part) for part in split)
    flips = symmetric(CLASSES, noise, include_true=False, pick="exact")
    given = torch.from_numpy(corrupt(true.numpy(), flips, seed).noisy)
    return Digits(train, given, true, test, test_true)


def train(
    data: Digits, method: Method, seed: int, epochs: int = EPOCHS, correct_after: float | None = None
) -> Iterator[Training]:
    """Train the network; yield the state of affairs after every epoch."""
    from lightning_fabric import Fabric

    accuracy: list[float] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = {} if method == "ce" else {"correct_after": correct_after}
        trained = find_method(method).build(**settings)
        trained.networks["net"] = _network(seed)
        trainer = Trainer(
            Fabric(accelerator="cpu", devices=1),
            trained,
            _data(data.train, data.given),
            {"weak": as_it_is, "plain": as_it_is},
            optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4},
            schedule={"kind": "cosine"},
            epochs=epochs,
            batch_size=_BATCH,
            seed=seed,
        )
    test = _data(data.test, data.test_true)
    for _ in trainer.each_epoch():
        accuracy.append((trainer.predict(test).argmax(-1) == data.test_true).double().mean().item())
        yield Training(accuracy, getattr(trained, "layer", None))


def _data(images: Tensor, labels: Tensor) -> LabeledData:
    names = tuple(map(str, range(CLASSES)))
    return LabeledData(Vectors(images), labels, names, tuple(map(str, range(len(images)))))


def _network(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(64, _HIDDEN), nn.BatchNorm1d(_HIDDEN), nn.ReLU(),
            nn.Linear(_HIDDEN, _HIDDEN), nn.BatchNorm1d(_HIDDEN), nn.ReLU(),
            nn.Linear(_HIDDEN, CLASSES),
        )  # fmt: skip


def judge(layer: PermutationLayer, data: Digits) -> Verdict:
    """Compare given and corrected labels with the true ones; a label counts as found where the layer changed it."""
    corrected = layer.corrected_labels()
    wrong, changed = data.given != data.true, corrected != data.given
    found = int((wrong & changed).sum())
    return Verdict(
        right_before=(~wrong).double().mean().item(),
        right_after=(corrected == data.true).double().mean().item(),
        wrong=int(wrong.sum()),
        found=found,
        precision=found / max(int(changed.sum()), 1),
        recall=found / max(int(wrong.sum()), 1),
    )


def worst_suspects(layer: PermutationLayer, data: Digits, limit: int) -> list[LabelIssue]:
    """Return the samples the layer trusts least, as pictures with their labels."""
    corrected = layer.corrected_labels()
    return [
        LabelIssue(data.train[i].reshape(8, 8).numpy(), int(data.given[i]), int(corrected[i]), int(data.true[i]))
        for i in layer.suspects(limit).tolist()
    ]
