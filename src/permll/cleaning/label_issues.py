"""From a finished run to findings: the posterior of every label, why it is suspect, and what else is like it."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from permll.cleaning.duplicates import contradictions
from permll.cleaning.findings import THRESHOLD, Findings
from permll.cleaning.neighbors import nearest_rows
from permll.cleaning.prediction_averaging import Remembered, remembered
from permll.data.dataset import LabeledData
from permll.functional.noise_model import (
    NoiseModel,
    conservative_noise_model,
    fit_label_bias,
    fit_noise_model,
    label_posterior,
)
from permll.training.predictor import load_predictor
from permll.training.run import Run

NEIGHBOURS = 8
LOOKED_AT = 10_000  # of the most suspect rows the neighbors are found; nobody reviews more


def judge(run: Run, data: LabeledData, threshold: float = THRESHOLD) -> Findings:
    """Return the findings of a finished run that was watched by ``Memory``.

    Args:
        run: the run.
        data: all its samples, as they were read, in any order.
        threshold: see ``Findings``.
    """
    place = {name: row for row, name in enumerate(data.ids)}
    memory = remembered(run.folder)
    rows = torch.tensor([place[name] for name in memory.ids])  # of what is remembered, in the order of the data
    labels = _given(run, memory)
    noise_model, posterior, conservative = posterior_of(memory, labels)
    order = rows.argsort()
    known = data.take(rows[order])
    log_p, given = memory.log_p[order], labels[order]
    duplicates = contradictions(known.inputs, given)
    bare = Findings.of_posterior(
        known.ids, known.classes, given, posterior[order], conservative=conservative[order], threshold=threshold
    )
    neighbors = _neighbors(run, known, bare)
    reasons = _reasons(run, bare, log_p, given, neighbors, duplicates)
    about = _about(run, known, noise_model, memory, labels)
    return replace(bare, reasons=reasons, neighbors=neighbors, duplicates=duplicates, metadata=about)


class Judgement(NamedTuple):
    """The channel that held-out rows tell, and the posterior (N, c) of all rows, also as a sceptic has it."""

    noise_model: NoiseModel
    posterior: Tensor
    conservative: Tensor


def posterior_of(memory: Remembered, labels: Tensor) -> Judgement:
    """Return what is to be believed of N labels.

    Without held-out rows the channel is told by the rows that were trained on, and nothing is taken back.
    """
    seen, held_out = slice(memory.predictor), slice(memory.predictor, None)
    told = held_out if memory.predictor < len(labels) else seen
    noise_model = fit_noise_model(memory.log_p[told], labels[told])

    def posterior(noise_model: NoiseModel) -> Tensor:
        if told is seen:
            return label_posterior(memory.log_p, labels, noise_model)
        label_bias = fit_label_bias(memory.log_p[seen], labels[seen], noise_model)
        parts = [(seen, label_bias), (held_out, 0.0)]
        return torch.cat([label_posterior(memory.log_p[at], labels[at], noise_model, b) for at, b in parts])

    return Judgement(
        noise_model,
        posterior(noise_model),
        posterior(conservative_noise_model(noise_model, memory.log_p[told], labels[told])),
    )


def _given(run: Run, memory: Remembered) -> Tensor:
    """Return the labels that the run was told, in the order of what it remembers."""
    with np.load(run.folder / "labels.npz", allow_pickle=False) as saved:
        told = dict(zip(saved["ids"].tolist(), saved["given"].tolist(), strict=True))
        told |= dict(zip(saved["validation"].tolist(), saved["validation_given"].tolist(), strict=True))
    return torch.tensor([told[name] for name in memory.ids])


def _neighbors(run: Run, data: LabeledData, findings: Findings) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return (N, m) the rows most alike, for those that may be looked at; -1 for the others."""
    features = load_predictor(run).features(data.inputs)
    first = findings.order[:LOOKED_AT].copy()
    found = nearest_rows(features, torch.from_numpy(first), NEIGHBOURS)
    neighbors = np.full((len(data), found.shape[1]), -1, np.int32)
    neighbors[first] = found.numpy()
    return neighbors


def _reasons(
    run: Run,
    findings: Findings,
    log_p: Tensor,
    given: Tensor,
    neighbors: np.ndarray[Any, np.dtype[np.int32]],
    duplicates: tuple[tuple[int, ...], ...],
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return what speaks against each label, as sums of the keys of ``REASONS``."""
    turned = {one.id for one in run.findings if one.proposed != one.given}
    labels = given.numpy()
    reasons = np.array([name in turned for name in findings.ids]).astype(np.uint8)
    reasons |= 2 * (log_p.argmax(1) != given).numpy().astype(np.uint8)
    if neighbors.shape[1]:
        same = (labels[neighbors] == labels[:, None]).mean(1)
        reasons |= 4 * ((same < 0.5) & (neighbors[:, 0] >= 0)).astype(np.uint8)
    for rows in duplicates:
        reasons[list(rows)] |= 8
    return reasons


def _knows(memory: Remembered, labels: Tensor) -> Mapping[str, float]:
    """Return which share of held-out labels the network says, and which one who knows the commonest class alone."""
    rows = slice(memory.predictor if memory.predictor < len(labels) else 0, None)
    told, given = memory.log_p[rows].argmax(1), labels[rows]
    guess = given.bincount().max().item() / len(given)
    error = math.sqrt(guess * (1 - guess) / len(given))
    return {"agrees": (told == given).double().mean().item(), "guess": guess, "error": error}


def _about(
    run: Run, data: LabeledData, noise_model: NoiseModel, memory: Remembered, labels: Tensor
) -> Mapping[str, Any]:
    low, high = noise_model.interval
    return {
        "method": run.recipe.method.name,
        "data": repr(data),
        "run": str(run.folder),
        "source": run.recipe.data.source,
        "noise": {"rate": noise_model.rate, "low": low, "high": high, "rows": len(memory.ids) - memory.predictor},
        "network": _knows(memory, labels),
        "transition": noise_model.transition.tolist(),
        "epoch": memory.epoch,
    }
