"""Data sets with doubtful labels whose true ones are known: what cleaning is measured on.

Each is made from its name and a seed, which draws the noise: ``fashion-sym-20``, ``digits-pair-10``, ``labelme``.
LabelMe and TREC are real noise, in files as permll.bench.real_noise describes them.
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

FASHION_ROWS = 10_000  # of 60,000: one thread trains on them in seconds
FEWEST = 5  # labels of a class: one for each part of a cross-validation
KINDS = {"sym": "sym", "asym": "asym_fashion_mnist", "pair": "pair"}

Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Doubtful:
    """Samples with labels of which some are wrong, and what is right.

    Args:
        x: (N, F) features.
        given: (N,) labels as they come.
        truth: (N,) the right ones.
        x_test: as ``x``, to test on.
        y_test: right labels of these.
    """

    x: Features
    given: NDArray[np.int64]
    truth: NDArray[np.int64]
    x_test: Features
    y_test: NDArray[np.int64]


def doubtful(name: str, seed: int, real: Mapping[str, Path]) -> Doubtful:
    """Return the set of a name.

    Args:
        name: a name of ``real``, or DATA-NOISE-PERCENT with DATA one of fashion, digits and table, and NOISE one of
            sym, asym, pair and part.
        seed: of the noise; of LabelMe, which answer of the crowd is taken; of TREC, how ties of the rules are broken.
        real: name -> file.
    """
    if name in real:
        return _real(real[name], seed)
    data, kind, percent = name.split("-")
    x, y, x_test, y_test = {"fashion": _fashion, "digits": _digits, "table": _table}[data]()
    classes, rate = int(y.max()) + 1, int(percent) / 100
    if rate == 0:
        given = y
    elif kind == "part":
        given = part_dependent(255 * x, y, classes, rate, seed).noisy
    else:
        given = corrupt(y, named_noise(f"{KINDS[kind]}:{rate}", classes), seed).noisy
    return Doubtful(x, given, y, x_test, y_test)


Parts = tuple[Features, NDArray[np.int64], Features, NDArray[np.int64]]


def _fashion() -> Parts:
    train, test = (load("fashion_mnist", split=split) for split in ("train", "test"))
    train = train.take(torch.arange(FASHION_ROWS))
    x, x_test = (part.inputs.batch(torch.arange(len(part))).flatten(1).numpy() for part in (train, test))
    return (x / 255).astype(np.float32), train.labels.numpy(), (x_test / 255).astype(np.float32), test.labels.numpy()


def _digits() -> Parts:
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32) / 16, y, test_size=0.2, random_state=0, stratify=y)
    return x, y, x_test, y_test


def _table() -> Parts:
    x, y = load_breast_cancer(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32), y, test_size=0.3, random_state=0, stratify=y)
    return x, y, x_test, y_test


def _real(path: Path, seed: int) -> Doubtful:
    """Rows that somebody answered: one answer of the crowd each, or the majority of the rules; texts as vectors.

    Labels that hardly occur are left out: nobody can be trained on a part of one row.
    """
    with np.load(path) as saved:
        found = dict(saved)
    said = found["answers"] if "answers" in found else found["rules_train"]
    kind = "x" if "x_train" in found else "text"
    truth, y_test = found["y_train"].astype(np.int64), found["y_test"].astype(np.int64)
    given = sample_answer(said, seed) if "answers" in found else majority_vote(said, int(truth.max()) + 1, seed=seed)
    rows = has_answer(said) & (np.bincount(given[given >= 0], minlength=truth.max() + 1)[given] >= FEWEST)
    x, x_test = found[f"{kind}_train"][rows], found[f"{kind}_test"]
    if kind == "text":
        encoder = TextEncoder.fit(Texts(x.tolist()))
        x, x_test = (encoder(Texts(part.tolist())).values.numpy() for part in (x, x_test))
    return Doubtful(x, given[rows], truth[rows], x_test, y_test)
