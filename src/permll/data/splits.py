"""Stratified, seeded and recorded splits of a dataset."""

import hashlib
from collections.abc import Sequence
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
    count = _validation_count(validation, len(labels))
    generator = np.random.default_rng(seed)
    given = labels.numpy()
    classes, sizes = np.unique(given, return_counts=True)
    quotas = _quotas(sizes, count, generator)
    drawn = [
        generator.permutation(np.flatnonzero(given == label))[:n] for label, n in zip(classes, quotas, strict=True)
    ]
    is_validation = np.zeros(len(given), dtype=bool)
    is_validation[np.concatenate(drawn)] = True
    return _to_split(is_validation, {"kind": "stratified", "seed": seed})


def grouped_split(labels: Tensor, groups: Sequence[str], validation: int | float, seed: int) -> Split:
    """Draw whole groups for validation, about the same fraction of every label.

    In random order, each group is taken that brings the numbers of validation rows of the labels closer to the wanted
    ones. Each label keeps a training row.

    Args:
        labels: (N,).
        groups: N names; rows of the same name stay together.
        validation: number of rows, or a fraction below 1; the number drawn can differ by the size of a group.
        seed: seed of the draw.

    Examples:
        >>> groups = ["ann", "ann", "bob", "bob", "cem", "cem", "dan", "dan"]
        >>> split = grouped_split(torch.tensor([0, 1] * 4), groups, validation=0.25, seed=0)
        >>> len(split.validation), len({groups[row] for row in split.validation.tolist()})
        (2, 1)
    """
    count = _validation_count(validation, len(labels))
    if len(groups) != len(labels):
        raise ValueError(f"groups must have one name per label: got {len(groups)} for {len(labels)} labels.")
    _, number = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    _, given = np.unique(labels.numpy(), return_inverse=True)
    sizes = np.zeros((number.max() + 1, given.max() + 1), np.int64)  # rows of each group by label
    np.add.at(sizes, (number, given), 1)
    total = sizes.sum(0)
    target, drawn, is_drawn = total * count / len(labels), np.zeros(len(total)), np.zeros(len(sizes), dtype=bool)
    for group in np.random.default_rng(seed).permutation(len(sizes)):
        after = drawn + sizes[group]
        is_closer = ((after - target) ** 2).sum() < ((drawn - target) ** 2).sum()
        if is_closer and _leaves_all_labels(after, total):
            drawn, is_drawn[group] = after, True
    if not is_drawn.any():  # all are larger than wanted: the one that is least so
        distance = ((sizes - target) ** 2).sum(1) + np.where(_leaves_all_labels(sizes, total), 0, np.inf)
        is_drawn[distance.argmin()] = distance.min() < np.inf
    if not is_drawn.any():
        raise ValueError(
            "no group can be held out, since each has all rows of a label that the others lack: use more "
            "groups, or none."
        )
    return _to_split(is_drawn[number], {"kind": "grouped", "seed": seed, "groups": int(is_drawn.sum())})


def _leaves_all_labels(drawn: np.ndarray[Any, Any], total: np.ndarray[Any, Any]) -> Any:
    """Return whether rows of every label are left if ``drawn`` (..., c) of ``total`` (c,) are taken."""
    return (drawn < total).all(-1)


def split(data: LabeledData, validation: int | float, seed: int = 0) -> tuple[LabeledData, LabeledData]:
    """Return the training and validation parts of ``data``; both record the split in ``metadata``.

    If the data have groups, each of them is on one side.
    """
    rows = split_rows(data.labels, data.groups, validation, seed)
    train, held_out = (
        data.take(part).with_metadata(split=name, split_from=data.metadata.get("split"), split_how=rows.metadata)
        for name, part in (("train", rows.train), ("validation", rows.validation))
    )
    return train, held_out


def split_rows(labels: Tensor, groups: Sequence[str] | None, validation: int | float, seed: int) -> Split:
    """Return ``grouped_split``, or ``stratified_split`` if there are no groups."""
    if groups is None:
        return stratified_split(labels, validation, seed)
    return grouped_split(labels, groups, validation, seed)


def _validation_count(validation: int | float, rows: int) -> int:
    """Return the number of validation rows; raise unless rows are left on both sides."""
    if isinstance(validation, bool) or not isinstance(validation, int | float):
        raise ValueError(f"validation must be a number of rows or a fraction below 1, got {validation!r}.")
    count = round(validation * rows) if 0 < validation < 1 else int(validation)
    if not 0 < count < rows or (validation >= 1 and isinstance(validation, float)):
        raise ValueError(
            f"validation must be a number of rows or a fraction below 1 that leaves rows on both sides; "
            f"got {validation} of {rows}."
        )
    return count


def _to_split(is_validation: np.ndarray[Any, Any], how: dict[str, Any]) -> Split:
    """Return the rows of both sides, with their number and a hash in ``metadata``."""
    train, held_out = (torch.from_numpy(np.flatnonzero(mask)) for mask in (~is_validation, is_validation))
    digest = hashlib.sha256(held_out.numpy().astype("<i8").tobytes()).hexdigest()[:16]
    return Split(train, held_out, {"kind": how.pop("kind"), "validation": len(held_out), **how, "hash": digest})


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
