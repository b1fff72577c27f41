"""How many labels of a run are wrong, and which class is given in whose place: estimated without a clean label.

At its end a run writes down what several estimators say (``noise_estimate.json``). ``benchmarks/estimate_noise.py``
compares them with the truth; the first of ``ESTIMATORS`` that a run has is the default.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.functional.noise_rate import (
    fit_joint,
    joint_from_label_probs,
    noise_rate_from_joint,
    noise_rate_from_mixture,
    transition_from_joint,
)
from permll.training.run import Run
from permll.utils.files import atomic_write_text

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

NOISE_ESTIMATE = "noise_estimate.json"
ESTIMATORS = ("held_out", "beliefs", "mixture")
NORMAL = 1.96  # standard errors to each side of a 95 % interval


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """How many labels are wrong, and how.

    Args:
        rate: share of wrong labels, in [0, 1].
        interval: 95 %, for the chance of drawing these rows; what the network itself is mistaken about comes on top.
        joint: (c, c), J[i, j] = P(clean class i, given label j); None where an estimator gives a rate alone.
        classes: c names.
        by: the estimator: ``"held_out"``, ``"beliefs"`` or ``"mixture"``.
        rows: how many rows it was told from.
    """

    rate: float
    interval: tuple[float, float]
    joint: Tensor | None
    classes: tuple[str, ...]
    by: str
    rows: int

    @property
    def transition(self) -> Tensor:
        """T (c, c), T[i, j] = P(given label j | clean class i)."""
        if self.joint is None:
            raise ValueError(f"the estimator {self.by} tells a rate alone; ask for by='held_out' or by='beliefs'.")
        return transition_from_joint(self.joint)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.rate:.1f} % of the labels are wrong ({100 * low:.1f} to {100 * high:.1f} %, by {self.by})"


def estimate_noise(
    source: Run | Path | str | Tensor | NDArray[Any],
    labels: Tensor | NDArray[Any] | Sequence[int] | None = None,
    *,
    by: str | None = None,
) -> NoiseEstimate:
    """Return how many labels are wrong, and which class is given in whose place, without a clean label.

    Args:
        source: a finished run or its folder; or probabilities (N, c) of any classifier, a tensor or an array, for rows
            whose labels it was not trained on, such as those of a cross-validation.
        labels: (N,) the given labels of these rows, where ``source`` is probabilities.
        by: which estimate of the run: ``"held_out"`` (the network's predictions for validation rows), ``"beliefs"``
            (what the method believes the training labels to be) or ``"mixture"`` (two humps of the training losses);
            default the first there is.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> probabilities = torch.nn.functional.one_hot(labels, 2) * 0.98 + 0.01
        >>> labels[::10] = 1 - labels[::10]
        >>> print(estimate_noise(probabilities, labels))
        10.0 % of the labels are wrong (3.3 to 16.7 %, by held_out)
    """
    if isinstance(source, Tensor | np.ndarray):
        if by not in (None, "held_out"):
            raise ValueError(f"probabilities alone tell the noise by 'held_out', not by {by!r}: give a run.")
        probabilities, given = _checked(source, labels)
        classes = tuple(map(str, range(probabilities.shape[1])))
        return _by_held_out(probabilities.clamp_min(1e-12).log(), given, classes)
    run = source if isinstance(source, Run) else Run(source)
    found = _read(run)
    name = next(name for name in ESTIMATORS if name in found) if by is None else by
    if name not in found:
        raise ValueError(f"{run.folder} has no estimate by {name!r}: it has {', '.join(found)}.")
    return found[name]


def noise_estimates(trainer: "Trainer", beliefs: Tensor) -> dict[str, NoiseEstimate]:
    """Return what each estimator says of a training.

    Args:
        loop: at its end.
        beliefs: (N, c) what the method believes the labels to be.
    """
    classes, labels = trainer.data.classes, trainer.data.labels
    found = {}
    if trainer.validation is not None:
        held_out = trainer.predict(trainer.validation).cpu().clamp_min(1e-12).log()
        found["held_out"] = _by_held_out(held_out, trainer.validation.labels, classes)
    wrong = 1 - beliefs.double().gather(1, labels[:, None])[:, 0]
    joint = joint_from_label_probs(beliefs, labels)
    found["beliefs"] = _estimate(noise_rate_from_joint(joint), _error(wrong), joint, classes, "beliefs", len(labels))
    rate = noise_rate_from_mixture(trainer.predict(trainer.data).cpu().clamp_min(1e-12).log(), labels)
    error = math.sqrt(rate * (1 - rate) / len(labels))
    found["mixture"] = _estimate(rate, error, None, classes, "mixture", len(labels))
    return found


def write_noise_estimate(folder: Path, found: Mapping[str, NoiseEstimate]) -> None:
    """Write what each estimator says of a run into its folder."""
    atomic_write_text(folder / NOISE_ESTIMATE, json.dumps({name: _as_json(one) for name, one in found.items()}) + "\n")


def _checked(
    source: Tensor | NDArray[Any], labels: Tensor | NDArray[Any] | Sequence[int] | None
) -> tuple[Tensor, Tensor]:
    """Return probabilities and labels as tensors, or say what is wrong with them."""
    if labels is None:
        raise ValueError("probabilities need the labels that were given to their rows: estimate_noise(p, labels).")
    probabilities, given = torch.as_tensor(source).detach().cpu().double(), torch.as_tensor(labels).cpu()
    if probabilities.ndim != 2 or given.shape != probabilities.shape[:1] or not len(given):
        shapes = f"{tuple(probabilities.shape)} and {tuple(given.shape)}"
        raise ValueError(f"probabilities are (N, c) and labels (N,), with a row or more; got {shapes}.")
    if bool((probabilities < 0).any()) or not bool(((probabilities.sum(1) - 1).abs() < 1e-3).all()):
        raise ValueError("probabilities must be 0 or more and each row sum to 1; of logits, take softmax first.")
    classes = probabilities.shape[1]
    if given.is_floating_point() or bool(((given < 0) | (given >= classes)).any()):
        raise ValueError(f"labels must be whole numbers from 0 to {classes - 1}, one of {classes} columns.")
    return probabilities, given.long()


def _by_held_out(logits: Tensor, labels: Tensor, classes: tuple[str, ...]) -> NoiseEstimate:
    fit = fit_joint(logits, labels)
    return _estimate(noise_rate_from_joint(fit.joint), fit.error, fit.joint, classes, "held_out", len(labels))


def _estimate(
    rate: float, error: float, joint: Tensor | None, classes: tuple[str, ...], by: str, rows: int
) -> NoiseEstimate:
    interval = max(rate - NORMAL * error, 0.0), min(rate + NORMAL * error, 1.0)
    return NoiseEstimate(rate, interval, joint, classes, by, rows)


def _error(values: Tensor) -> float:
    return (values.std() / math.sqrt(len(values))).item() if len(values) > 1 else 1.0


def _as_json(estimate: NoiseEstimate) -> dict[str, Any]:
    joint = None if estimate.joint is None else estimate.joint.tolist()
    return {**vars(estimate), "joint": joint}


def _read(run: Run) -> dict[str, NoiseEstimate]:
    path = run.folder / NOISE_ESTIMATE
    if not run.exists:
        raise FileNotFoundError(f"{run.folder} is no run: give a folder that permll train made.")
    if not path.is_file():
        raise FileNotFoundError(f"{run.folder} has no noise estimate yet: permll train {run.folder} goes on with it.")
    return {name: _from_json(entry) for name, entry in json.loads(path.read_text()).items()}


def _from_json(entry: Mapping[str, Any]) -> NoiseEstimate:
    joint = None if entry["joint"] is None else torch.tensor(entry["joint"], dtype=torch.float64)
    low, high = entry["interval"]
    return NoiseEstimate(entry["rate"], (low, high), joint, tuple(entry["classes"]), entry["by"], entry["rows"])
