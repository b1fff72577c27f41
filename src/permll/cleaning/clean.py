"""``clean``: train once, and say of every label whether it is right."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from permll.cleaning.auto_config import adapt_recipe, adapt_recipe_like
from permll.cleaning.findings import ABOUT, THRESHOLD, Findings
from permll.cleaning.html_report import write_report
from permll.cleaning.label_issues import judge
from permll.cleaning.prediction_averaging import Memory
from permll.cleaning.source_data import samples_of
from permll.data.dataset import LabeledData
from permll.data.loading import load
from permll.data.readers.options import ReadKeywords, check_keywords
from permll.distributed.process_group import is_main_process
from permll.training.callbacks import Callback
from permll.training.progress import default_watchers
from permll.training.recipe_files import choose_recipe
from permll.training.run import Run, default_folder
from permll.training.train import train

RECIPE = "auto/clean"


def clean(
    data: Any,
    labels: Any = None,
    *,
    method: str | None = None,
    out: Path | str | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    threshold: float = THRESHOLD,
    backbone: str | None = None,
    weights: Path | str | None = None,
    encoder: str | None = None,
    callbacks: Iterable[Callback] | None = None,
    overrides: Mapping[str, Any] | None = None,
    **reader: Unpack[ReadKeywords],
) -> Findings:
    """Return what is wrong with the labels of a data set: one training, no clean label, no cross-validation.

    The run goes into a folder like any other, and the findings with it: ``findings.csv`` has a line for every label,
    the most suspect first, and ``report.html`` is a page to look at. A run that was interrupted goes on; one that is
    finished is only read.

    Args:
        data: whatever ``permll.data.load`` takes: a folder of images, a table, arrays, a frame, a built-in set.
        labels: one for each sample, where ``data`` has none.
        method: to train with (``permll methods``); default PermLL.
        out: the run's folder; default ``runs/NAME-METHOD-SEED``.
        epochs: how many; default 40, of more than 20,000 rows fewer.
        seed: of initial weights, orders and held-out rows.
        threshold: a label is flagged if it is right with at most this probability, and another is more probable.
        backbone: see images through a pretrained network, "timm:resnet50" (``permll[vision]``): downloaded if need be.
            By default one that is on this machine already, or a small network on small images.
        weights: a file of the backbone's weights.
        encoder: see texts as embeddings of a sentence-transformers model, "all-MiniLM-L6-v2" or its folder
            (``permll[text]``). By default by their words.
        observers: who watches; default a progress bar where there is a terminal or a notebook.
        overrides: any other setting of the recipe by its dotted name, ``{"optimizer.lr": 0.1}``.
        reader: how to read the data (``label="species"``, ``text=...``), see ``permll.data.readers.read``.

    Examples:
        >>> from tempfile import mkdtemp
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> y[::10] = (y[::10] + 1) % 3
        >>> found = clean(x, y, out=mkdtemp())
        >>> len(found), found.first(1)[0].flagged
        (150, True)
    """
    reading = check_keywords(reader, "clean")
    given = {"method.name": method, "training.epochs": epochs, "training.seed": seed}
    file = None if weights is None else str(weights)
    given |= {"data.backbone": backbone, "data.weights": file, "data.encoder": encoder}
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= overrides or {}
    named = isinstance(data, str | Path) and labels is None
    if named:
        changes |= {"data.source": str(data)} | {f"data.options.{name}": value for name, value in reading.items()}
    recipe = choose_recipe(RECIPE, changes)
    run = Run(out or default_folder(data if named else None, recipe))
    if run.exists:
        recipe = adapt_recipe_like(recipe, run.recipe, changes)
    if run.finished and (run.folder / ABOUT).is_file() and named:
        train(recipe=recipe, out=run.folder, callbacks=[])  # refuses a run of another recipe
        return _found_before(run, threshold)
    samples = _samples(data, labels, recipe.data.root, reading)
    if not run.exists:
        recipe = adapt_recipe(recipe, samples, changes)
    watchers = default_watchers() if callbacks is None else list(callbacks)
    train(None if named else samples, recipe=recipe, out=run.folder, callbacks=[*watchers, Memory()])
    findings = judge(run, samples, threshold)
    if is_main_process():  # of several ranks, all know
        findings.save(run.folder)
        write_report(run.folder, findings, samples)
    return findings


def _found_before(run: Run, threshold: float) -> Findings:
    """Return what a finished run found; another threshold flags other labels, and nothing else changes."""
    findings = Findings.load(run.folder)
    if findings.threshold != threshold:
        findings = replace(findings, threshold=threshold)
        findings.save(run.folder)
        write_report(run.folder, findings, samples_of(run))
    return findings


def _samples(data: Any, labels: Any, root: str | None, reading: Mapping[str, Any]) -> LabeledData:
    if isinstance(data, LabeledData):
        return data
    more = {} if labels is None else {"labels": labels}
    return load(data, **({} if root is None else {"root": root}), **more, **reading)
