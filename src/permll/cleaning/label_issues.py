"""Label issues of a training: the posterior of every label, the evidence against it, and similar samples."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.cleaning.annotations import annotator_quality, is_disputed
from permll.cleaning.automatic_changes import may_change
from permll.cleaning.prediction_averaging import PredictionAverager
from permll.cleaning.similar_samples import conflicting_duplicates, nearest_rows
from permll.data.annotations import Annotations
from permll.data.dataset import LabeledData
from permll.data.inputs import Vectors
from permll.findings import DEFAULT_THRESHOLD, DISPUTED, REVIEWED, Findings
from permll.functional.annotated_errors import find_annotated_errors
from permll.functional.label_errors import LabelErrors, RateInterval, find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.methods._features import logits_and_features
from permll.training.noise_estimate import NoiseEstimate, by_corrected_labels, by_mixture, from_errors

if TYPE_CHECKING:
    from permll.training.run import Run
    from permll.training.trainer import Trainer

NUM_NEIGHBORS = 8
MAX_ROWS_WITH_NEIGHBORS = 10_000  # the most suspect rows; more are hardly ever reviewed


def estimate_errors(
    trainer: "Trainer",
    averager: PredictionAverager,
    known: RateInterval | None = None,
    annotations: Annotations | None = None,
) -> LabelErrors:
    """Return the errors in the labels of N samples; a collective call.

    If the samples are vectors, the labels of the nearest ones count, too. Without held-out rows, no bias of training
    rows is corrected. ``known`` is the fraction of wrong labels among the samples that are not trusted. With
    ``annotations``, in the order of ``averager``, the network is one more annotator.
    """
    log_p, labels = averager.log_p, averager.labels
    if isinstance(trainer.data.inputs, Vectors):
        x = torch.cat([trainer.evaluate(lambda x: x, part) for part in _parts(trainer)])
        log_p = add_votes(log_p, neighbor_votes(x, labels, log_p.shape[1]), labels)
    if annotations is not None:
        return find_annotated_errors(log_p, annotations.answers, labels, averager.num_train, _trusted(trainer), known)
    return find_errors(log_p, labels, averager.num_train, _trusted(trainer), known)


def _trusted(trainer: "Trainer") -> Tensor:
    """Return (N,) which samples are trusted."""
    masks = [
        torch.zeros(len(part), dtype=torch.bool) if part.trusted is None else part.trusted for part in _parts(trainer)
    ]
    return torch.cat(masks)


def noise_estimates(averager: PredictionAverager, errors: LabelErrors, classes: tuple[str, ...]) -> list[NoiseEstimate]:
    """Return the noise estimates of mean predictions, the default first: that of the noise model."""
    log_p, labels, n = averager.log_p, averager.labels, averager.num_train
    rows, by = (len(labels) - n, "held_out") if n < len(labels) else (n, "training")
    return [
        from_errors(errors, classes, by, rows),
        by_corrected_labels(errors.posterior, labels, classes),
        by_mixture(log_p[:n], labels[:n], classes),
    ]


def find_label_issues(
    trainer: "Trainer",
    run: "Run",
    averager: PredictionAverager,
    data: LabeledData,
    threshold: float,
    known: RateInterval | None = None,
) -> tuple[Findings, list[NoiseEstimate]]:
    """Return the findings and noise estimates at the end of a training; a collective call.

    ``averager`` has the predictions of all epochs, and ``data`` all samples as they were read, in any order: labels
    that were reviewed in an earlier round are those before the review.
    """
    position = {name: row for row, name in enumerate(data.ids)}
    rows = torch.tensor([position[name] for name in averager.ids])
    annotations = None if data.annotations is None else data.annotations.take(rows)
    errors = estimate_errors(trainer, averager, known, annotations)
    estimates = noise_estimates(averager, errors, data.classes)
    corrected, _ = trainer.method.labels_and_quality(trainer.predict_logits)
    with averager.use_best_weights(trainer):
        features = _features(trainer)
    order = rows.argsort()  # of the predictions, in the order of the data
    known_data = data.take(rows[order])
    labels, trusted = averager.labels[order], _trusted(trainer)[order]
    is_refuted = trusted & (known_data.labels != labels)  # by a reviewer
    duplicates = conflicting_duplicates(known_data.inputs, labels)
    allowed = may_change(errors.posterior[order].argmax(1), labels, known_data.classes, duplicates)
    findings = Findings.from_posterior(
        known_data.ids,
        known_data.classes,
        known_data.labels,
        errors.posterior[order],
        label_quality=errors.quality[order].masked_fill(is_refuted, 0.0),
        conservative_confidence=errors.confidence[order] * allowed,
        threshold=threshold,
        issues_have_proposals=False,
        duplicates=duplicates,
        metadata={
            **_metadata(run, known_data, errors, averager, estimates[0]),
            **_annotators(data, annotations, errors, averager),
        },
    )
    neighbors = nearest_neighbors(features[order], findings)
    is_corrected = torch.zeros(len(rows), dtype=torch.bool)  # held-out rows are not trained on
    is_corrected[: averager.num_train] = corrected.cpu().argmax(1) != trainer.data.labels
    reasons = label_reasons(is_corrected[order], averager.log_p[order], labels, neighbors, duplicates)
    reasons[(findings.label_quality <= DEFAULT_THRESHOLD) & (reasons == 0)] = 16
    if known_data.annotations is not None:
        reasons[is_disputed(known_data.annotations, labels).numpy()] |= DISPUTED
    reasons[trusted.numpy()] = REVIEWED
    return replace(findings, reasons=reasons, neighbors=neighbors), estimates


def _features(trainer: "Trainer") -> Tensor:
    """Return the inputs of the first network's last layer for training rows, then held-out rows."""
    network = next(iter(trainer.method.networks.values()))
    return torch.cat([trainer.evaluate(lambda x: logits_and_features(network, x)[1], part) for part in _parts(trainer)])


def _parts(trainer: "Trainer") -> list[LabeledData]:
    """Return the training rows, and the held-out ones if there are any."""
    return [trainer.data] if trainer.validation is None else [trainer.data, trainer.validation]


def nearest_neighbors(features: Tensor, findings: Findings) -> NDArray[np.int32]:
    """Return (N, m) the nearest rows of the most suspect ones; -1 for the others."""
    first = findings.order[:MAX_ROWS_WITH_NEIGHBORS].copy()
    nearest = nearest_rows(features, torch.from_numpy(first), NUM_NEIGHBORS)
    neighbors = np.full((len(findings), nearest.shape[1]), -1, np.int32)
    neighbors[first] = nearest.numpy()
    return neighbors


def label_reasons(
    is_corrected: Tensor,
    log_p: Tensor,
    labels: Tensor,
    neighbors: NDArray[np.int32],
    duplicates: tuple[tuple[int, ...], ...],
) -> NDArray[np.uint8]:
    """Return the evidence against each label, as sums of the keys of ``REASONS``."""
    given = labels.numpy()
    reasons = is_corrected.numpy().astype(np.uint8)
    reasons |= 2 * (log_p.argmax(1) != labels).numpy().astype(np.uint8)
    if neighbors.shape[1]:
        same = (given[neighbors] == given[:, None]).mean(1)
        reasons |= 4 * ((same < 0.5) & (neighbors[:, 0] >= 0)).astype(np.uint8)
    for rows in duplicates:
        reasons[list(rows)] |= 8
    return reasons


def _metadata(
    run: "Run", data: LabeledData, errors: LabelErrors, averager: PredictionAverager, estimate: NoiseEstimate
) -> dict[str, Any]:
    return {
        "method": run.recipe.method.name,
        "data": repr(data).partition("(")[2].removesuffix(")"),
        "run": str(run.folder),
        "source": run.recipe.data.source,
        "noise": estimate.summary(),
        "network": prediction_accuracy(averager.log_p[averager.held_out_rows], averager.labels[averager.held_out_rows]),
        "transition": errors.transition.tolist(),
        "epoch": averager.best_epoch,
    } | _groups(data, averager)


def _groups(data: LabeledData, averager: PredictionAverager) -> dict[str, Any]:
    """Return how many groups of samples were held out; nothing without groups."""
    if data.groups is None:
        return {}
    group = dict(zip(data.ids, data.groups, strict=True))
    held_out = {group[name] for name in averager.ids[averager.num_train :]}
    return {"groups": {"held_out": len(held_out), "total": len(set(data.groups))}}


def _annotators(
    data: LabeledData, annotations: Annotations | None, errors: LabelErrors, averager: PredictionAverager
) -> dict[str, Any]:
    """Return the quality of the annotators, and of the network on held-out rows; {} without annotators."""
    if annotations is None:
        return {}
    log_p = torch.full_like(averager.log_p, torch.nan)
    log_p[averager.held_out_rows] = averager.log_p[averager.held_out_rows]
    return {"annotators": annotator_quality(annotations, errors.posterior, averager.labels, data.classes, log_p)}


def prediction_accuracy(log_p: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the accuracy on held-out labels, that of the majority class, and its standard error."""
    majority = labels.bincount().max().item() / len(labels)
    error = math.sqrt(majority * (1 - majority) / len(labels))
    return {"accuracy": (log_p.argmax(1) == labels).double().mean().item(), "majority": majority, "error": error}
