"""``fit``: a recipe carried out in a run folder, from its beginning or from wherever it was left."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from permll.data.inputs import Images, LazyImages
from permll.data.record import Data
from permll.evaluation.judge import Judge
from permll.methods._base import Method
from permll.methods._registry import find_method, method_name
from permll.networks import build_network
from permll.training.experiment import Before, Experiment, prepare
from permll.training.loop import Loop, NotFiniteError
from permll.training.observers import Observer
from permll.training.optimizers import build_optimizer
from permll.training.recipe import Recipe, choose_recipe
from permll.training.run import Run, default_folder
from permll.training.schedule import learning_rate
from permll.training.trained import saved_encoder, write_network_card
from permll.training.views import build_views


def fit(
    method: str | type[Method] | None = None,
    data: Data | Path | str | None = None,
    recipe: Recipe | Path | str | None = None,
    *,
    out: Path | str | None = None,
    noise: str | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    test: Data | None = None,
    network: nn.Module | None = None,
    observers: Iterable[Observer] = (),
    **settings: Any,
) -> Run:
    """Train a method on data as a recipe says, and return the run.

    A run that was begun in ``out`` goes on from its last checkpoint; one that is finished is only read. It must be a
    run of the same recipe: ``fit(recipe=Run(out).recipe, out=out)`` goes on with any.

    Args:
        method: its name (``permll methods``), or a class of yours; default the recipe's.
        data: to train on: an object, a path, or the name of a built-in set; default what the recipe names.
        recipe: a recipe, the name of a built-in one (``permll recipes list``), or a TOML file; default ``own/default``,
            which picks a network that suits the data.
        out: the run's folder; default ``runs/RECIPE-METHOD-SEED``.
        noise: to put on the labels (``permll noise list``), instead of the recipe's.
        epochs: how many, instead of the recipe's.
        seed: of initial weights, orders and views, instead of the recipe's.
        test: to test on, instead of what the recipe names.
        network: any module that returns logits, instead of the recipe's. Methods with several networks copy it.
        observers: see ``Observer``.
        settings: any other value of the recipe, dots written as two underscores: ``optimizer__lr=0.1``.

    Examples:
        >>> from tempfile import mkdtemp
        >>> run = fit("permll", "digits", "tiny/digits", epochs=2, out=mkdtemp())
        >>> run.finished, len(run.metrics)
        (True, 2)
    """
    given = {
        "method.name": method_name(method) if isinstance(method, type) else method,
        "data.source": None if isinstance(data, Data) or data is None else str(data),
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    } | {name.replace("__", "."): value for name, value in settings.items()}
    changes = {name: value for name, value in given.items() if value is not None}
    if recipe is None and data is None:
        raise ValueError("say what to train on: data, or a recipe that names some (permll recipes list).")
    resolved = choose_recipe(recipe, changes)
    run = Run(out or default_folder(recipe, resolved))
    if run.exists:
        resolved = _same_recipe(run, resolved)
    if run.finished:
        return run
    with torch.random.fork_rng(devices=[]):
        before = Before(*run.rows, saved_encoder(run)) if run.exists else None
        experiment = prepare(resolved, data if isinstance(data, Data) else None, test, before)
        if resolved.network.name == "auto":
            resolved = _with_network(resolved, experiment)
        loop = make_loop(resolved, experiment, network)
        _take_up(run, resolved, experiment, loop)
        _carry_out(run, resolved, experiment, loop, list(observers))
    return run


def make_loop(recipe: Recipe, experiment: Experiment, network: nn.Module | None = None) -> Loop:
    """Return the loop of a recipe on its data, at the beginning."""
    from lightning_fabric import Fabric

    training = recipe.training
    if training.threads:
        torch.set_num_threads(training.threads)
    fabric = Fabric(
        accelerator=training.accelerator,
        devices=training.devices,
        num_nodes=training.num_nodes,
        strategy=training.strategy,
        precision=training.precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    torch.manual_seed(training.seed)
    views = build_views(experiment.train.inputs, recipe.views)
    method = find_method(recipe.method.name).build(**recipe.method.settings)
    _give_networks(method, recipe, experiment, views, network)
    optimizers = {
        name: build_optimizer(net, recipe.optimizer.name, **recipe.optimizer.settings)
        for name, net in method.networks.items()
    }
    schedule = recipe.schedule.model_dump()
    return Loop(
        fabric,
        method,
        experiment.train,
        views,
        optimizers,
        lambda epoch: learning_rate(epoch, training.epochs, **schedule),
        epochs=training.epochs,
        batch_size=training.batch_size,
        seed=training.seed,
        workers=training.workers,
    )


def _same_recipe(run: Run, asked: Recipe) -> Recipe:
    """Return the recipe that a run was begun with, if it is the one that is asked for."""
    begun = run.recipe
    network = begun.network if asked.network.name == "auto" else asked.network
    if asked.model_copy(update={"network": network}).hash != begun.hash:
        raise ValueError(
            f"{run.folder} is a run of another recipe: choose another folder, or permll train {run.folder}."
        )
    return begun


def _with_network(recipe: Recipe, experiment: Experiment) -> Recipe:
    """Choose a network by what it will see: the recipe that is written down names it."""
    inputs = experiment.train.inputs
    if isinstance(inputs, Images):
        name = "cnn" if inputs.pixels.shape[2] < 24 else "resnet8"
    else:
        name = "resnet18" if isinstance(inputs, LazyImages) else "mlp"
    return recipe.model_copy(update={"network": recipe.network.model_copy(update={"name": name})})


def _give_networks(
    method: Method, recipe: Recipe, experiment: Experiment, views: Mapping[str, Any], network: nn.Module | None
) -> None:
    import copy

    data = experiment.train
    rows = torch.arange(1)
    shape = tuple(views["plain"](data.inputs.batch(rows), rows).shape[1:])
    for number, name in enumerate(method.network_names):
        if network is not None:
            method.networks[name] = network if number == 0 else copy.deepcopy(network)
            continue
        method.networks[name] = build_network(
            recipe.network.name,
            input_shape=shape,
            num_classes=data.num_classes,
            seed=recipe.training.seed + 1000 * number,
            **recipe.network.settings,
        )


def _take_up(run: Run, recipe: Recipe, experiment: Experiment, loop: Loop) -> None:
    """Begin the run, or stand where it was left."""
    if not run.exists:
        run.begin(recipe, experiment.train, experiment.noise, experiment.validation)
    write_network_card(run, loop, experiment)
    same = run.check(experiment.train)
    state = run.checkpoints.newest()
    if state is not None:
        loop.load_state_dict(state if same else {**state, "sweep": None, "streams": {}, "number": 0})
    if not same:  # first the state of these rows, then their names: killed in between, it finds them once more
        run.checkpoints.save(loop.step, loop.state_dict())
        run.note_rows(experiment.train, experiment.validation)
    run.forget_after(loop.epoch)


def _carry_out(run: Run, recipe: Recipe, experiment: Experiment, loop: Loop, observers: list[Observer]) -> None:
    judge = Judge(experiment.test, experiment.validation, experiment.clean, experiment.clean_validation)
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        run.checkpoints.save(loop.step, loop.state_dict())
        saved = time.monotonic()

    def after_step(loop: Loop) -> None:
        for observer in observers:
            observer.on_step(loop)
        if time.monotonic() - saved > 60 * recipe.training.checkpoint_minutes:
            save()

    def after_epoch(loop: Loop) -> None:
        entry: dict[str, Any] = {
            "epoch": loop.epoch,
            "step": loop.step,
            "loss": loop.epoch_loss,
            **loop.method.metrics(),
        }
        if loop.epoch % recipe.training.evaluate_every == 0 or loop.epoch == loop.epochs:
            entry |= judge.verdict(loop.method, loop.predict, loop.scan, loop.data)
        run.add_metrics(entry)
        save()
        for observer in observers:
            observer.on_epoch(loop, entry)

    for observer in observers:
        observer.on_start(loop, run)
    try:
        reached = loop.run(after_step, after_epoch)
    except NotFiniteError:
        save()  # the step that failed was not taken: this is the last good state
        raise
    if not reached:
        save()
    else:
        run.finish({"recipe_hash": recipe.hash, "settings": loop.method.settings(), **judge.report(run.metrics)})
    for observer in observers:
        observer.on_end(run)
