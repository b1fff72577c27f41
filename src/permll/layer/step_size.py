"""Initial weight m and step size of α, and the number of updates after which a contradicted label is corrected.

η and m are hard to choose directly; the fraction of training after which a contradicted label is corrected is not.
Suppose the network is certain of a class k ≠ y at every update. Then α_k rises, α_y falls, and after n updates with
step ``lr`` the largest entry of α moves from y to k. For cross-entropy the difference α_y - α_k shrinks by lr (1 + a_y
- a_k) per update, so n lies between g / (lr (1 + m)) and g / lr + 1. The functions below simulate the updates instead
of using that bound.
"""

import math
from functools import partial

import numpy as np

from permll.layer.equations import LossName, Side, initial_label_logit

PAPER_INIT, PAPER_CLASSES = 0.35, 10  # the paper's settings for CIFAR-10
PAPER_LR = 1.5 / 128  # η = 1.5 of the paper multiplies the gradient of a mean over 128 samples
DEFAULT_CORRECT_AFTER = 0.3  # fraction of training; docs/decisions/0003 explains why it differs from the paper

_MAX_SIMULATED = 1000  # updates; beyond them the path depends on n * lr only, and lr scales as 1 / n


def resolve_init(init: float | None, num_classes: int) -> float:
    """Validate ``init``; by default return the paper's 0.35, or the weight with the same label logit for c < 10.

    With ten classes 0.35 is a label logit of log(0.35 * 9 / 0.65) = 1.58. With three classes it would be 0.07, which is
    next to no information, and with two it would contradict the label.

    Examples:
        >>> [round(resolve_init(None, c), 3) for c in (2, 3, 10, 1000)]
        [0.829, 0.708, 0.35, 0.35]
    """
    if init is None:
        odds = PAPER_INIT * (PAPER_CLASSES - 1) / (1 - PAPER_INIT)
        return max(PAPER_INIT, odds / (odds + num_classes - 1))
    if not 1 / num_classes < init < 1:
        raise ValueError(f"init must lie between 1/c = {1 / num_classes:g} and 1, both excluded; got {init}.")
    return init


def resolve_lr(
    lr: float | None,
    correct_after: float | None,
    epochs: int | None,
    *,
    num_classes: int,
    init: float,
    on: Side,
    loss: LossName,
) -> float:
    """Return the step of α per update: ``lr``, or the step that corrects contradicted labels after ``correct_after``.

    Examples:
        >>> case = dict(num_classes=10, init=0.35, on="prediction", loss="ce")
        >>> round(resolve_lr(None, 0.5, 40, **case), 3)
        0.068
        >>> resolve_lr(None, None, None, **case) == 1.5 / 128
        True
    """
    if lr is not None:
        if correct_after is not None or epochs is not None:
            raise ValueError("lr and correct_after with epochs both set the step of alpha: pass one of them.")
        if not (isinstance(lr, int | float | np.floating) and 0 <= lr < math.inf):
            raise ValueError(f"lr must be a number >= 0, got {lr!r}.")
        return lr
    if epochs is None:
        if correct_after is not None:
            raise ValueError("correct_after is a fraction of training: pass epochs as well.")
        return PAPER_LR
    correct_after = DEFAULT_CORRECT_AFTER if correct_after is None else correct_after
    if on == "label":
        raise ValueError("correct_after and epochs set the step for on='prediction' only: pass lr for on='label'.")
    if not (isinstance(epochs, int | np.integer) and epochs >= 1 and 0 < correct_after < math.inf):
        raise ValueError(
            "correct_after must be positive and epochs an integer >= 1; got "
            f"correct_after={correct_after!r} and epochs={epochs!r}."
        )
    return lr_to_correct_after(max(1, round(correct_after * epochs)), num_classes=num_classes, init=init, loss=loss)


def is_corrected_after(updates: int, lr: float, *, num_classes: int, init: float, loss: LossName = "ce") -> bool:
    """Return whether ``updates`` certain contradictions with step ``lr`` correct the label.

    If the prediction is certain of class k, every loss moves α along a - e_k. Only the speed differs: 1 for CE and KL,
    2 a_k for L1, √2 a_k for L2. All classes except y and k stay equal, so three numbers describe the row.

    Examples:
        >>> [is_corrected_after(n, 80 / 64, num_classes=14, init=0.275) for n in (1, 2)]  # the paper's Clothing1M
        [False, True]
        >>> [is_corrected_after(n, 1.5 / 128, num_classes=10, init=0.35) for n in (117, 118)]  # its CIFAR-10
        [False, True]
    """
    factor, power = _SPEED[loss]
    label, predicted, other = initial_label_logit(num_classes, init), 0.0, 0.0
    for _ in range(updates):
        top = max(label, predicted, other)
        e_label, e_predicted, e_other = math.exp(label - top), math.exp(predicted - top), math.exp(other - top)
        total = e_label + e_predicted + (num_classes - 2) * e_other
        step = lr * factor * (e_predicted / total) ** power
        label -= step * e_label / total
        predicted += step * (1 - e_predicted / total)
        other -= step * e_other / total
    return predicted > label


# Speed as factor and power of a_k.
_SPEED: dict[LossName, tuple[float, int]] = {"ce": (1.0, 0), "kl": (1.0, 0), "l1": (2.0, 1), "l2": (math.sqrt(2), 1)}


def lr_to_correct_after(updates: int, *, num_classes: int, init: float, loss: LossName = "ce") -> float:
    """Return the smallest step that corrects a label within ``updates`` updates, if every update contradicts it.

    Examples:
        >>> lr = lr_to_correct_after(100, num_classes=10, init=0.35)
        >>> round(lr, 4)
        0.0137
        >>> [is_corrected_after(100, factor * lr, num_classes=10, init=0.35) for factor in (0.999, 1.001)]
        [False, True]
    """
    simulated = min(updates, _MAX_SIMULATED)
    is_corrected = partial(is_corrected_after, simulated, num_classes=num_classes, init=init, loss=loss)
    high = initial_label_logit(num_classes, init) / simulated
    while not is_corrected(high):
        high *= 2
    low = high / 2
    while is_corrected(low):
        high, low = low, low / 2
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_corrected(middle) else (middle, high)
    return high * (1 + 1e-5) * simulated / updates  # the margin keeps float32 rounding from costing an update
