"""Checks of values that every package takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from permll.utils.messages import first_line, format_list


def check_class_labels(
    labels: Any,
    num_classes: int | None,
    *,
    name: str = "labels",
    rows: Sequence[object] | None = None,
    noun: str = "position",
    hint: str = "number the classes from 0 to c-1",
    allow_empty: bool = False,
) -> None:
    """Raise ``ValueError`` unless ``labels`` are integers (N,) in 0..c-1.

    Args:
        labels: tensor on any device, or NumPy array.
        num_classes: c; None checks only that no label is negative.
        name: name of the labels in the message.
        rows: N names of the samples in the message; default their positions.
        noun: noun for one of ``rows``.
        hint: how to correct the labels.
        allow_empty: accept N = 0.

    Examples:
        >>> check_class_labels(np.array([0, 3, 1]), num_classes=3)
        Traceback (most recent call last):
        ValueError: labels must be in 0..2, but 1 position (1) is not: number the classes from 0 to c-1.
    """
    dtype = str(labels.dtype).removeprefix("torch.")
    if labels.ndim != 1 or not dtype.startswith(("int", "uint")) or (len(labels) == 0 and not allow_empty):
        size = "" if allow_empty else ", N > 0"
        raise ValueError(f"{name} must be integers of shape (N,){size}; got {dtype} of shape {tuple(labels.shape)}.")
    outside = labels < 0
    if num_classes is not None:
        outside = outside | (labels >= num_classes)
    if not bool(outside.any()):
        return
    positions = np.flatnonzero(outside.cpu().numpy() if hasattr(outside, "cpu") else outside).tolist()
    bad = format_list(positions if rows is None else [rows[i] for i in positions], noun)
    allowed = "at least 0" if num_classes is None else f"in 0..{num_classes - 1}"
    verb = "is" if len(positions) == 1 else "are"
    raise ValueError(f"{name} must be {allowed}, but {bad} {verb} not: {hint}.")


def check_range(interval: str, **values: float | None) -> None:
    """Raise ``ValueError`` for a value outside an interval; None is allowed.

    Args:
        interval: such as "[0, 1)" or "(0, inf)".
        values: values by the name of their argument.

    Examples:
        >>> check_range("[0, 1)", beta=0.9, momentum=1.0)
        Traceback (most recent call last):
        ValueError: momentum must lie in [0, 1), got 1.0.
    """
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    for name, value in values.items():
        if value is None:
            continue
        is_above = value >= low if interval[0] == "[" else value > low
        is_below = value <= high if interval[-1] == "]" else value < high
        if not (is_above and is_below):
            raise ValueError(f"{name} must lie in {interval}, got {value}.")


def check_device(name: str | None) -> None:
    """Raise ``ValueError`` unless a kind of device is on this machine; None stands for any.

    Examples:
        >>> check_device("cpu")
        >>> check_device("cuda:1")
        Traceback (most recent call last):
        ...
        ValueError: device must be cpu, cuda or mps, got 'cuda:1'; CUDA_VISIBLE_DEVICES selects a GPU.
    """
    if name is None:
        return
    if name not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device must be cpu, cuda or mps, got {name!r}; CUDA_VISIBLE_DEVICES selects a GPU.")
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} is not available: {first_line(error)}.") from None
