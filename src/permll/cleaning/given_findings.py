"""Findings without a training: labels scored by given predictions, and the run folder that holds the findings.

The folder has what report, review and apply need, but no network.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permll.cleaning.automatic_changes import may_change
from permll.cleaning.given_data import GivenData
from permll.cleaning.html_report import make_report
from permll.cleaning.label_issues import label_reasons, nearest_neighbors
from permll.cleaning.preview import text_excerpts
from permll.cleaning.review_decisions import Decisions
from permll.cleaning.shown_images import show_images
from permll.cleaning.similar_samples import conflicting_duplicates
from permll.cleaning.stored_samples import store_samples
from permll.data.dataset import LabeledData
from permll.findings import DEFAULT_THRESHOLD, REVIEWED, Findings
from permll.functional.conservative import conservative_confidence
from permll.functional.label_errors import find_errors
from permll.functional.transition_fit import fit_power
from permll.training.noise_estimate import NoiseEstimate, from_errors, write_noise_estimates
from permll.training.recipe import AUTO, Recipe
from permll.training.recipe_files import resolve_recipe
from permll.training.run import GIVEN, Run
from permll.training.run_folder import absolute_source, remove_run


@dataclass(frozen=True)
class Origin:
    """Where findings come from: a short name for folders, and one for sentences."""

    name: str
    title: str


@dataclass(frozen=True)
class Destination:
    """Where findings are saved.

    Args:
        out: folder of the run; "auto" is ``runs/NAME-ORIGIN``; None for none.
        overwrite: whether to replace a run in the folder, unless it has review decisions.
        images: folder with a picture of each sample.
    """

    out: Path | str | None = None
    overwrite: bool = False
    images: Path | str | None = None


def score_labels(
    data: LabeledData,
    log_p: Tensor,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    features: Tensor | None = None,
    held_out: Tensor | None = None,
    is_corrected: Tensor | None = None,
) -> tuple[Findings, NoiseEstimate]:
    """Return the findings and the noise estimate of predictions.

    Args:
        data: N samples.
        log_p: (N, c) logarithms of predicted probabilities.
        threshold: a label is an issue if it is correct with at most this probability.
        features: (N, d) vectors that determine the nearest samples; their labels are already part of ``log_p``.
        held_out: (N,) samples that the classifier was not trained on; default all. Automatic changes depend on them:
            without any, there are none.
        is_corrected: (N,) samples whose labels a training corrected.
    """
    labels, trusted = data.labels, torch.zeros(len(data), dtype=torch.bool) if data.trusted is None else data.trusted
    errors = find_errors(log_p, labels, trusted=trusted)
    posterior = errors.posterior
    confidence = errors.confidence if held_out is None else _held_out_confidence(log_p, labels, posterior, held_out)
    estimate = from_errors(errors, data.classes, "held_out" if held_out is None else "training", len(data))
    duplicates = conflicting_duplicates(data.inputs, labels)
    findings = Findings.from_posterior(
        data.ids,
        data.classes,
        labels,
        posterior,
        label_quality=errors.quality,
        conservative_confidence=confidence * may_change(posterior.argmax(1), labels, data.classes, duplicates),
        threshold=threshold,
        issues_have_proposals=False,
        duplicates=duplicates,
        metadata={"noise": estimate.summary(), "transition": errors.transition.tolist()},
    )
    if features is not None:
        findings = replace(findings, neighbors=nearest_neighbors(features, findings))
    corrected = torch.zeros(len(data), dtype=torch.bool) if is_corrected is None else is_corrected
    reasons = label_reasons(corrected, log_p, labels, findings.neighbors, duplicates)
    reasons[(findings.label_quality <= DEFAULT_THRESHOLD) & (reasons == 0)] = 16
    reasons[trusted.numpy()] = REVIEWED
    return replace(findings, reasons=reasons), estimate


def finish_findings(
    findings: Findings, estimate: NoiseEstimate | None, given: GivenData, origin: Origin, to: Destination
) -> Findings:
    """Return the findings with texts and facts about the data, after they were saved if there is a folder.

    The same findings in the same folder are written again; decisions about them stay. Samples in memory are stored in
    the folder.
    """
    data = given.samples
    recipe = _recipe(given, origin, to.images)
    show_images(data, recipe.data)  # refuses them before anything is written
    folder = _default_folder(given, origin) if to.out == AUTO else to.out
    metadata = {
        "method": origin.title,
        "data": repr(data).partition("(")[2].removesuffix(")"),
        "run": "" if folder is None else str(folder),
        "source": given.source,
    }
    texts = text_excerpts(data, findings.ids)
    findings = replace(findings, texts=texts, metadata={**findings.metadata, **metadata})
    if folder is None:
        return findings
    run = Run(folder)
    _check_folder(run, findings, overwrite=to.overwrite)
    with run.locked():
        if stored := None if given.source else store_samples(data, run.folder):
            path, options = stored
            findings = replace(findings, metadata={**findings.metadata, "source": absolute_source(path)})
            recipe = _recipe(replace(given, data=path, options=options), origin, to.images)
        if not run.exists:
            run.begin(recipe, data, task=GIVEN)
        run.write_recipe(recipe, GIVEN)
        if estimate is not None:
            write_noise_estimates(run.folder, [estimate])
        findings.save(run.folder, make_report(run, findings, data))
        run.finish({"recipe_hash": recipe.hash})
    return findings


def _held_out_confidence(log_p: Tensor, labels: Tensor, posterior: Tensor, held_out: Tensor) -> Tensor:
    """Return ``conservative_confidence`` (N,) by the held-out samples; 0 if there are none."""
    if not bool(held_out.any()):
        return torch.zeros(len(labels))
    order = torch.cat([(~held_out).nonzero()[:, 0], held_out.nonzero()[:, 0]])
    power = fit_power(log_p[held_out], labels[held_out])
    confidence = torch.empty(len(labels))
    confidence[order] = conservative_confidence(
        log_p[order], labels[order], posterior.argmax(1)[order], power, int((~held_out).sum())
    )
    return confidence


def _recipe(given: GivenData, origin: Origin, images: Path | str | None) -> Recipe:
    """Return a recipe that says where the data are, and has no network."""
    changes: dict[str, Any] = {
        "title": origin.title,
        "method.name": origin.name,
        "network.name": "none",
        "data.source": given.source,
        "data.root": given.root,
        "data.train": len(given.samples) if given.is_part else None,
        "data.images": None if images is None else absolute_source(images),
    }
    options = {f"data.options.{name}": value for name, value in given.options.items()} if given.source else {}
    return resolve_recipe("auto/clean", {name: v for name, v in (changes | options).items() if v is not None})


def _default_folder(given: GivenData, origin: Origin) -> Path:
    return Path("runs") / re.sub(r"[^\w.]+", "-", f"{given.name}-{origin.name.replace('_', '-')}").strip("-.")


def _check_folder(run: Run, findings: Findings, *, overwrite: bool) -> None:
    """Refuse a folder with other findings, a training, or, to be overwritten, decisions."""
    if not run.exists:
        run.check_folder()
        return
    if overwrite:
        if count := len(Decisions(run.folder).current()):
            raise ValueError(
                f"{run.folder} has {count:,} review decisions, which would be lost: choose another folder."
            )
        remove_run(run)
    elif run.task != GIVEN or (run.finished and not _are_same(findings, Findings.load(run.folder))):
        raise ValueError(f"{run.folder} holds other findings: choose another folder, or overwrite it.")


def _are_same(one: Findings, other: Findings) -> bool:
    """Return whether two findings differ at most in their threshold."""
    same_samples = (tuple(one.ids), one.classes) == (tuple(other.ids), other.classes)
    names = ("given_labels", "top_classes", "top_probs", "label_quality")
    return same_samples and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
