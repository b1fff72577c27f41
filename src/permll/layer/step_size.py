"""The two settings of α, its start m and its step, and what they mean: when does a contradicted label turn?

η and m mean little to a user; after how much of training a label that the network contradicts gives way means a lot.
Suppose the network is certain of a class k ≠ y at every visit. Then α_k rises, α_y falls, and after n visits of step
``lr`` the largest entry of α moves from y to k. For cross-entropy the gap closes by lr (1 + a_y - a_k) a visit, so n
lies between g / (lr (1 + m)) and g / lr + 1. The functions below follow the visits themselves rather than that bound.
"""

import math
from functools import partial

import numpy as np

from permll.layer.equations import LossName, Side, initial_gap

PAPER_INIT, PAPER_CLASSES = 0.35, 10  # the paper's settings for CIFAR-10
PAPER_STEP = 1.5 / 128  # its η = 1.5 multiplies the gradient of a mean over 128 samples
DEFAULT_TURN = 0.3  # of training; docs/decisions/0003 says why it is not the paper's

_LONGEST = 1000  # beyond so many visits the path is a smooth curve in n * lr, and lr simply scales as 1 / n


def choose_init(init: float | None, num_classes: int) -> float:
    """Return ``init``, checked; by default the paper's 0.35, or its head start in α where classes are few.

    0.35 of ten classes is a head start of log(0.35 * 9 / 0.65) = 1.58 over any other; of three it would be 0.07, which
    says next to nothing, and of two it would contradict the label.

    Examples:
        >>> [round(choose_init(None, c), 3) for c in (2, 3, 10, 1000)]
        [0.829, 0.708, 0.35, 0.35]
    """
    if init is None:
        odds = PAPER_INIT * (PAPER_CLASSES - 1) / (1 - PAPER_INIT)
        return max(PAPER_INIT, odds / (odds + num_classes - 1))
    if not 1 / num_classes < init < 1:
        raise ValueError(f"init must lie between 1/c = {1 / num_classes:g} and 1, both excluded; got {init}.")
    return init


def choose_step(
    lr: float | None,
    correct_after: float | None,
    epochs: int | None,
    *,
    num_classes: int,
    init: float,
    on: Side,
    loss: LossName,
) -> float:
    """Return the step of α per visit: ``lr`` itself, or what makes a contradicted label turn in time.

    Examples:
        >>> case = dict(num_classes=10, init=0.35, on="prediction", loss="ce")
        >>> round(choose_step(None, 0.5, 40, **case), 3)
        0.068
        >>> choose_step(None, None, None, **case) == 1.5 / 128
        True
    """
    if lr is not None:
        if correct_after is not None or epochs is not None:
            raise ValueError("lr and correct_after with epochs both set the step of alpha: give one of them.")
        if not (isinstance(lr, int | float | np.floating) and 0 <= lr < math.inf):
            raise ValueError(f"lr must be a number not below 0, got {lr!r}.")
        return lr
    if epochs is None:
        if correct_after is not None:
            raise ValueError("correct_after is a fraction of training: give epochs as well.")
        return PAPER_STEP
    correct_after = DEFAULT_TURN if correct_after is None else correct_after
    if on == "label":
        raise ValueError("correct_after and epochs set the step for on='prediction' only: give lr for on='label'.")
    if not (isinstance(epochs, int | np.integer) and epochs >= 1 and 0 < correct_after < math.inf):
        raise ValueError(
            "correct_after must be positive and epochs a whole number, at least 1; got "
            f"correct_after={correct_after!r} and epochs={epochs!r}."
        )
    return lr_to_correct_after(max(1, round(correct_after * epochs)), num_classes=num_classes, init=init, loss=loss)


def is_corrected_after(visits: int, lr: float, *, num_classes: int, init: float, loss: LossName = "ce") -> bool:
    """Return whether ``visits`` certain contradictions with the step ``lr`` turn the label.

    For a prediction that is certain of class k, every loss moves α along a - e_k; only the speed differs: 1 for CE and
    KL, 2 a_k for L1, √2 a_k for L2. All classes but y and k stay alike, so three numbers are the whole row.

    Examples:
        >>> [is_corrected_after(n, 80 / 64, num_classes=14, init=0.275) for n in (1, 2)]  # the paper's Clothing1M
        [False, True]
        >>> [is_corrected_after(n, 1.5 / 128, num_classes=10, init=0.35) for n in (117, 118)]  # its CIFAR-10, 120 epochs
        [False, True]
    """
    factor, power = _SPEED[loss]
    given, certain, other = initial_gap(num_classes, init), 0.0, 0.0
    for _ in range(visits):
        top = max(given, certain, other)
        e_given, e_certain, e_other = math.exp(given - top), math.exp(certain - top), math.exp(other - top)
        total = e_given + e_certain + (num_classes - 2) * e_other
        step = lr * factor * (e_certain / total) ** power
        given -= step * e_given / total
        certain += step * (1 - e_certain / total)
        other -= step * e_other / total
    return certain > given


# As factor and power of a_k.
_SPEED: dict[LossName, tuple[float, int]] = {"ce": (1.0, 0), "kl": (1.0, 0), "l1": (2.0, 1), "l2": (math.sqrt(2), 1)}


def lr_to_correct_after(visits: int, *, num_classes: int, init: float, loss: LossName = "ce") -> float:
    """Return the smallest step with which a label contradicted at every visit turns by its ``visits``-th one.

    Examples:
        >>> lr = lr_to_correct_after(100, num_classes=10, init=0.35)
        >>> round(lr, 4)
        0.0137
        >>> [is_corrected_after(100, share * lr, num_classes=10, init=0.35) for share in (0.999, 1.001)]
        [False, True]
    """
    followed = min(visits, _LONGEST)
    turned = partial(is_corrected_after, followed, num_classes=num_classes, init=init, loss=loss)
    high = initial_gap(num_classes, init) / followed
    while not turned(high):
        high *= 2
    low = high / 2
    while turned(low):
        high, low = low, low / 2
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if turned(middle) else (middle, high)
    return high * (1 + 1e-5) * followed / visits  # a hair more, lest rounding in float32 cost a visit
