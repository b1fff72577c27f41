"""``clean``: train once, and find the label issues of a data set."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from permll.cleaning.audit_run import recorded_test
from permll.cleaning.auto_config import names_classifier
from permll.cleaning.earlier_round import EarlierRound, next_round_folder
from permll.cleaning.estimators import estimator_settings
from permll.cleaning.job import CleanJob
from permll.cleaning.review_decisions import Decisions
from permll.data.readers.options import ReadKeywords, check_keywords
from permll.data.readers.raw_data import pluralize
from permll.findings import DEFAULT_THRESHOLD, Findings
from permll.training.callbacks import Callback
from permll.training.progress import default_callbacks
from permll.training.recipe import AUTO
from permll.training.recipe_files import load_recipe, resolve_recipe
from permll.training.run import Run
from permll.training.run_folder import absolute_source, data_name, default_folder, remove_run, samples_name
from permll.utils.validation import check_device

RECIPE = "auto/clean"


def clean(
    data: Any = None,
    labels: Any = None,
    *,
    method: str | None = None,
    estimator: Any = None,
    out: Path | str | None = AUTO,
    overwrite: bool = False,
    epochs: int | None = None,
    seed: int | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    backbone: str | None = None,
    weights: Path | str | None = None,
    encoder: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    callbacks: Iterable[Callback] | None = None,
    overrides: Mapping[str, Any] | None = None,
    previous: Run | Path | str | None = None,
    images: Path | str | None = None,
    test: Any = None,
    audit: bool = True,
    **reader: Unpack[ReadKeywords],
) -> Findings:
    """Find wrong labels without clean labels: train a network once, or cross-validate scikit-learn classifiers.

    The run folder holds the findings: ``findings.csv`` has a line for every label, most suspect first, and
    ``report.html`` shows them. An interrupted run resumes; a finished one is only read.

    Args:
        data: whatever ``permll.data.load`` takes: a folder of images, a table, arrays, a data frame, a built-in set; or
            the folder of a run, which resumes with its own settings.
        labels: one for each sample, if ``data`` has none.
        method: the method to train with (``permll methods``); default PermLL.
        estimator: check the labels by a scikit-learn classifier instead of a network, in a cross-validation:
            "hist_gradient_boosting", "logistic_regression", "random_forest", "naive_bayes", the import path of a class,
            several joined by "+", or an object. "none": a network is trained. Default: several for tables, and for
            texts without a sentence encoder, unless a method or other settings of a network are given.
        out: folder of the run; "auto" is ``runs/NAME-METHOD-SEED``, for data in memory with a hash of the samples and
            labels in the name. None keeps nothing on disk.
        overwrite: train again if the folder holds a run, unless it has review decisions.
        epochs: number of epochs; default 40, fewer for more than 20,000 samples.
        seed: seed of initial weights, sampling order and held-out rows.
        threshold: a label is an issue if it is correct with at most this probability and another class is more
            probable.
        backbone: pretrained network that embeds images, "timm:resnet50" or "torchvision:resnet50"
            (``permll[vision]``); downloaded if necessary. By default one that is already on this machine, or else a
            downloaded one. "none", or no network connection: a small network is trained on pixels.
        weights: file with the weights of the backbone.
        encoder: sentence-transformers model that embeds texts (``permll[text]``), a name or a folder. By default
            "all-MiniLM-L6-v2", downloaded if necessary. "tfidf", or no network connection: tf-idf features.
        device: "cpu", "cuda" or "mps"; default: a GPU if there is one.
        threads: number of CPU threads; default: one if the network is small, otherwise all.
        callbacks: see ``Callback``; default: a progress bar on a terminal or in a notebook.
        overrides: any other setting of the recipe by its dotted name, ``{"optimizer.lr": 0.1}``.
        previous: a run whose labels were reviewed: the next round learns from the decisions, with the same data and
            settings. ``data`` is only needed if they were in memory. The default folder is that of the run, with
            ``-round2``.
        images: folder with a picture of each sample, which report and review show instead of vectors or tables; in the
            sorted order of their paths, or named by the ids of the samples.
        test: test data with labels, read like ``data``, of which (near-)duplicates of the samples are listed as leaks.
        audit: search near-duplicates, leaks, outliers, rare classes and empty values, see ``Findings.audit``.
        reader: how to read the data (``label="species"``, ``text=...``), see ``permll.data.readers.read``. With the
            answers of several annotators (``annotators="ann_*"``, ``annotations=answers``), their consensus is the
            label, and the network one more annotator.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> y[::10] = (y[::10] + 1) % 3
        >>> found = clean(x, y, out=None)
        >>> len(found), found.head(1)[0].is_issue
        (150, True)
    """
    check_device(device)
    given = {
        "method.name": method,
        "training.epochs": epochs,
        "training.seed": seed,
        "training.accelerator": device,
        "training.threads": threads,
        "data.backbone": backbone,
        "data.weights": None if weights is None else str(weights),
        "data.encoder": encoder,
        "data.images": None if images is None else absolute_source(images),
        "data.test": absolute_source(test) if isinstance(test, str | Path) else None,
    }
    changes = {name: value for name, value in given.items() if value is not None} | dict(overrides or {})
    changes = estimator_settings(estimator, changes) | changes
    watchers = default_callbacks() if callbacks is None else list(callbacks)
    options = check_keywords(reader, "clean")
    if previous is not None:
        if isinstance(data, str | Path):
            raise ValueError(f"the next round reads the data of {previous} again: leave out {data}.")
        if options:
            raise ValueError(f"the next round reads the data as {previous} did: remove {', '.join(options)}.")
        return _start_next_round(
            Run.open(previous), data, labels, out, overwrite, changes, watchers, threshold, estimator, test, audit
        )
    if data is None:
        raise ValueError("there are no data: pass some, or previous=RUN to continue after a review.")
    if isinstance(options.get("annotators"), str):
        options["annotators"] = [options["annotators"]]  # as the command line records it
    annotations = options.get("annotations")
    if isinstance(annotations, str | Path):
        options["annotations"] = annotations = absolute_source(annotations)
    is_path = isinstance(data, str | Path) and labels is None and isinstance(annotations, str | None)
    if is_path and Run(data).exists:
        if changes or options or out != AUTO or overwrite:
            raise ValueError(f"{data} is a run and resumes with its own settings: remove all options but threshold.")
        return _resume_job(Run(data), watchers, threshold, audit)
    if is_path:
        changes |= {"data.source": absolute_source(data)}
        changes |= {f"data.options.{name}": value for name, value in options.items()}
    recipe = resolve_recipe(RECIPE, changes)
    fixed = frozenset(changes)
    job = CleanJob(recipe, data, labels, options, is_path, fixed, watchers, threshold, None, estimator, audit, test)
    if out is None:
        return _clean_without_folder(job)
    run = Run(_default_folder(job) if out == AUTO else out)
    if overwrite:
        _remove_run(run)
    return job.start(run)


def _resume_job(run: Run, watchers: list[Callback], threshold: float, audit: bool) -> Findings:
    """Resume or read a run with its own settings."""
    recipe = run.recipe
    if not recipe.data.source and not run.finished:
        raise ValueError(
            f"{run.folder} was started on data in memory: permll.clean(data, ..., out={str(run.folder)!r}) resumes it."
        )
    source, options, earlier = recipe.data.source, recipe.data.options, EarlierRound.load(run)
    test = recorded_test(recipe.data)
    job = CleanJob(
        recipe, source, None, options, True, frozenset(), watchers, threshold, earlier, audit=audit, test=test
    )
    return job.start(run)


def _start_next_round(
    previous: Run,
    data: Any,
    labels: Any,
    out: Path | str | None,
    overwrite: bool,
    changes: Mapping[str, Any],
    watchers: list[Callback],
    threshold: float,
    estimator: Any,
    test: Any,
    audit: bool,
) -> Findings:
    """Clean the data of a reviewed run again, with its settings and its decisions."""
    if out is None:
        raise ValueError("out=None keeps no decisions: give the next round a folder.")
    adapted = {"data.validation", "training.epochs", "method.warm_up"}  # settings that the first round chose
    if previous.recipe.estimator is not None:
        adapted = set()
        changes = {"estimator": None, **changes} if names_classifier(changes) and estimator is None else changes
    recipe = load_recipe(previous.folder / "recipe.toml", dict(changes))
    if data is None and not recipe.data.source:
        raise ValueError(
            f"{previous.folder} was trained on data in memory: pass them again, with previous={previous.folder}."
        )
    run = Run(next_round_folder(previous.folder) if out == AUTO else out)
    if overwrite:
        _remove_run(run)
    earlier = EarlierRound.load(run) or EarlierRound.of(previous)
    fixed = frozenset({*adapted, *changes})
    source, is_path = (recipe.data.source, True) if data is None else (data, False)
    options = recipe.data.options if is_path else {}
    test = recorded_test(recipe.data) if test is None else test
    job = CleanJob(
        recipe, source, labels, options, is_path, fixed, watchers, threshold, earlier, estimator, audit, test
    )
    return job.start(run)


def _default_folder(job: CleanJob) -> Path:
    return default_folder(data_name(job.data) if job.is_path else samples_name(job.samples), job.recipe)


def _clean_without_folder(job: CleanJob) -> Findings:
    """Return the findings of a run in a temporary folder."""
    training = job.recipe.training
    if (training.devices, training.num_nodes) != (1, 1):
        raise ValueError("out=None is only supported for one process: give a folder.")
    with TemporaryDirectory() as folder:
        try:
            findings = job.start(Run(folder))
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped; without a folder (out=None) nothing is kept.") from None
    return replace(findings, metadata={**findings.metadata, "run": ""})


def _remove_run(run: Run) -> None:
    """Delete a run that will be trained again; one with review decisions is refused."""
    if count := len(Decisions(run.folder).current()):
        raise ValueError(
            f"{run.folder} has {pluralize(count, 'review decision')}, which would be lost: choose another folder, or "
            "delete this one."
        )
    remove_run(run)
