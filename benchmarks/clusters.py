"""Synthetic data: Gaussian clusters with random centers."""

import torch

from permll.data import LabeledData, Vectors

SPREAD = 2.2  # standard deviation of a cluster in every feature


def make_clusters(num_classes: int, rows: int, features: int, separation: float, seed: int) -> LabeledData:
    """Return samples of ``num_classes`` clusters in turn; ``separation`` is the standard deviation of the centers."""
    generator = torch.Generator().manual_seed(seed)
    centers = separation * torch.randn(num_classes, features, generator=generator)
    labels = torch.arange(rows) % num_classes
    x = centers[labels] + SPREAD * torch.randn(rows, features, generator=generator)
    return LabeledData(Vectors(x), labels, tuple(map(str, range(num_classes))), tuple(map(str, range(rows))))


def split_first(data: LabeledData, count: int) -> tuple[LabeledData, LabeledData]:
    """Return the first ``count`` samples, and the others."""
    return data.take(torch.arange(count)), data.take(torch.arange(count, len(data)))
