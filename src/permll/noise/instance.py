"""Noise that depends on the sample itself, not only on its class."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise.corruption import Corruption, draw_columns, read_labels

PolyMargin = Literal["I", "II", "III"]
_SPREAD = 0.1  # of the flip rates between samples, as published


def part_dependent(
    features: ArrayLike, labels: ArrayLike, num_classes: int, rate: float, seed: int, *, shared: bool = False
) -> Corruption:
    """Return the part-dependent noise of Xia et al. (2020).

    Each sample draws a flip rate q from a normal distribution around ``rate`` (standard deviation 0.1) cut to [0, 1]. A
    random projection of its features, one per true class (or one for all with ``shared``), scores the other classes;
    the label is kept with 1 - q, otherwise drawn from the softmax of the scores.

    The scale of the features matters: on raw pixels the softmax is all but certain and each sample has one wrong class;
    on normalised ones it is flat. The original uses raw pixels.

    Args:
        features: (N, ...), flattened.
        labels: clean labels (N,).
        num_classes: c.
        rate: mean flip rate.
        seed: of all draws.
        shared: one projection for all classes, as in later code.
    """
    clean = read_labels(labels, num_classes)
    x = np.asarray(features, dtype=np.float64).reshape(len(clean), -1)
    if not 0 <= rate <= 1:
        raise ValueError(f"the noise rate must lie in [0, 1], got {rate}.")
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).all(1))[0])
        raise ValueError(f"features of sample {row} are NaN or infinite: noise cannot depend on them.")
    generator = np.random.default_rng(seed)
    q = _truncated_normal(rate, len(clean), generator)
    noisy = clean.copy()
    shared_projection = generator.standard_normal((x.shape[1], num_classes)) if shared else None
    for label in range(num_classes):
        # Drawn for every class, also one without samples, so that a subset of the data meets the same projections.
        projection = (
            generator.standard_normal((x.shape[1], num_classes)) if shared_projection is None else shared_projection
        )
        own = np.flatnonzero(clean == label)
        scores = x[own] @ projection
        scores[:, label] = -np.inf
        chances = _softmax(scores) * q[own, None]
        chances[:, label] = 1 - q[own]
        noisy[own] = draw_columns(chances, generator)
    about = {"name": f"part_dependent:{rate:g}", "rate": rate, "shared": shared}
    return Corruption(clean, noisy, num_classes, seed, about)


def poly_margin(probabilities: ArrayLike, labels: ArrayLike, kind: PolyMargin, factor: float, seed: int) -> Corruption:
    """Return the polynomial-margin-diminishing noise of Zhang et al. (2021), from a model's ``probabilities`` (N, c).

    With u and s the likeliest and the second likeliest class and m the margin between them, a sample keeps u with
    (1 - τ) / ``factor`` and gets s otherwise, where τ falls with the margin: type I (1 - m²) / 2, II 1 - m³,
    III 1 - (m + m² + m³) / 3. Near the decision boundary labels are as good as a coin. ``factor`` tunes the rate.

    The base is the model's own u, as published, so a sample whose clean label is another counts as changed.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    clean = read_labels(labels, p.shape[1])
    if kind not in get_args(PolyMargin):
        raise ValueError(f"kind must be one of {', '.join(get_args(PolyMargin))}; got {kind!r}.")
    order = p.argsort(1)
    first, second = order[:, -1], order[:, -2]
    rows = np.arange(len(p))
    m = p[rows, first] - p[rows, second]
    tau = {"I": 0.5 - m**2 / 2, "II": 1 - m**3, "III": 1 - (m + m**2 + m**3) / 3}[kind]
    keep = np.maximum(1 - tau, 0.5) if kind == "I" else 1 - tau
    generator = np.random.default_rng(seed)
    noisy = np.where(generator.random(len(p)) < keep / factor, first, second)
    about: dict[str, Any] = {"name": f"poly_margin:{kind}", "factor": factor}
    return Corruption(clean, noisy, p.shape[1], seed, about)


def _truncated_normal(mean: float, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw from N(mean, 0.1²) until every value lies in [0, 1]."""
    values = generator.normal(mean, _SPREAD, count)
    while (outside := (values < 0) | (values > 1)).any():
        values[outside] = generator.normal(mean, _SPREAD, int(outside.sum()))
    return values


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
