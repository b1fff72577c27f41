"""Label issues of a training: the posterior of every label, the evidence against it, and similar samples."""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permll.cleaning.annotations import annotator_quality
from permll.cleaning.assemble_findings import assemble_findings
from permll.cleaning.prediction_averaging import PredictionAverager
from permll.data.annotations import Annotations
from permll.data.dataset import LabeledData
from permll.data.inputs import Vectors
from permll.findings import Findings
from permll.functional.annotated_errors import find_annotated_errors
from permll.functional.label_errors import LabelErrors, RateInterval, find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.methods._features import logits_and_features
from permll.training.noise_estimate import NoiseEstimate, by_corrected_labels, by_mixture, from_errors

if TYPE_CHECKING:
    from permll.training.run import Run
    from permll.training.trainer import Trainer


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
    is_corrected = torch.zeros(len(rows), dtype=torch.bool)  # held-out rows are not trained on
    is_corrected[: averager.num_train] = corrected.cpu().argmax(1) != trainer.data.labels
    ordered = {name: getattr(errors, name)[order] for name in ("quality", "posterior", "confidence")}
    findings = assemble_findings(
        known_data,
        errors._replace(**ordered),
        averager.log_p[order],
        labels=averager.labels[order],
        trusted=_trusted(trainer)[order],
        features=features[order],
        is_corrected=is_corrected[order],
        threshold=threshold,
        metadata={
            **_metadata(run, known_data, averager, estimates[0]),
            **_annotators(data, annotations, errors, averager),
        },
    )
    return findings, estimates


def _features(trainer: "Trainer") -> Tensor:
    """Return the inputs of the first network's last layer for training rows, then held-out rows."""
    network = next(iter(trainer.method.networks.values()))
    return torch.cat([trainer.evaluate(lambda x: logits_and_features(network, x)[1], part) for part in _parts(trainer)])


def _parts(trainer: "Trainer") -> list[LabeledData]:
    """Return the training rows, and the held-out ones if there are any."""
    return [trainer.data] if trainer.validation is None else [trainer.data, trainer.validation]


def _metadata(run: "Run", data: LabeledData, averager: PredictionAverager, estimate: NoiseEstimate) -> dict[str, Any]:
    return {
        "method": run.recipe.method.name,
        "data": repr(data).partition("(")[2].removesuffix(")"),
        "run": str(run.folder),
        "source": run.recipe.data.source,
        "noise": estimate.summary(),
        "network": prediction_accuracy(averager.log_p[averager.held_out_rows], averager.labels[averager.held_out_rows]),
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
