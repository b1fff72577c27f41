"""Parts of a data set: stratified, seeded, and written down."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from permll.data.dataset import LabeledData


class Split(NamedTuple):
    """Which rows train and which validate, and how that came about."""

    train: Tensor  # (N - n,) int64, ascending
    validation: Tensor  # (n,) int64, ascending
    metadata: dict[str, Any]


def stratified(labels: Tensor, validation: int | float, seed: int) -> Split:
    """Set rows aside for validation, the same share of every label (give or take one); each keeps a row to train on.

    The paper's split of CIFAR's 50,000 training images is ``stratified(labels, 5_000, seed)``.

    Args:
        labels: (N,).
        validation: how many rows, or below 1 which share of them.
        seed: of the draw; global random state is not touched.

    Examples:
        >>> split = stratified(torch.tensor([0] * 8 + [1] * 4), validation=3, seed=0)
        >>> len(split.train), split.validation.tolist() == sorted(split.validation.tolist())
        (9, True)
    """
    if isinstance(validation, bool) or not isinstance(validation, int | float):
        raise ValueError(f"validation must be a share below 1 or a number of rows, got {validation!r}.")
    count = round(validation * len(labels)) if 0 < validation < 1 else int(validation)
    if not 0 < count < len(labels) or (validation >= 1 and isinstance(validation, float)):
        raise ValueError(
            f"validation must be a share below 1 or a number of rows that leaves some on both sides; "
            f"got {validation} of {len(labels)}."
        )
    generator = np.random.default_rng(seed)
    given = labels.numpy()
    classes, sizes = np.unique(given, return_counts=True)
    quota = _quotas(sizes, count, generator)
    chosen = [
        generator.permutation(np.flatnonzero(given == label))[:n] for label, n in zip(classes, quota, strict=True)
    ]
    inside = np.zeros(len(given), dtype=bool)
    inside[np.concatenate(chosen)] = True
    train, held = (torch.from_numpy(np.flatnonzero(mask)) for mask in (~inside, inside))
    digest = hashlib.sha256(held.numpy().astype("<i8").tobytes()).hexdigest()[:16]
    return Split(train, held, {"kind": "stratified", "validation": count, "seed": seed, "hash": digest})


def split(data: LabeledData, validation: int | float, seed: int = 0) -> tuple[LabeledData, LabeledData]:
    """Return training and validation parts of ``data``; both record the split in ``about``."""
    parts = stratified(data.labels, validation, seed)
    train, held = (
        data.take(rows).with_metadata(split=name, split_from=data.metadata.get("split"), split_how=parts.metadata)
        for name, rows in (("train", parts.train), ("validation", parts.validation))
    )
    return train, held


def _quotas(sizes: np.ndarray[Any, Any], count: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return how many of each label: its share rounded down, and the rest to the largest remainders, ties by lot.

    Every label keeps at least one row on the training side.
    """
    exact = sizes * count / sizes.sum()
    quota = np.minimum(np.floor(exact).astype(np.int64), sizes - 1)
    order = np.lexsort((generator.random(len(sizes)), -(exact - quota)))
    while (missing := count - int(quota.sum())) > 0:
        room = order[quota[order] < sizes[order] - 1]
        if len(room) == 0:
            raise ValueError(f"{count} rows cannot be set aside: every one of {len(sizes)} labels must keep one row.")
        quota[room[:missing]] += 1
    return quota
