"""Drawn data: clusters about random centres, of as many classes and rows as one wants to try."""

import torch

from permll.data import LabeledData, Vectors

SPREAD = 2.2  # of a cluster's rows about its centre, in every feature


def clusters(classes: int, rows: int, features: int, apart: float, seed: int) -> LabeledData:
    """Return rows whose classes come in turn; the larger ``apart``, the easier they are told from one another."""
    draw = torch.Generator().manual_seed(seed)
    centers = apart * torch.randn(classes, features, generator=draw)
    labels = torch.arange(rows) % classes
    x = centers[labels] + SPREAD * torch.randn(rows, features, generator=draw)
    return LabeledData(Vectors(x), labels, tuple(map(str, range(classes))), tuple(map(str, range(rows))))


def first_and_rest(data: LabeledData, first: int) -> tuple[LabeledData, LabeledData]:
    """Return the first rows, and the others."""
    return data.take(torch.arange(first)), data.take(torch.arange(first, len(data)))
