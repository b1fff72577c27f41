"""Out-of-sample probabilities of scikit-learn estimators by cross-validation that resumes after each fold."""

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.cleaning.estimators import DENSE, Features, fit_features, make_estimator, seeded, split_names
from permll.cleaning.folds import TRAIN_ONLY, assign_folds, linked_groups
from permll.data.dataset import LabeledData
from permll.data.inputs import Inputs
from permll.data.sample_digests import sample_digests
from permll.training.recipe import EstimatorSection
from permll.utils.files import atomic_write

PREDICTIONS_FILE = "cross_validation.npz"
Member = tuple[Any, Features]  # an estimator and its features (N, d)
Notify = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Result of ``cross_validate``.

    Args:
        probs: (N, c) float32; rows that were trained on in every fold have probability 1 for their label.
        fold: (N,) the fold of each row, -1 for rows that were trained on in every fold.
    """

    probs: Tensor
    fold: Tensor


def cross_validate(
    data: LabeledData,
    section: EstimatorSection,
    seed: int,
    *,
    encoded: Inputs | None = None,
    estimator: Any = None,
    path: Path | None = None,
    notify: Notify | None = None,
) -> CrossValidation:
    """Return out-of-sample probabilities of all samples.

    Samples with equal content, or of the same group, are in the same fold. Trusted samples are in every training set.

    Args:
        data: N samples with given labels.
        section: names of the estimators and number of folds.
        seed: seed of the folds and of the estimators.
        encoded: the samples as vectors, if a pretrained network encodes them.
        estimator: a scikit-learn object, instead of the estimators that ``section`` names.
        path: file in which finished folds are kept; those of the same samples and labels are not computed again.
        notify: called with a sentence after each fold.
    """
    fold = assign_folds(data.labels, section.folds, seed, groups=_groups(data), train_only=data.trusted)
    labels, inputs = data.labels.numpy(), data.inputs if encoded is None else encoded
    members = make_members(section, inputs, seed, estimator)
    probs = np.eye(data.num_classes, dtype=np.float32)[labels]
    done = _load(path, data, fold, probs)
    count = int(fold.max()) + 1
    for number, rows, predicted in out_of_sample(members, labels, fold, data.num_classes, start=done):
        probs[rows] = predicted
        _save(path, data, fold, probs, number + 1)
        if notify is not None:
            hits = 100 * float((predicted.argmax(1) == labels[rows]).mean())
            notify(f"fold {number + 1} of {count}: {hits:.1f} % of the labels predicted")
    return CrossValidation(torch.from_numpy(probs), torch.from_numpy(fold))


def _groups(data: LabeledData) -> Sequence[Hashable]:
    """Return a key for each sample; samples that are linked by equal content or equal groups have the same."""
    digests = list(sample_digests(data.inputs))
    return digests if data.groups is None else linked_groups(digests, data.groups)


def make_members(section: EstimatorSection, inputs: Inputs, seed: int, estimator: Any = None) -> list[Member]:
    """Return the estimators of a recipe with their features; ``estimator`` replaces those that it names."""
    if section.given:
        if estimator is None:
            raise ValueError(
                f"the labels are checked by an estimator that was passed as an object, {section.name}: pass it again, "
                "permll.clean(data, out=..., estimator=...)."
            )
        return [fit_features(seeded(estimator, seed), inputs)]
    names = split_names(section.name)
    return [fit_features(make_estimator(name, inputs, seed), inputs, dense=name in DENSE) for name in names]


def out_of_sample(
    members: Sequence[Member],
    labels: NDArray[np.int64],
    fold: NDArray[np.int64],
    num_classes: int,
    *,
    start: int = 0,
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
    """Yield for each fold its number, its rows (n,), and their probabilities (n, c).

    These are the mean over estimators that were fitted on the other folds and on the rows without a fold. A class that
    does not occur there has its frequency among all labels as probability.

    Args:
        members: estimators with their features.
        labels: (N,) class numbers.
        fold: (N,) see ``assign_folds``.
        num_classes: c.
        start: first fold.
    """
    from sklearn.base import clone

    prior = np.bincount(labels, minlength=num_classes) / max(len(labels), 1)
    for number in range(start, int(fold.max(initial=TRAIN_ONLY)) + 1):
        rows, train = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        classes = np.unique(labels[train])
        probs = np.tile(prior, (len(rows), 1))
        if len(classes) > 1:
            is_missing = ~np.isin(np.arange(num_classes), classes)
            predicted = [_predict(clone(one), x, labels, train, rows) for one, x in members]
            probs[:, classes] = np.mean(predicted, 0) * (1 - prior[is_missing].sum())
        yield number, rows, probs.astype(np.float32)


def _predict(
    estimator: Any, x: Features, labels: NDArray[np.int64], train: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Fit an estimator on the rows of ``train``, and return the probabilities of their classes for other rows."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a linear model: no problem for its predictions
        probs = np.asarray(estimator.fit(x[train], labels[train]).predict_proba(x[rows]), np.float64)
    expected = (len(rows), len(np.unique(labels[train])))
    if probs.shape != expected or not np.isfinite(probs).all():
        name = type(estimator).__name__
        raise ValueError(f"{name}.predict_proba must return finite numbers of shape {expected}; got {probs.shape}.")
    return probs / probs.sum(1, keepdims=True)


def _load(path: Path | None, data: LabeledData, fold: NDArray[np.int64], probs: NDArray[np.float32]) -> int:
    """Read the finished folds into ``probs`` and return their number; those of other samples do not count."""
    if path is None or not path.is_file():
        return 0
    with np.load(path, allow_pickle=False) as saved:
        is_same = (
            tuple(saved["ids"].tolist()) == data.ids
            and np.array_equal(saved["given"], data.labels.numpy())
            and np.array_equal(saved["fold"], fold)
        )
        if not is_same:
            return 0
        probs[:] = saved["probs"]
        return int(saved["done"])


def _save(path: Path | None, data: LabeledData, fold: NDArray[np.int64], probs: NDArray[np.float32], done: int) -> None:
    if path is None:
        return
    with atomic_write(path) as file:
        np.savez(file, ids=np.array(data.ids), given=data.labels.numpy(), fold=fold, probs=probs, done=np.array(done))
