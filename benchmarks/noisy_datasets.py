"""Data sets with noisy and clean labels, to evaluate ``permll clean`` on.

Each is created from its name (``fashion-sym-20``, ``cifar10-part-30``, ``labelme``) and the seed of its noise. These
have real noise: LabelMe and TREC (file format of permll.bench.real_noise), CIFAR-100N (arrays noisy and clean, in the
order of the features of CIFAR-100) and NoisyAG-News (text, noisy, clean, text_test, clean_test; UTF-8).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from benchmarks.embeddings import embed_images, embed_texts
from permll.data import load
from permll.data.encoding import TextEncoder
from permll.data.inputs import Texts
from permll.noise import corrupt, named_noise
from permll.noise.annotators import has_answer, majority_vote, sample_answer
from permll.noise.instance import part_dependent

MAX_ROWS = 10_000  # of Fashion-MNIST and CIFAR-10, to train in seconds
MAX_CIFAR100_ROWS = 20_000
MAX_TEST_ROWS = 5_000
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


def load_noisy_dataset(name: str, seed: int, files: Mapping[str, Path], half: int | None = None) -> NoisyDataset:
    """Return a data set by name.

    Args:
        name: a set with real noise, ``labelme``, ``trec``, ``cifar100n``, ``ag_news`` (tf-idf) or ``ag_news_minilm``
            (sentence embeddings); or DATA-NOISE-PERCENT with DATA one of fashion, cifar10, cifar100, digits and table,
            and NOISE one of sym, asym, pair and part.
        seed: seed of the noise, of the chosen answer per sample (LabelMe), or of ties between rules (TREC).
        files: files by name: labelme, trec, cifar100n, ag_news, features (of CIFAR-100), cifar10 (its folder).
        half: 0 or 1 for one half of the rows of a set with real noise; the same rows for every seed.
    """
    if "-" not in name:
        return _take_half(_REAL[name](files, seed), half)
    data, kind, percent = name.split("-")
    x, y, x_test, y_test, *raw = _CLEAN[data](files)
    x, y = x[:MAX_CIFAR100_ROWS], y[:MAX_CIFAR100_ROWS]
    num_classes, rate = int(y.max()) + 1, int(percent) / 100
    if rate == 0:
        given = y
    elif kind == "part":
        given = part_dependent(raw[0] if raw else 255 * x, y, num_classes, rate, seed).noisy
    else:
        given = corrupt(y, named_noise(f"{KINDS[kind]}:{rate}", num_classes), seed).noisy
    return NoisyDataset(x, given, y, x_test, y_test)


def _take_half(data: NoisyDataset, half: int | None) -> NoisyDataset:
    if half is None:
        return data
    rows = np.sort(np.array_split(np.random.default_rng(0).permutation(len(data.given)), 2)[half])
    return NoisyDataset(data.x[rows], data.given[rows], data.truth[rows], data.x_test, data.y_test)


Files = Mapping[str, Path]
Splits = tuple[NDArray[Any], ...]  # x, y, x_test, y_test, and pixels if x are features


def _fashion(_: Files) -> Splits:
    train, test = (load("fashion_mnist", split=split) for split in ("train", "test"))
    train = train.take(torch.arange(MAX_ROWS))
    x, x_test = (part.inputs.batch(torch.arange(len(part))).flatten(1).numpy() for part in (train, test))
    return (x / 255).astype(np.float32), train.labels.numpy(), (x_test / 255).astype(np.float32), test.labels.numpy()


def _cifar10(files: Files) -> Splits:
    train, test = (load("cifar10", split=split, root=files["cifar10"]) for split in ("train", "test"))
    x, x_test = (part.inputs.batch(torch.arange(rows)) for part, rows in ((train, MAX_ROWS), (test, MAX_TEST_ROWS)))
    y, y_test = train.labels[:MAX_ROWS].numpy(), test.labels[:MAX_TEST_ROWS].numpy()
    return embed_images(x), y, embed_images(x_test), y_test, x.numpy()


def _cifar100(files: Files) -> Splits:
    with np.load(files["features"]) as file:
        x, y, x_test, y_test = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    return x.astype(np.float32), y.astype(np.int64), x_test.astype(np.float32), y_test.astype(np.int64)


def _digits(_: Files) -> Splits:
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32) / 16, y, test_size=0.2, random_state=0, stratify=y)
    return x, y, x_test, y_test


def _table(_: Files) -> Splits:
    x, y = load_breast_cancer(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32), y, test_size=0.3, random_state=0, stratify=y)
    return x, y, x_test, y_test


def _load_annotated(path: Path, seed: int) -> NoisyDataset:
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


def _load_cifar100n(files: Files, _: int) -> NoisyDataset:
    x, _clean, x_test, y_test = _cifar100(files)
    with np.load(files["cifar100n"]) as labels:
        return NoisyDataset(x, labels["noisy"].astype(np.int64), labels["clean"].astype(np.int64), x_test, y_test)


def _load_ag_news(
    embed: Callable[[list[str], list[str]], tuple[Features, Features]], files: Files, _: int
) -> NoisyDataset:
    with np.load(files["ag_news"]) as file:
        texts, test = ([text.decode() for text in file[name].tolist()] for name in ("text", "text_test"))
        labels = [file[name].astype(np.int64) for name in ("noisy", "clean", "clean_test")]
    test, labels[2] = test[:MAX_TEST_ROWS], labels[2][:MAX_TEST_ROWS]
    x, x_test = embed(texts, test)
    return NoisyDataset(x, labels[0], labels[1], x_test, labels[2])


def _tfidf(texts: list[str], test: list[str]) -> tuple[Features, Features]:
    encoder = TextEncoder.fit(Texts(tuple(texts)))
    return encoder(Texts(tuple(texts))).values.numpy(), encoder(Texts(tuple(test))).values.numpy()


def _minilm(texts: list[str], test: list[str]) -> tuple[Features, Features]:
    return embed_texts(texts), embed_texts(test)


_CLEAN: dict[str, Callable[[Files], Splits]] = {
    "fashion": _fashion,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "digits": _digits,
    "table": _table,
}
_REAL: dict[str, Callable[[Files, int], NoisyDataset]] = {
    "labelme": lambda files, seed: _load_annotated(files["labelme"], seed),
    "trec": lambda files, seed: _load_annotated(files["trec"], seed),
    "cifar100n": _load_cifar100n,
    "ag_news": partial(_load_ag_news, _tfidf),
    "ag_news_minilm": partial(_load_ag_news, _minilm),
}
