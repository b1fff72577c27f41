"""Softmax in plain Python, as an independent reference for tests."""

import math
from collections.abc import Iterable


def softmax(logits: Iterable[float]) -> list[float]:
    values = [float(value) for value in logits]
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def log_softmax(logits: Iterable[float]) -> list[float]:
    values = [float(value) for value in logits]
    top = max(values)
    total = top + math.log(sum(math.exp(value - top) for value in values))
    return [value - total for value in values]
