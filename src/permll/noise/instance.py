"""Noise that depends on the sample itself, not only on its class."""

from typing import Any, Literal, NamedTuple, get_args

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
    if not factor > 0:
        raise ValueError(f"the factor must be positive, got {factor}.")
    clean, base = _margins(probabilities, labels, kind)
    generator = np.random.default_rng(seed)
    noisy = np.where(generator.random(len(clean)) < base.keep / factor, base.first, base.second)
    about: dict[str, Any] = {"name": f"poly_margin:{kind}", "factor": factor}
    return Corruption(clean, noisy, base.num_classes, seed, about)


def poly_margin_factor(probabilities: ArrayLike, labels: ArrayLike, kind: PolyMargin, rate: float) -> float:
    """Return the factor with which ``poly_margin`` makes the share ``rate`` of the labels wrong, on average.

    With x = 1 / factor, a sample keeps u with min(x (1 - τ), 1), so the expected rate is linear in x between the points
    where a sample begins to keep u for certain: it is computed at all of them and drawn as a line in between. It falls
    with x wherever the model is more often right than wrong; if a rate is met more than once, the largest factor wins.
    """
    clean, base = _margins(probabilities, labels, kind)
    # What keeping u instead of s does for a sample: a right label more, a right label less, or nothing.
    gain = (clean == base.first).astype(np.float64) - (clean == base.second)
    order = np.argsort(-base.keep, kind="stable")
    order = order[base.keep[order] > 0]
    keep, gain_in_order = base.keep[order], gain[order]
    certain, rest = gain_in_order.cumsum(), (keep * gain_in_order)[::-1].cumsum()[::-1]
    x = 1 / keep  # where sample 0, 1, ... of this order becomes certain
    kept = certain + x * np.append(rest[1:], 0.0)
    x, expected = np.append(0.0, x), (np.mean(clean != base.second) - np.append(0.0, kept) / len(clean))
    crossed = np.flatnonzero((expected[:-1] > rate) != (expected[1:] > rate))
    if len(crossed) == 0:
        low, high = 100 * expected.min(), 100 * expected.max()
        raise ValueError(
            f"no factor makes {100 * rate:g} % of these labels wrong: with these probabilities type {kind} can make "
            f"{low:.2f} % to just below {high:.2f} %."
        )
    at = crossed[0]
    share = (expected[at] - rate) / (expected[at] - expected[at + 1])
    return float(1 / (x[at] + share * (x[at + 1] - x[at])))


class _Margins(NamedTuple):
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    keep: NDArray[np.float64]  # 1 - τ
    num_classes: int


def _margins(probabilities: ArrayLike, labels: ArrayLike, kind: PolyMargin) -> tuple[NDArray[np.int64], _Margins]:
    """Return the clean labels, and for each sample its two likeliest classes and the chance to keep the first."""
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2 or not np.isfinite(p).all():
        raise ValueError(f"probabilities must be finite numbers of shape (N, c), c > 1; got shape {p.shape}.")
    clean = read_labels(labels, p.shape[1])
    if len(clean) != len(p):
        raise ValueError(f"every label needs a row of probabilities: {len(clean)} labels, {len(p)} rows.")
    if kind not in get_args(PolyMargin):
        raise ValueError(f"kind must be one of {', '.join(get_args(PolyMargin))}; got {kind!r}.")
    order = p.argsort(1)
    first, second = order[:, -1], order[:, -2]
    rows = np.arange(len(p))
    m = p[rows, first] - p[rows, second]
    tau = {"I": 0.5 - m**2 / 2, "II": 1 - m**3, "III": 1 - (m + m**2 + m**3) / 3}[kind]
    return clean, _Margins(first, second, 1 - tau, p.shape[1])


def _truncated_normal(mean: float, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw from N(mean, 0.1²) until every value lies in [0, 1]."""
    values = generator.normal(mean, _SPREAD, count)
    while (outside := (values < 0) | (values > 1)).any():
        values[outside] = generator.normal(mean, _SPREAD, int(outside.sum()))
    return values


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
