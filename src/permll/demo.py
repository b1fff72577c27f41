"""Demo: a small network on digits with 40 % wrong labels, with and without the permutation layer.

``permll demo`` runs it with a progress display.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from permll.data import LabeledData, Vectors
from permll.data.transforms.defaults import identity
from permll.evaluation.detection import flag_score
from permll.layer.base import CorrectionLayer
from permll.methods import find_method
from permll.noise import corrupt
from permll.training.trainer import Trainer

if TYPE_CHECKING:
    from permll.report.figures.label_issues import LabelIssue

MethodName = Literal["ce", "permll", "permll_plus"]
METHODS: dict[MethodName, str] = {"ce": "Cross-entropy", "permll_plus": "PermLL"}
EPOCHS = 60
NOISE_RATE = 0.4
NUM_CLASSES = 10
_TEST_SIZE, _BATCH_SIZE, _HIDDEN_SIZE = 450, 64, 256


class NoisyDigits(NamedTuple):
    """Images as rows of 64 gray values in [0, 1], noisy labels for training, and clean labels for evaluation."""

    images: Tensor
    labels: Tensor
    clean_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


class TrainingState(NamedTuple):
    """Test accuracy after each epoch so far, and the permutation layer."""

    accuracy: list[float]
    layer: CorrectionLayer | None


class CorrectionResult(NamedTuple):
    """Label accuracy before and after the correction, and detection metrics of the changed labels."""

    right_before: float
    right_after: float
    wrong: int
    found: int
    precision: float
    recall: float


def load_noisy_digits(seed: int, noise_rate: float = NOISE_RATE) -> NoisyDigits:
    """Split scikit-learn's digits, and apply exact symmetric noise to the training labels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    parts = train_test_split(x, y.astype(np.int64), test_size=_TEST_SIZE, stratify=y, random_state=seed)
    images, test_images, clean_labels, test_labels = (torch.from_numpy(part) for part in parts)
    record = corrupt(clean_labels.numpy(), f"sym:{noise_rate}", seed, num_classes=NUM_CLASSES)
    return NoisyDigits(images, torch.from_numpy(record.noisy), clean_labels, test_images, test_labels)


def train(
    data: NoisyDigits, method: MethodName, seed: int, epochs: int = EPOCHS, correct_after: float | None = None
) -> Iterator[TrainingState]:
    """Train a network and yield the state after every epoch."""
    from lightning_fabric import Fabric

    accuracy: list[float] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = {"correct_after": correct_after} if method == "permll" else {}
        learner = find_method(method).build(**settings)
        learner.networks["net"] = _build_network(seed)
        trainer = Trainer(
            Fabric(accelerator="cpu", devices=1),
            learner,
            _to_labeled_data(data.images, data.labels),
            {"weak": identity, "plain": identity},
            optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4},
            schedule={"kind": "cosine"},
            epochs=epochs,
            batch_size=_BATCH_SIZE,
            seed=seed,
        )
    test = _to_labeled_data(data.test_images, data.test_labels)
    for _ in trainer.each_epoch():
        accuracy.append((trainer.predict(test).argmax(-1) == data.test_labels).double().mean().item())
        yield TrainingState(accuracy, getattr(learner, "layer", None))


def _to_labeled_data(images: Tensor, labels: Tensor) -> LabeledData:
    classes = tuple(map(str, range(NUM_CLASSES)))
    return LabeledData(Vectors(images), labels, classes, tuple(map(str, range(len(images)))))


def _build_network(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(64, _HIDDEN_SIZE), nn.BatchNorm1d(_HIDDEN_SIZE), nn.ReLU(),
            nn.Linear(_HIDDEN_SIZE, _HIDDEN_SIZE), nn.BatchNorm1d(_HIDDEN_SIZE), nn.ReLU(),
            nn.Linear(_HIDDEN_SIZE, NUM_CLASSES),
        )  # fmt: skip


def evaluate_correction(layer: CorrectionLayer, data: NoisyDigits) -> CorrectionResult:
    """Compare given and corrected labels with the clean labels; a wrong label is found if the layer changed it."""
    corrected = layer.corrected_labels()
    wrong, changed = data.labels != data.clean_labels, corrected != data.labels
    score = flag_score(changed, wrong)
    return CorrectionResult(
        right_before=(~wrong).double().mean().item(),
        right_after=(corrected == data.clean_labels).double().mean().item(),
        wrong=int(wrong.sum()),
        found=int((wrong & changed).sum()),
        precision=score.precision or 0.0,
        recall=score.recall or 0.0,
    )


def least_trusted_samples(layer: CorrectionLayer, data: NoisyDigits, limit: int) -> "list[LabelIssue]":
    """Return the samples with the lowest label quality, as images with their labels."""
    from permll.report.figures.label_issues import LabelIssue

    corrected = layer.corrected_labels()
    return [
        LabelIssue(
            data.images[i].reshape(8, 8).numpy(), int(data.labels[i]), int(corrected[i]), int(data.clean_labels[i])
        )
        for i in layer.suspects(limit).tolist()
    ]
