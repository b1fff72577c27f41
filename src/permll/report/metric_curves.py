"""Metrics of a run as curves over the epochs, and their mean and range over seeds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = Sequence[Mapping[str, Any]]  # lines of metrics.jsonl
Curve = dict[int, float]  # by epoch
Floats = NDArray[np.float64]
_COUNTS = {
    "right": "correction_right_after",
    "right_before": "correction_right_before",
    "wrong": "correction_wrong",
    "corrected": "correction_changed",
}


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics.jsonl up to the first damaged one; none without the file."""
    path = folder / "metrics.jsonl"
    metrics: list[dict[str, Any]] = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            metrics.append(json.loads(line))
        except ValueError:
            break
    return metrics


def curve(rows: Rows, name: str) -> Curve:
    """Return a metric by epoch, for the epochs in which it was measured.

    Args:
        rows: lines of metrics.jsonl.
        name: a key of them, or ``"right"``, ``"right_before"``, ``"wrong"`` or ``"corrected"``: fractions of training
            labels, computed from their counts if need be.

    Examples:
        >>> curve([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "correction_samples": 4}], "loss")
        {1: 0.5, 2: 0.25}
        >>> curve([{"epoch": 2, "correction_changed": 1, "correction_samples": 4}], "corrected")
        {2: 0.25}
    """
    values = {}
    for row in rows:
        value, count = row.get(name), row.get(_COUNTS.get(name, ""))
        if value is None and count is not None:
            value = count / row["correction_samples"]
        if value is not None:
            values[row["epoch"]] = value
    return values


def band(seeds: Sequence[Curve]) -> tuple[list[int], Floats, Floats, Floats]:
    """Return the epochs that all seeds have, and mean, minimum and maximum over seeds.

    Examples:
        >>> epochs, mean, low, high = band([{1: 0.5, 2: 0.75}, {1: 1.0, 2: 0.25, 3: 0.5}])
        >>> epochs, mean.tolist(), low.tolist(), high.tolist()
        ([1, 2], [0.75, 0.5], [0.5, 0.25], [1.0, 0.75])
    """
    epochs = [epoch for epoch in seeds[0] if all(epoch in seed for seed in seeds)]
    values = np.array([[seed[epoch] for epoch in epochs] for seed in seeds])
    return epochs, values.mean(0), values.min(0), values.max(0)
