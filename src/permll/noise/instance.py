"""Instance-dependent label noise."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise.apply_noise import sample_columns
from permll.noise.corruption import Corruption, Labels, read_labels

PolyMargin = Literal["I", "II", "III"]
_RATE_STD = 0.1  # standard deviation of the flip rates, as published


def part_dependent(
    features: ArrayLike, labels: ArrayLike, num_classes: int, rate: float, seed: int, *, shared: bool = False
) -> Corruption:
    """Apply the part-dependent noise of Xia et al. (2020).

    Each sample draws a flip rate q from a normal distribution around ``rate`` (standard deviation 0.1), truncated to
    [0, 1]. A random projection of its features, one per true class (or a single one with ``shared``), scores the other
    classes. The label is kept with probability 1 - q, and otherwise drawn from the softmax of the scores.

    The scale of the features matters: with raw pixels, as in the original, the softmax is nearly one-hot and each
    sample has one wrong class; with normalized features it is nearly uniform.

    Args:
        features: (N, ...), flattened.
        labels: clean labels (N,).
        num_classes: c.
        rate: mean flip rate.
        seed: random seed.
        shared: whether all classes share one projection, as in later code.
    """
    from scipy.special import softmax

    clean = read_labels(labels, num_classes)
    x = np.asarray(features, dtype=np.float64).reshape(len(clean), -1)
    if not 0 <= rate <= 1:
        raise ValueError(f"the noise rate must lie in [0, 1], got {rate}.")
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).all(1))[0])
        raise ValueError(f"features of sample {row} are NaN or infinite.")
    generator = np.random.default_rng(seed)
    q = _truncated_normal(rate, len(clean), generator)
    noisy = clean.copy()
    shape = (x.shape[1], num_classes)
    shared_projection = generator.standard_normal(shape) if shared else None
    for label in range(num_classes):
        # Drawn for empty classes, too, so that a subset of the data gets the same projections.
        projection = generator.standard_normal(shape) if shared_projection is None else shared_projection
        index = np.flatnonzero(clean == label)
        scores = x[index] @ projection
        scores[:, label] = -np.inf
        probabilities = softmax(scores, axis=1) * q[index, None]
        probabilities[:, label] = 1 - q[index]
        noisy[index] = sample_columns(probabilities, generator)
    about = {"name": f"part_dependent:{rate:g}", "rate": rate, "shared": shared}
    return Corruption(clean, noisy, num_classes, seed, about)


def poly_margin(probabilities: ArrayLike, labels: ArrayLike, kind: PolyMargin, factor: float, seed: int) -> Corruption:
    """Apply the polynomial-margin-diminishing noise of Zhang et al. (2021), given a model's ``probabilities`` (N, c).

    Let u and s be the most and second most probable class of a sample and m the margin between them. The sample gets u
    with probability (1 - τ) / ``factor`` and s otherwise, where τ decreases with the margin: (1 - m²) / 2 for type I,
    1 - m³ for type II, 1 - (m + m² + m³) / 3 for type III. ``factor`` adjusts the noise rate.

    As published, u is the model's prediction, so samples that the model misclassifies count as changed.
    """
    if not factor > 0:
        raise ValueError(f"the factor must be positive, got {factor}.")
    clean, first, second, keep = _compute_margins(probabilities, labels, kind)
    noisy = np.where(np.random.default_rng(seed).random(len(clean)) < keep / factor, first, second)
    about: dict[str, Any] = {"name": f"poly_margin:{kind}", "factor": factor}
    return Corruption(clean, noisy, np.asarray(probabilities).shape[1], seed, about)


def poly_margin_factor(probabilities: ArrayLike, labels: ArrayLike, kind: PolyMargin, rate: float) -> float:
    """Return the factor for which ``poly_margin`` has the expected noise rate ``rate``.

    With x = 1 / factor, a sample gets u with probability min(x (1 - τ), 1), so the expected rate is piecewise linear in
    x with one knot per sample. It is evaluated at all knots and interpolated. It decreases with x wherever the model is
    right more often than wrong; if several factors have the rate, the largest is returned.
    """
    clean, first, second, keep = _compute_margins(probabilities, labels, kind)
    # Change of the number of correct labels if a sample gets u instead of s: 1, -1 or 0.
    gain = (clean == first).astype(np.float64) - (clean == second)
    order = np.argsort(-keep, kind="stable")
    order = order[keep[order] > 0]
    keep, gain = keep[order], gain[order]
    saturated, unsaturated = gain.cumsum(), (keep * gain)[::-1].cumsum()[::-1]
    knots = 1 / keep  # x at which sample 0, 1, ... of this order gets u with probability 1
    correct = saturated + knots * np.append(unsaturated[1:], 0.0)
    x, expected = np.append(0.0, knots), (np.mean(clean != second) - np.append(0.0, correct) / len(clean))
    crossings = np.flatnonzero((expected[:-1] > rate) != (expected[1:] > rate))
    if len(crossings) == 0:
        low, high = 100 * expected.min(), 100 * expected.max()
        raise ValueError(
            f"no factor gives a noise rate of {100 * rate:g} %: for these probabilities, type {kind} covers "
            f"{low:.2f} % to just below {high:.2f} %."
        )
    left = crossings[0]
    weight = (expected[left] - rate) / (expected[left] - expected[left + 1])
    return float(1 / (x[left] + weight * (x[left + 1] - x[left])))


def _compute_margins(
    probabilities: ArrayLike, labels: ArrayLike, kind: PolyMargin
) -> tuple[Labels, Labels, Labels, NDArray[np.float64]]:
    """Return the clean labels, and for each sample its two most probable classes and 1 - τ."""
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2 or not np.isfinite(p).all():
        raise ValueError(f"probabilities must be finite numbers of shape (N, c), c > 1; got shape {p.shape}.")
    clean = read_labels(labels, p.shape[1])
    if len(clean) != len(p):
        raise ValueError(f"labels and probabilities must have equal length: {len(clean)} labels, {len(p)} rows.")
    if kind not in get_args(PolyMargin):
        raise ValueError(f"kind must be one of {', '.join(get_args(PolyMargin))}; got {kind!r}.")
    order = p.argsort(1)
    first, second = order[:, -1], order[:, -2]
    rows = np.arange(len(p))
    m = p[rows, first] - p[rows, second]
    tau = {"I": 0.5 - m**2 / 2, "II": 1 - m**3, "III": 1 - (m + m**2 + m**3) / 3}[kind]
    return clean, first, second, 1 - tau


def _truncated_normal(mean: float, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Sample N(mean, 0.1²) truncated to [0, 1] by rejection; scipy's truncnorm draws another random stream."""
    values = generator.normal(mean, _RATE_STD, count)
    while (outside := (values < 0) | (values > 1)).any():
        values[outside] = generator.normal(mean, _RATE_STD, int(outside.sum()))
    return values
