"""``CleanJob``: a training of ``clean`` in a run folder, from its samples to its findings."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from permll.cleaning.audit_run import ClassifierInputs, audit_run, trainer_inputs
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

_OF_SAMPLES = ("labels", "ids", "gold", "groups", "split")  # reader options that test samples do not share
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
        audit: whether near-duplicates, outliers and so on are searched.
        test: test data, of which (near-)duplicates of the samples are searched.
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
    audit: bool = True
    test: Any = None

    @cached_property
    def samples(self) -> LabeledData:
        """All samples, as they are read: with the labels before any review."""
        if isinstance(self.data, LabeledData):
            return self.data
        more = {} if self.labels is None else {"labels": self.labels}
        shrink_to = small_image_size(self.recipe, notify_callbacks(self.watchers))
        return load(self.data, root=self.recipe.data.root, shrink_to=shrink_to, **more, **self.options)

    @cached_property
    def test_samples(self) -> LabeledData | None:
        """The test samples, read like the others; None without them."""
        if self.test is None or not self.audit or isinstance(self.test, LabeledData):
            return self.test if self.audit else None
        options = {name: value for name, value in self.options.items() if name not in _OF_SAMPLES}
        return load(self.test, root=self.recipe.data.root, **{**options, "rare": "keep"})

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
        _ = None if run.finished else self.test_samples  # mistakes are found before the training
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
            self.write_findings(run, findings, estimates, lambda: trainer_inputs(trainer, average.averager, run))

    def write_findings(
        self, run: Run, findings: Findings, estimates: list[NoiseEstimate], seen: Callable[[], ClassifierInputs]
    ) -> None:
        """Write findings, audit and noise estimates into the folder of a run."""
        if self.earlier is not None:
            findings = with_progress(self.earlier.complete(findings), Decisions(run.folder).current())
        findings = replace(findings, texts=text_excerpts(self.samples, findings.ids))
        if self.audit:
            findings = replace(findings, audit=audit_run(seen, findings, self.samples, self.test_samples))
        write_noise_estimates(run.folder, estimates)
        findings.save(run.folder, make_report(run, findings, self.samples, self.test_samples))

    def _read_findings(self, run: Run) -> Findings:
        """Return the findings in the folder of a run, written again if they are incomplete or for another threshold."""
        findings = Findings.load(run.folder)
        is_same = findings.threshold == self.threshold and is_complete(run.folder)
        metadata = {**findings.metadata, "run": str(run.folder)}  # it may have been moved
        findings = replace(findings, threshold=self.threshold, metadata=metadata)
        if not is_same and is_main_process():
            findings.save(run.folder, make_report(run, findings, self.samples, self._test_to_show(findings)))
        return findings

    def _test_to_show(self, findings: Findings) -> LabeledData | None:
        """Return the test samples for the pictures of leaks; None if there are none, or they can no longer be read."""
        if findings.audit is None or "leaks" not in findings.audit.facts:
            return None
        try:
            return self.test_samples
        except (OSError, ValueError):
            return None
