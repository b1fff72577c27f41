"""``CleanJob``: a training of ``clean`` in a run folder, from its samples to its findings."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from permll.cleaning.auto_config import adapt_recipe, adapt_recipe_like
from permll.cleaning.earlier_round import EarlierRound, SaveEarlierRound
from permll.cleaning.estimator_run import check_with_estimator
from permll.cleaning.html_report import make_report
from permll.cleaning.label_issues import find_label_issues
from permll.cleaning.prediction_averaging import AveragePredictions
from permll.cleaning.preview import text_excerpts
from permll.cleaning.review_decisions import Decisions
from permll.cleaning.review_progress import with_progress
from permll.cleaning.shown_images import show_images
from permll.data.dataset import LabeledData
from permll.data.loading import load
from permll.distributed.process_group import is_main_process
from permll.findings import Findings, is_complete
from permll.training.callbacks import Callback
from permll.training.feature_cache import small_image_size
from permll.training.noise_estimate import NoiseEstimate, write_noise_estimates
from permll.training.recipe import Recipe
from permll.training.run import CLEAN, Run
from permll.training.train import notify_callbacks, train_recipe

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

MAX_ROWS_SINGLE_THREAD = 20_000  # the nearest neighbors of more rows are found with all threads


@dataclass(frozen=True, eq=False)
class CleanJob:
    """A training and what it needs to read its samples: once, or not at all if the run is finished.

    Args:
        recipe: before it is adapted to the data.
        data: as passed to ``clean``.
        labels: as passed to ``clean``.
        options: reader options.
        is_path: whether the run can read the data again.
        fixed: dotted names of settings that do not depend on the data.
        watchers: callbacks.
        threshold: of label issues.
        earlier: an earlier round, whose decisions the training learns from.
        estimator: a scikit-learn object, if one was passed to ``clean``.
    """

    recipe: Recipe
    data: Any
    labels: Any
    options: Mapping[str, Any]
    is_path: bool
    fixed: Collection[str]
    watchers: list[Callback]
    threshold: float
    earlier: EarlierRound | None = None
    estimator: Any = None

    @cached_property
    def samples(self) -> LabeledData:
        """All samples, as they are read: with the labels before any review."""
        if isinstance(self.data, LabeledData):
            return self.data
        more = {} if self.labels is None else {"labels": self.labels}
        shrink_to = small_image_size(self.recipe, notify_callbacks(self.watchers))
        return load(self.data, root=self.recipe.data.root, shrink_to=shrink_to, **more, **self.options)

    @cached_property
    def training_samples(self) -> LabeledData:
        """All samples, with the labels to train on."""
        return self.samples if self.earlier is None else self.earlier.relabel(self.samples)

    def start(self, run: Run) -> Findings:
        """Train, resume or read a run, and return its findings."""
        if not run.finished and self.recipe.data.images:
            show_images(self.samples, self.recipe.data)  # refuses them before the training
        if run.exists:
            if not self.is_path and not self.recipe.data.noise:
                run.check_data(self.training_samples)  # before they are encoded as those of the run
            recipe = adapt_recipe_like(self.recipe, run.recipe, self.fixed)
        else:
            recipe = adapt_recipe(self.recipe, self.samples, self.fixed, notify_callbacks(self.watchers))
        if recipe.estimator is not None:
            check_with_estimator(self, recipe, run, notify_callbacks(self.watchers))
            return self._read_findings(run)
        samples = None if self.is_path and run.finished else self.training_samples
        average, threads = AveragePredictions(), torch.get_num_threads()

        def save_findings(trainer: "Trainer", run: Run) -> None:
            if recipe.training.threads is None and len(self.samples) > MAX_ROWS_SINGLE_THREAD:
                torch.set_num_threads(threads)
            self._save_findings(trainer, run, average)

        callbacks = [*self.watchers, average, *([SaveEarlierRound(self.earlier)] if self.earlier else [])]
        train_recipe(recipe, run, samples, callbacks=callbacks, save_findings=save_findings, task=CLEAN)
        return self._read_findings(run)

    def _save_findings(self, trainer: "Trainer", run: Run, average: AveragePredictions) -> None:
        known = None if self.earlier is None else self.earlier.known
        findings, estimates = find_label_issues(trainer, run, average.averager, self.samples, self.threshold, known)
        if trainer.group.is_main:
            self.write_findings(run, findings, estimates)

    def write_findings(self, run: Run, findings: Findings, estimates: list[NoiseEstimate]) -> None:
        """Write findings and noise estimates into the folder of a run."""
        if self.earlier is not None:
            findings = with_progress(self.earlier.complete(findings), Decisions(run.folder).current())
        findings = replace(findings, texts=text_excerpts(self.samples, findings.ids))
        write_noise_estimates(run.folder, estimates)
        findings.save(run.folder, make_report(run, findings, self.samples))

    def _read_findings(self, run: Run) -> Findings:
        """Return the findings in the folder of a run, written again if they are incomplete or for another threshold."""
        findings = Findings.load(run.folder)
        is_same = findings.threshold == self.threshold and is_complete(run.folder)
        metadata = {**findings.metadata, "run": str(run.folder)}  # it may have been moved
        findings = replace(findings, threshold=self.threshold, metadata=metadata)
        if not is_same and is_main_process():
            findings.save(run.folder, make_report(run, findings, self.samples))
        return findings
