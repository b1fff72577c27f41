"""T from counts of labels, by plain loops."""

import math

import torch
from torch import Tensor

from permll.layer import transition

Matrix = list[list[float]]


def slow_counts(predicted: list[int], labels: list[int], weights: list[float], classes: int) -> Matrix:
    counts = [[0.0] * classes for _ in range(classes)]
    for k, y, weight in zip(predicted, labels, weights, strict=True):
        counts[k][y] += weight
    return counts


def slow_transition(counts: Matrix, diagonal: list[float], frequencies: list[float]) -> Matrix:
    classes, rows = len(diagonal), []
    others = [[y for y in range(classes) if y != k] for k in range(classes)]
    parts = [{y: frequencies[y] / sum(frequencies[z] for z in others[k]) for y in others[k]} for k in range(classes)]

    def log_likelihood(s: float) -> float:
        """Return the Dirichlet-multinomial log-likelihood of all rows, without terms that do not depend on s."""
        total = 0.0
        for k in range(classes):
            total += math.lgamma(s) - math.lgamma(s + sum(counts[k][y] for y in others[k]))
            total += sum(math.lgamma(s * parts[k][y] + counts[k][y]) - math.lgamma(s * parts[k][y]) for y in others[k])
        return total

    fits = {classes * 2**i: log_likelihood(classes * 2**i) for i in range(9)}
    weight = max(s for s, fit in fits.items() if fit >= max(fits.values()) - 1e-6)
    for k in range(classes):
        wrong = {y: counts[k][y] + weight * parts[k][y] for y in others[k]}
        total = sum(wrong.values())
        rows.append([diagonal[k] if y == k else (1 - diagonal[k]) * wrong[y] / total for y in range(classes)])
    return rows


def full_matrix(log_likelihood: Tensor, frequencies: Tensor) -> Tensor:
    """Return T (c, c), from either form of log T."""
    labels = torch.arange(len(frequencies))
    return transition.label_likelihood(log_likelihood, labels, frequencies).exp().T
