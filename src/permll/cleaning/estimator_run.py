"""Findings of scikit-learn estimators: labels checked by cross-validated predictions, in a run folder that resumes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from permll.cleaning.annotations import annotator_quality
from permll.cleaning.assemble_findings import assemble_findings
from permll.cleaning.audit_run import ClassifierInputs
from permll.cleaning.cross_validation import PREDICTIONS_FILE, CrossValidation, cross_validate
from permll.cleaning.estimators import dense_features
from permll.cleaning.label_issues import prediction_accuracy
from permll.data.dataset import LabeledData
from permll.data.encoding import Encoder, encode
from permll.data.inputs import Inputs
from permll.findings import DEFAULT_THRESHOLD, Findings
from permll.functional.annotated_errors import find_annotated_errors
from permll.functional.label_errors import RateInterval, find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.functional.transition_fit import MIN_PROB
from permll.training.build import match_run
from permll.training.feature_cache import load_encoder, resolve_features, with_cache
from permll.training.noise_estimate import NoiseEstimate, by_corrected_labels, from_errors
from permll.training.recipe import EstimatorSection, Recipe
from permll.training.run import CLEAN, Run
from permll.training.signals import graceful_shutdown

if TYPE_CHECKING:
    from permll.cleaning.job import CleanJob


def check_with_estimator(job: "CleanJob", recipe: Recipe, run: Run, notify: Callable[[str], None]) -> None:
    """Cross-validate the estimators of a recipe and write their findings; a finished run is only checked."""
    if run.exists:
        recipe = match_run(recipe, run)
        if not run.finished and run.task != CLEAN:
            raise ValueError(f"{run.folder} is a run of permll {run.task}: {run.resume_command} resumes it.")
    if run.finished and job.is_path:
        return
    data = job.training_samples
    if run.finished:
        if not run.check_data(data):
            raise ValueError(f"{run.folder} is finished, and has other samples: choose another folder.")
        return
    if not run.exists:
        recipe = _with_features(recipe, data, notify)
    assert recipe.estimator is not None
    run.check_folder()
    with run.locked(), threadpool_limits(recipe.training.threads or 1):  # the same result on every machine
        _start_or_resume(run, recipe, data, notify)
        if job.earlier is not None:
            job.earlier.save(run)
        encoder = with_cache(load_encoder(recipe.data), run)
        with _stop_at_once(run):
            encoded = None if encoder is None else encoder(data.inputs)
            predicted = cross_validate(
                data,
                recipe.estimator,
                recipe.training.seed,
                encoded=encoded,
                estimator=job.estimator,
                path=run.folder / PREDICTIONS_FILE,
                notify=notify,
            )
        known = None if job.earlier is None else job.earlier.known
        findings, estimates = find_issues(data, job.samples, predicted, encoded, job.threshold, known)
        facts = _metadata(run, job.samples, recipe.estimator, recipe.training.seed)
        findings = replace(findings, metadata={**findings.metadata, **facts})
        job.write_findings(run, findings, estimates, lambda: _inputs(data, encoded, encoder, predicted))
        run.finish({"recipe_hash": recipe.hash, "settings": {}})


def find_issues(
    data: LabeledData,
    samples: LabeledData,
    predicted: CrossValidation,
    encoded: Inputs | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    known: RateInterval | None = None,
) -> tuple[Findings, list[NoiseEstimate]]:
    """Return the findings and noise estimates of out-of-sample predictions.

    Args:
        data: N samples with the labels that were learned from.
        samples: the same samples with the labels before any review.
        predicted: result of ``cross_validate``.
        encoded: the samples as vectors, if a pretrained network encodes them.
        threshold: see ``permll.clean``.
        known: fraction of wrong labels among those that are not trusted, if reviews tell it.
    """
    labels, trusted = data.labels, _trusted(data)
    features = torch.from_numpy(dense_features(data.inputs if encoded is None else encoded))
    own = predicted.probs.clamp_min(MIN_PROB).log()
    log_p = add_votes(own, neighbor_votes(features, labels, data.num_classes), labels)
    annotations, annotators = data.annotations, {}
    if annotations is None:
        errors = find_errors(log_p, labels, 0, trusted, known)
    else:  # the estimators are one more annotator
        errors = find_annotated_errors(log_p, annotations.answers, labels, 0, trusted, known)
        annotators = {"annotators": annotator_quality(annotations, errors.posterior, labels, data.classes, own)}
    estimates = [
        from_errors(errors, data.classes, "held_out", int((~trusted).sum())),
        by_corrected_labels(errors.posterior, labels, data.classes),
    ]
    findings = assemble_findings(
        samples,
        errors,
        own,
        labels=labels,
        trusted=trusted,
        features=features,
        threshold=threshold,
        metadata={
            "noise": estimates[0].summary(),
            "network": prediction_accuracy(own[~trusted], labels[~trusted]),
            **annotators,
        },
    )
    return findings, estimates


def _inputs(
    data: LabeledData, encoded: Inputs | None, encoder: Encoder | None, predicted: CrossValidation
) -> ClassifierInputs:
    """Return the samples as vectors, as for a network; estimators take tables and texts in other forms."""
    if encoded is None:
        vectors, encoder = encode(data)
        encoded = vectors.inputs
    return ClassifierInputs(data.ids, encoded, predicted.probs.amax(1), encoder)


def _trusted(data: LabeledData) -> Tensor:
    return torch.zeros(len(data), dtype=torch.bool) if data.trusted is None else data.trusted


def _with_features(recipe: Recipe, data: LabeledData, notify: Callable[[str], None]) -> Recipe:
    """Return the recipe with the encoder of images or texts that it leaves to the data."""
    section = recipe.data
    if section.noise or section.trusted is not None or section.train is not None:
        raise ValueError("an estimator checks the labels as they are: remove data.noise, data.train and data.trusted.")
    if (recipe.training.devices, recipe.training.num_nodes) != (1, 1):
        raise ValueError("an estimator runs in one process: remove training.devices and training.num_nodes.")
    return recipe.model_copy(update={"data": resolve_features(recipe, data.inputs, notify)})


def _start_or_resume(run: Run, recipe: Recipe, data: LabeledData, notify: Callable[[str], None]) -> None:
    if not run.exists:
        run.begin(recipe, data, task=CLEAN)
    elif not run.check_data(data):
        run.save_split(data)
    notify(f"{len(data):,} samples: {describe_estimator(recipe.estimator)}")


def describe_estimator(section: EstimatorSection | None) -> str:
    """Return a phrase about the estimator of a recipe; "" for a network."""
    return "" if section is None else f"{section.name.replace('+', ' + ')}, {section.folds}-fold cross-validation"


@contextmanager
def _stop_at_once(run: Run) -> Iterator[None]:
    """Stop the block at SIGINT and SIGTERM; finished folds are saved."""

    def stop(_: int) -> None:
        raise KeyboardInterrupt(f"stopped, finished folds are saved; {run.resume_command} resumes it.")

    with graceful_shutdown(stop):
        yield


def _metadata(run: Run, data: LabeledData, section: EstimatorSection, seed: int) -> dict[str, Any]:
    return {
        "method": section.name,
        "estimator": {**section.model_dump(), "seed": seed},
        "data": repr(data).partition("(")[2].removesuffix(")"),
        "run": str(run.folder),
        "source": run.recipe.data.source,
    }
