"""Stratified, seeded and recorded splits of a dataset."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from permll.data.dataset import LabeledData


class Split(NamedTuple):
    """Rows for training and for validation, and how they were drawn."""

    train: Tensor  # (N - n,) int64, ascending
    validation: Tensor  # (n,) int64, ascending
    metadata: dict[str, Any]


# Not sklearn's StratifiedShuffleSplit: it may leave a rare class without a training row, and published splits depend
# on these draws.
def stratified_split(labels: Tensor, validation: int | float, seed: int) -> Split:
    """Draw rows for validation, the same fraction of every label (give or take one); each label keeps a training row.

    The paper's split of CIFAR's 50,000 training images is ``stratified_split(labels, 5_000, seed)``.

    Args:
        labels: (N,).
        validation: number of rows, or a fraction below 1.
        seed: seed of the draw; global random state is not used.

    Examples:
        >>> split = stratified_split(torch.tensor([0] * 8 + [1] * 4), validation=3, seed=0)
        >>> len(split.train), split.validation.tolist() == sorted(split.validation.tolist())
        (9, True)
    """
    if isinstance(validation, bool) or not isinstance(validation, int | float):
        raise ValueError(f"validation must be a number of rows or a fraction below 1, got {validation!r}.")
    count = round(validation * len(labels)) if 0 < validation < 1 else int(validation)
    if not 0 < count < len(labels) or (validation >= 1 and isinstance(validation, float)):
        raise ValueError(
            f"validation must be a number of rows or a fraction below 1 that leaves rows on both sides; "
            f"got {validation} of {len(labels)}."
        )
    generator = np.random.default_rng(seed)
    given = labels.numpy()
    classes, sizes = np.unique(given, return_counts=True)
    quotas = _quotas(sizes, count, generator)
    drawn = [
        generator.permutation(np.flatnonzero(given == label))[:n] for label, n in zip(classes, quotas, strict=True)
    ]
    is_validation = np.zeros(len(given), dtype=bool)
    is_validation[np.concatenate(drawn)] = True
    train, held_out = (torch.from_numpy(np.flatnonzero(mask)) for mask in (~is_validation, is_validation))
    digest = hashlib.sha256(held_out.numpy().astype("<i8").tobytes()).hexdigest()[:16]
    return Split(train, held_out, {"kind": "stratified", "validation": count, "seed": seed, "hash": digest})


def split(data: LabeledData, validation: int | float, seed: int = 0) -> tuple[LabeledData, LabeledData]:
    """Return the training and validation parts of ``data``; both record the split in ``metadata``."""
    rows = stratified_split(data.labels, validation, seed)
    train, held_out = (
        data.take(part).with_metadata(split=name, split_from=data.metadata.get("split"), split_how=rows.metadata)
        for name, part in (("train", rows.train), ("validation", rows.validation))
    )
    return train, held_out


def _quotas(sizes: np.ndarray[Any, Any], count: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return the number of rows to draw of each label: largest remainder method, ties at random.

    Every label keeps at least one training row.
    """
    exact = sizes * count / sizes.sum()
    quotas = np.minimum(np.floor(exact).astype(np.int64), sizes - 1)
    order = np.lexsort((generator.random(len(sizes)), -(exact - quotas)))
    while (missing := count - int(quotas.sum())) > 0:
        available = order[quotas[order] < sizes[order] - 1]
        if len(available) == 0:
            raise ValueError(
                f"cannot draw {count} validation rows: each of {len(sizes)} labels must keep a training row."
            )
        quotas[available[:missing]] += 1
    return quotas
