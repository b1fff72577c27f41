"""Data sets with noisy and clean labels, to evaluate ``permll clean`` on.

Each is created from its name (``fashion-sym-20``, ``digits-pair-10``, ``labelme``) and the seed of its noise. LabelMe
and TREC have real noise, in the file format of permll.bench.real_noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from permll.data import load
from permll.data.encoding import TextEncoder
from permll.data.inputs import Texts
from permll.noise import corrupt, named_noise
from permll.noise.annotators import has_answer, majority_vote, sample_answer
from permll.noise.instance import part_dependent

FASHION_ROWS = 10_000  # of 60,000, to train in seconds
MIN_CLASS_SIZE = 5  # one sample per fold of the cross-validation
KINDS = {"sym": "sym", "asym": "asym_fashion_mnist", "pair": "pair"}

Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class NoisyDataset:
    """Training set with noisy and clean labels, and a clean test set.

    Args:
        x: (N, F) features.
        given: (N,) noisy labels.
        truth: (N,) clean labels.
        x_test: features of the test set.
        y_test: clean labels of the test set.
    """

    x: Features
    given: NDArray[np.int64]
    truth: NDArray[np.int64]
    x_test: Features
    y_test: NDArray[np.int64]


def load_noisy_dataset(name: str, seed: int, real: Mapping[str, Path]) -> NoisyDataset:
    """Return a data set by name.

    Args:
        name: a key of ``real``, or DATA-NOISE-PERCENT with DATA one of fashion, digits and table, and NOISE one of sym,
            asym, pair and part.
        seed: seed of the noise, of the chosen answer per sample (LabelMe), or of ties between rules (TREC).
        real: files with real noise, by name.
    """
    if name in real:
        return _load_real(real[name], seed)
    data, kind, percent = name.split("-")
    x, y, x_test, y_test = {"fashion": _fashion, "digits": _digits, "table": _table}[data]()
    num_classes, rate = int(y.max()) + 1, int(percent) / 100
    if rate == 0:
        given = y
    elif kind == "part":
        given = part_dependent(255 * x, y, num_classes, rate, seed).noisy
    else:
        given = corrupt(y, named_noise(f"{KINDS[kind]}:{rate}", num_classes), seed).noisy
    return NoisyDataset(x, given, y, x_test, y_test)


Splits = tuple[Features, NDArray[np.int64], Features, NDArray[np.int64]]


def _fashion() -> Splits:
    train, test = (load("fashion_mnist", split=split) for split in ("train", "test"))
    train = train.take(torch.arange(FASHION_ROWS))
    x, x_test = (part.inputs.batch(torch.arange(len(part))).flatten(1).numpy() for part in (train, test))
    return (x / 255).astype(np.float32), train.labels.numpy(), (x_test / 255).astype(np.float32), test.labels.numpy()


def _digits() -> Splits:
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32) / 16, y, test_size=0.2, random_state=0, stratify=y)
    return x, y, x_test, y_test


def _table() -> Splits:
    x, y = load_breast_cancer(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32), y, test_size=0.3, random_state=0, stratify=y)
    return x, y, x_test, y_test


def _load_real(path: Path, seed: int) -> NoisyDataset:
    """Return the annotated samples: one answer of a crowd worker each, or the majority of the rules; texts as vectors.

    Labels with fewer than ``MIN_CLASS_SIZE`` samples are dropped, since cross-validation needs one per fold.
    """
    with np.load(path) as file:
        arrays = dict(file)
    annotations = arrays["answers"] if "answers" in arrays else arrays["rules_train"]
    kind = "x" if "x_train" in arrays else "text"
    truth, y_test = arrays["y_train"].astype(np.int64), arrays["y_test"].astype(np.int64)
    num_classes = int(truth.max()) + 1
    given = (
        sample_answer(annotations, seed) if "answers" in arrays else majority_vote(annotations, num_classes, seed=seed)
    )
    counts = np.bincount(given[given >= 0], minlength=num_classes)
    rows = has_answer(annotations) & (counts[given] >= MIN_CLASS_SIZE)
    x, x_test = arrays[f"{kind}_train"][rows], arrays[f"{kind}_test"]
    if kind == "text":
        encoder = TextEncoder.fit(Texts(x.tolist()))
        x, x_test = (encoder(Texts(part.tolist())).values.numpy() for part in (x, x_test))
    return NoisyDataset(x, given[rows], truth[rows], x_test, y_test)
