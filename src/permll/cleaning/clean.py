"""``clean``: train once, and find the label issues of a data set."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from permll.cleaning.auto_config import adapt_recipe, adapt_recipe_like
from permll.cleaning.html_report import make_report
from permll.cleaning.label_issues import find_label_issues
from permll.cleaning.prediction_averaging import AveragePredictions
from permll.cleaning.source import load_source
from permll.data.dataset import LabeledData
from permll.data.decoding import ShrinkTo
from permll.data.loading import load
from permll.data.readers.options import ReadKeywords, check_keywords
from permll.distributed.process_group import is_main_process
from permll.findings import DEFAULT_THRESHOLD, Findings, is_complete
from permll.training.callbacks import Callback
from permll.training.feature_cache import small_image_size
from permll.training.noise_estimate import write_noise_estimates
from permll.training.progress import default_callbacks
from permll.training.recipe import Recipe
from permll.training.recipe_files import resolve_recipe
from permll.training.run import Run, default_folder
from permll.training.train import notify_callbacks, train_recipe

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

RECIPE = "auto/clean"


def clean(
    data: Any,
    labels: Any = None,
    *,
    method: str | None = None,
    out: Path | str | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    backbone: str | None = None,
    weights: Path | str | None = None,
    encoder: str | None = None,
    callbacks: Iterable[Callback] | None = None,
    overrides: Mapping[str, Any] | None = None,
    **reader: Unpack[ReadKeywords],
) -> Findings:
    """Find wrong labels with a single training, without clean labels and without cross-validation.

    The run folder holds the findings: ``findings.csv`` has a line for every label, most suspect first, and
    ``report.html`` shows them. An interrupted run resumes; a finished one is only read.

    Args:
        data: whatever ``permll.data.load`` takes: a folder of images, a table, arrays, a data frame, a built-in set.
        labels: one for each sample, if ``data`` has none.
        method: the method to train with (``permll methods``); default PermLL.
        out: folder of the run; default ``runs/NAME-METHOD-SEED``.
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
        callbacks: see ``Callback``; default: a progress bar on a terminal or in a notebook.
        overrides: any other setting of the recipe by its dotted name, ``{"optimizer.lr": 0.1}``.
        reader: how to read the data (``label="species"``, ``text=...``), see ``permll.data.readers.read``.

    Examples:
        >>> from tempfile import mkdtemp
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> y[::10] = (y[::10] + 1) % 3
        >>> found = clean(x, y, out=mkdtemp())
        >>> len(found), found.head(1)[0].is_issue
        (150, True)
    """
    options = check_keywords(reader, "clean")
    given = {
        "method.name": method,
        "training.epochs": epochs,
        "training.seed": seed,
        "data.backbone": backbone,
        "data.weights": None if weights is None else str(weights),
        "data.encoder": encoder,
    }
    changes = {name: value for name, value in given.items() if value is not None} | dict(overrides or {})
    is_path = isinstance(data, str | Path) and labels is None
    if is_path:
        changes |= {"data.source": str(data)} | {f"data.options.{name}": value for name, value in options.items()}
    recipe = resolve_recipe(RECIPE, changes)
    run = Run(out or default_folder(data if is_path else None, recipe))
    watchers = default_callbacks() if callbacks is None else list(callbacks)
    notify = notify_callbacks(watchers)
    if run.exists:
        recipe = adapt_recipe_like(recipe, run.recipe, changes)
    shrink_to = small_image_size(recipe, notify)
    samples = None if is_path and run.finished else _load(data, labels, recipe, options, shrink_to)
    if not run.exists:
        assert samples is not None
        recipe = adapt_recipe(recipe, samples, changes, notify)
    average = AveragePredictions()

    def save_findings(trainer: "Trainer", run: Run) -> None:
        assert samples is not None
        findings, estimates = find_label_issues(trainer, run, average.averager, samples, threshold)
        if trainer.group.is_main:
            write_noise_estimates(run.folder, estimates)
            findings.save(run.folder, make_report(run, findings, samples))

    train_recipe(recipe, run, samples, callbacks=[*watchers, average], save_findings=save_findings)
    findings = Findings.load(run.folder)
    if (findings.threshold != threshold or not is_complete(run.folder)) and is_main_process():
        findings = replace(findings, threshold=threshold)
        findings.save(run.folder, make_report(run, findings, load_source(run) if samples is None else samples))
    return replace(findings, threshold=threshold)


def _load(data: Any, labels: Any, recipe: Recipe, options: Mapping[str, Any], shrink_to: ShrinkTo) -> LabeledData:
    if isinstance(data, LabeledData):
        return data
    more = {} if labels is None else {"labels": labels}
    return load(data, root=recipe.data.root, shrink_to=shrink_to, **more, **options)
