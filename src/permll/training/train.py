"""``train``: train a method on data as a recipe says, in a run folder that resumes."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import nn

from permll.data.dataset import LabeledData
from permll.data.loading import load
from permll.data.readers.options import ReadKeywords, check_keywords
from permll.distributed.launch import lost_rank_errors
from permll.methods._base import Method
from permll.methods._registry import method_name
from permll.training.build import Network, build_trainer, fill_auto_settings, match_run, restore_threads
from permll.training.callbacks import Callback, check_callbacks
from permll.training.data_preparation import prepare_data
from permll.training.feature_cache import small_image_size
from permll.training.model_card import class_name
from permll.training.progress import default_callbacks
from permll.training.recipe import USER_NETWORK, ComponentSection, Recipe
from permll.training.recipe_files import resolve_recipe
from permll.training.run import TRAIN, Run
from permll.training.run_folder import absolute_source, default_folder
from permll.training.runner import SaveFindings, run_training, save_method_findings, start_or_resume


def train(
    data: Any = None,
    method: str | type[Method] | None = None,
    *,
    recipe: Recipe | Path | str | None = None,
    out: Path | str | None = None,
    noise: str | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    test: Any = None,
    network: Network | None = None,
    callbacks: Iterable[Callback] | None = None,
    overrides: Mapping[str, Any] | None = None,
    **reader: Unpack[ReadKeywords],
) -> Run:
    """Train a method on data as a recipe says, and return the run.

    An interrupted run in ``out`` resumes from its last checkpoint; a finished one is only read. It must be a run of the
    same recipe: ``train(recipe=Run(out).recipe, out=out)`` resumes any run.

    Args:
        data: training data: whatever ``permll.data.load`` takes (a path, a data frame, the name of a built-in set), or
            ``LabeledData``; default: what the recipe names.
        method: a name (``permll methods``) or a subclass of ``Method``; default: the recipe's.
        recipe: a recipe, the name of a built-in one (``permll recipes list``), or a TOML file; default
            ``auto/default``, which chooses the network by the data.
        out: folder of the run; default ``runs/RECIPE-METHOD-SEED``.
        noise: synthetic label noise to add (``permll noise list``), instead of the recipe's.
        epochs: number of epochs, instead of the recipe's.
        seed: seed of initial weights, sampling order and augmentation, instead of the recipe's.
        test: test data, whatever ``data`` takes, instead of what the recipe names.
        network: a module that returns logits, instead of the recipe's network; or a function that builds one, for
            methods that need several networks or restart from fresh weights.
        callbacks: see ``Callback``; default: a progress bar on a terminal or in a notebook.
        overrides: any other setting of the recipe by its dotted name, ``{"optimizer.lr": 0.1}``.
        reader: how to read the data (``label="species"``, ``text=...``), see ``permll.data.readers.read``.

    Examples:
        >>> from tempfile import mkdtemp
        >>> run = train("digits", recipe="tiny/digits", epochs=2, out=mkdtemp())
        >>> run.finished, len(run.metrics)
        (True, 2)
    """
    if isinstance(method, Method):
        raise TypeError(
            f"pass the method's class, not an object: train(data, {type(method).__name__}, "
            'overrides={"method.NAME": ...}).'
        )
    if recipe is None and data is None:
        raise ValueError("no training data: pass data, or a recipe that names some (permll recipes list).")
    active = default_callbacks() if callbacks is None else check_callbacks(callbacks)
    is_source = isinstance(data, str | Path)
    changes = {
        "method.name": method_name(method) if isinstance(method, type) else method,
        "data.source": absolute_source(data) if is_source else None,
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    options = {f"data.options.{name}": value for name, value in check_keywords(reader, "train").items()}
    changes = {name: value for name, value in changes.items() if value is not None} | options | dict(overrides or {})
    resolved = resolve_recipe(recipe, changes)
    if network is not None:
        name = class_name(network if isinstance(network, nn.Module) else network())
        resolved = resolved.model_copy(update={"network": ComponentSection(name=f"{USER_NETWORK}{name}")})
    run = Run(out or default_folder(str(recipe) if isinstance(recipe, Path | str) else None, resolved))
    notify = notify_callbacks(active)
    train_data = None if data is None or is_source else _to_data(data, resolved, notify)
    test_data = None if test is None else _to_data(test, resolved, notify)
    return train_recipe(resolved, run, train_data, test=test_data, network=network, callbacks=active)


def train_recipe(
    recipe: Recipe,
    run: Run,
    data: LabeledData | None = None,
    *,
    test: LabeledData | None = None,
    network: Network | None = None,
    callbacks: Iterable[Callback] = (),
    save_findings: SaveFindings = save_method_findings,
    task: str = TRAIN,
) -> Run:
    """Start or resume a run; a finished one is only read, after a check of its recipe and samples.

    Args:
        recipe: the resolved recipe.
        run: the run.
        data: training data; default: what the recipe names.
        test: test data; default: what the recipe names.
        network: see ``train``.
        callbacks: see ``train``.
        save_findings: writes the findings at the end of training.
        task: the command, which is named where the run can be resumed.
    """
    active = check_callbacks(callbacks)
    notify = notify_callbacks(active)
    if run.exists:
        if task == TRAIN:
            run.check_trained()
        recipe = match_run(recipe, run)
        if not run.finished and run.task != task:
            raise ValueError(f"{run.folder} is a run of permll {run.task}: {run.resume_command} resumes it.")
    if run.finished and data is None:
        return run
    with torch.random.fork_rng(devices=[]), restore_threads():
        run.check_folder()
        prepared = prepare_data(recipe, data, test, run, None if run.exists else notify)
        if run.finished:
            if not run.check_data(prepared.train, prepared.validation):
                raise ValueError(f"{run.folder} is finished, and was trained on other samples: choose another folder.")
            return run
        recipe = fill_auto_settings(recipe, prepared)
        trainer = build_trainer(recipe, prepared, network)
        with lost_rank_errors(trainer.group, run.folder), run.locked() if trainer.group.is_main else nullcontext():
            start_or_resume(run, recipe, prepared, trainer, task)
            run_training(run, recipe, prepared, trainer, active, save_findings)
    return run


def notify_callbacks(callbacks: Iterable[Callback]) -> Callable[[str], None]:
    """Return a function that passes a message to callbacks."""

    def notify(text: str) -> None:
        for callback in callbacks:
            callback.on_message(text)

    return notify


def _to_data(data: Any, recipe: Recipe, notify: Callable[[str], None]) -> LabeledData:
    if isinstance(data, LabeledData):
        return data
    return load(data, shrink_to=small_image_size(recipe, notify), **recipe.data.options)
