"""``estimate_noise``: the fraction of wrong labels, and which classes are mislabeled as which, without clean labels.

At its end, a run writes the results of several estimators to ``noise_estimate.json``. ``benchmarks/estimate_noise.py``
compares them with the truth. The first of ``ESTIMATORS`` that a run has is its default, and the rate of its findings.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.functional.label_errors import LabelErrors, find_errors
from permll.functional.noise_rate import (
    joint_from_label_probs,
    noise_rate_from_joint,
    noise_rate_from_mixture,
    transition_from_joint,
)
from permll.training.run import Run
from permll.utils.files import atomic_write_text
from permll.utils.validation import check_class_labels

NOISE_ESTIMATE = "noise_estimate.json"
ESTIMATORS = ("held_out", "training", "corrected_labels", "mixture")
NORMAL_QUANTILE = 1.96  # of a 95 % interval


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """An estimate of the label noise.

    Args:
        rate: fraction of wrong labels, in [0, 1].
        interval: 95 % confidence interval for the draw of the rows; it does not cover errors of the network.
        joint: (c, c), J[i, j] = P(true class i, given label j); None for an estimator of the rate alone.
        classes: c class names.
        by: the estimator, one of ``ESTIMATORS``.
        rows: number of rows it was estimated from.
    """

    rate: float
    interval: tuple[float, float]
    joint: Tensor | None
    classes: tuple[str, ...]
    by: str
    rows: int

    @property
    def transition(self) -> Tensor:
        """T (c, c), T[i, j] = P(given label j | true class i)."""
        if self.joint is None:
            raise ValueError(f"the estimator {self.by!r} gives only a rate; use by='held_out' or 'corrected_labels'.")
        return transition_from_joint(self.joint)

    def summary(self) -> dict[str, Any]:
        """Return rate, interval and number of rows as JSON values."""
        low, high = self.interval
        return {"rate": self.rate, "low": low, "high": high, "rows": self.rows, "by": self.by}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.rate:.1f} % of the labels are wrong ({100 * low:.1f} to {100 * high:.1f} %, by {self.by})"


def estimate_noise(
    source: Run | Path | str | Tensor | NDArray[Any],
    labels: Tensor | NDArray[Any] | Sequence[int] | None = None,
    *,
    by: str | None = None,
) -> NoiseEstimate:
    """Return the estimated fraction of wrong labels and the joint distribution of true classes and given labels.

    Args:
        source: a finished run or its folder; or out-of-sample probabilities (N, c) of any classifier, such as those of
            a cross-validation.
        labels: (N,) given labels, if ``source`` is probabilities.
        by: the estimator of a run: ``"held_out"`` (from validation rows), ``"training"`` (the same from
            training rows, where none are held out), ``"corrected_labels"`` (the corrected labels of the method) or
            ``"mixture"`` (a two-component mixture of training losses); default the first available.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> probabilities = torch.nn.functional.one_hot(labels, 2) * 0.98 + 0.01
        >>> labels[::10] = 1 - labels[::10]
        >>> print(estimate_noise(probabilities, labels))
        9.4 % of the labels are wrong (3.7 to 15.1 %, by held_out)
    """
    if isinstance(source, Tensor | np.ndarray):
        if by not in (None, "held_out"):
            raise ValueError(f"by={by!r} needs a run; probabilities are estimated by 'held_out'.")
        probabilities, given = _checked(source, labels)
        classes = tuple(map(str, range(probabilities.shape[1])))
        return from_errors(find_errors(probabilities.clamp_min(1e-12).log(), given), classes, "held_out", len(given))
    run = source if isinstance(source, Run) else Run(source)
    estimates = _read(run)
    name = next(name for name in ESTIMATORS if name in estimates) if by is None else by
    if name not in estimates:
        raise ValueError(f"{run.folder} has no estimate by {name!r}: it has {', '.join(estimates)}.")
    return estimates[name]


def from_errors(errors: LabelErrors, classes: tuple[str, ...], by: str, rows: int) -> NoiseEstimate:
    """Return the estimate of ``find_errors``, from a number of rows."""
    return NoiseEstimate(errors.rate, errors.limits, errors.joint, classes, by, rows)


def by_corrected_labels(class_probs: Tensor, labels: Tensor, classes: tuple[str, ...]) -> NoiseEstimate:
    """Return the estimate of corrected labels (N, c)."""
    wrong = 1 - class_probs.double().gather(1, labels[:, None])[:, 0]
    error = (wrong.std() / math.sqrt(len(wrong))).item() if len(wrong) > 1 else 1.0
    joint = joint_from_label_probs(class_probs, labels)
    rate = noise_rate_from_joint(joint)
    return NoiseEstimate(rate, _interval(rate, error), joint, classes, "corrected_labels", len(labels))


def by_mixture(log_p: Tensor, labels: Tensor, classes: tuple[str, ...]) -> NoiseEstimate:
    """Return the rate of a two-component mixture of the losses of training rows, given log probabilities (N, c)."""
    rate = noise_rate_from_mixture(log_p, labels)
    error = math.sqrt(rate * (1 - rate) / len(labels))
    return NoiseEstimate(rate, _interval(rate, error), None, classes, "mixture", len(labels))


def write_noise_estimates(folder: Path, estimates: Iterable[NoiseEstimate]) -> None:
    """Write the estimates of a run into its folder."""
    content = {}
    for estimate in estimates:
        joint = None if estimate.joint is None else estimate.joint.tolist()
        content[estimate.by] = {**vars(estimate), "joint": joint}
    atomic_write_text(folder / NOISE_ESTIMATE, json.dumps(content) + "\n")


def _checked(
    source: Tensor | NDArray[Any], labels: Tensor | NDArray[Any] | Sequence[int] | None
) -> tuple[Tensor, Tensor]:
    """Return probabilities and labels as tensors; refuse what is not."""
    if labels is None:
        raise ValueError("probabilities need the given labels of their rows: estimate_noise(probabilities, labels).")
    probabilities, given = torch.as_tensor(source).detach().cpu().double(), torch.as_tensor(labels).cpu()
    if probabilities.ndim != 2 or given.shape != probabilities.shape[:1] or not len(given):
        shapes = f"{tuple(probabilities.shape)} and {tuple(given.shape)}"
        raise ValueError(f"probabilities must be (N, c) and labels (N,), N >= 1; got {shapes}.")
    if bool((probabilities < 0).any()) or not bool(((probabilities.sum(1) - 1).abs() < 1e-3).all()):
        raise ValueError(
            "probabilities must not be negative and each row must sum to 1; apply softmax to logits first."
        )
    check_class_labels(given, probabilities.shape[1], hint="there is one column for each class")
    return probabilities, given.long()


def _interval(rate: float, error: float) -> tuple[float, float]:
    return max(rate - NORMAL_QUANTILE * error, 0.0), min(rate + NORMAL_QUANTILE * error, 1.0)


def _read(run: Run) -> dict[str, NoiseEstimate]:
    path = run.folder / NOISE_ESTIMATE
    if not run.exists:
        raise FileNotFoundError(f"{run.folder} is not a run: pass a folder that permll train or permll clean made.")
    if not path.is_file():
        raise FileNotFoundError(f"{run.folder} has no noise estimate yet: {run.resume_command} resumes it.")
    estimates = {}
    for name, entry in json.loads(path.read_text()).items():
        joint = None if entry["joint"] is None else torch.tensor(entry["joint"], dtype=torch.float64)
        saved = {"interval": tuple(entry["interval"]), "joint": joint, "classes": tuple(entry["classes"])}
        estimates[name] = NoiseEstimate(**(entry | saved))
    return estimates
