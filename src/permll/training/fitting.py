"""``fit``: a recipe carried out in a run folder, from its beginning or from wherever it was left."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from permll.data.inputs import Images, LazyImages
from permll.data.record import Data
from permll.methods._base import Method
from permll.methods._registry import find_method, method_name
from permll.networks import build_network
from permll.training.carrying_out import carry_out
from permll.training.experiment import Before, Experiment, prepare
from permll.training.loop import Loop
from permll.training.observers import Observer
from permll.training.recipe import Recipe
from permll.training.recipe_files import choose_recipe
from permll.training.run import Run, default_folder
from permll.training.trained import saved_encoder, write_network_card
from permll.training.views import build_views

Network = nn.Module | Callable[[], nn.Module]


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
    network: Network | None = None,
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
        network: any module that returns logits, instead of the recipe's; or a function that makes one, for methods that
            need several, or begin anew.
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
    if run.finished and not isinstance(data, Data):
        return run
    with torch.random.fork_rng(devices=[]):
        before = Before(*run.rows, saved_encoder(run)) if run.exists else None
        experiment = prepare(resolved, data if isinstance(data, Data) else None, test, before)
        if run.finished:
            _same_rows(run, experiment)
            return run
        if resolved.network.name == "auto":
            resolved = _with_network(resolved, experiment)
        loop = make_loop(resolved, experiment, network)
        with run.locked():
            _take_up(run, resolved, experiment, loop)
            carry_out(run, resolved, experiment, loop, list(observers))
    return run


def make_loop(recipe: Recipe, experiment: Experiment, network: Network | None = None) -> Loop:
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
        precision=training.precision,
    )
    if fabric.world_size > 1:
        raise ValueError(
            f"training on {fabric.world_size} devices is not built yet: set training.devices and num_nodes to 1."
        )
    fabric.launch()
    torch.manual_seed(training.seed)
    views = build_views(experiment.train.inputs, recipe.views)
    method = find_method(recipe.method.name).build(**recipe.method.settings)
    build = _network_builder(recipe, experiment, views, network)
    if isinstance(network, nn.Module) and len(method.network_names) > 1:
        raise ValueError(
            f"{recipe.method.name} trains {len(method.network_names)} networks: give a function that makes one, "
            "network=lambda: ..., instead of a network."
        )
    for name in method.network_names:
        method.networks[name] = build(name, 0)
    return Loop(
        fabric,
        method,
        experiment.train,
        views,
        optimizer=recipe.optimizer.model_dump(),
        schedule=recipe.schedule.model_dump(),
        epochs=training.epochs,
        batch_size=training.batch_size,
        seed=training.seed,
        workers=training.workers,
        validation=None if experiment.validation_is_clean else experiment.validation,
        trusted=experiment.trusted,
        fresh=None if isinstance(network, nn.Module) else build,
    )


def _same_recipe(run: Run, asked: Recipe) -> Recipe:
    """Return the recipe that is asked for, if the run was begun with it: what changes no result may be another."""
    if asked.network.name == "auto":
        asked = asked.model_copy(update={"network": run.recipe.network})
    if asked.hash != run.recipe.hash:
        raise ValueError(
            f"{run.folder} is a run of another recipe: choose another folder, or permll train {run.folder}."
        )
    return asked


def _same_rows(run: Run, experiment: Experiment) -> None:
    """Refuse other data than those a finished run was trained on."""
    if not run.check(experiment.train, experiment.validation):
        raise ValueError(f"{run.folder} is finished, and was trained on other samples: choose another folder.")


def _with_network(recipe: Recipe, experiment: Experiment) -> Recipe:
    """Choose a network by what it will see: the recipe that is written down names it."""
    inputs = experiment.train.inputs
    if isinstance(inputs, Images):
        name = "cnn" if inputs.pixels.shape[2] < 24 else "resnet8"
    else:
        name = "resnet18" if isinstance(inputs, LazyImages) else "mlp"
    return recipe.model_copy(update={"network": recipe.network.model_copy(update={"name": name})})


def _network_builder(
    recipe: Recipe, experiment: Experiment, views: Mapping[str, Any], network: Network | None
) -> Callable[[str, int], nn.Module]:
    """Return what makes a network from its name and the number of a stage, each with weights of its own."""
    data, rows = experiment.train, torch.arange(1)
    shape = tuple(views["plain"](data.inputs.batch(rows), rows).shape[1:])

    def build(name: str, stage: int) -> nn.Module:
        # The first and only network of a method is called "net" and takes the seed as it is.
        own = 0 if name == "net" else zlib.crc32(name.encode()) % 1_000_000
        seed = recipe.training.seed + 1000 * own + 1_000_000_007 * stage
        if isinstance(network, nn.Module):
            return network
        if network is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                return network()
        return build_network(
            recipe.network.name,
            input_shape=shape,
            num_classes=data.num_classes,
            seed=seed,
            **recipe.network.settings,
        )

    return build


def _take_up(run: Run, recipe: Recipe, experiment: Experiment, loop: Loop) -> None:
    """Begin the run, or stand where it was left."""
    begun = run.exists
    if not begun:
        run.begin(recipe, experiment.train, experiment.noise, experiment.validation)
    same = run.check(experiment.train, experiment.validation)
    if not same and recipe.data.noise:
        raise ValueError(
            f"{run.folder} put noise on the labels of other samples: noise cannot be drawn for some of them alone."
        )
    state = run.checkpoints.newest()
    if state is not None and not same:  # other rows, other batches: the epoch begins anew
        state |= {"sweep": None, "streams": {}, "number": 0, "loss": 0.0, "losses": 0}
    if state is not None:
        try:
            loop.load_state_dict(state)
        except RuntimeError as other:
            reason = str(other).splitlines()[-1].strip().rstrip(".")
            raise ValueError(f"{run.folder} was begun with another network: {reason}.") from None
    if not same:  # first the state of these rows, then their names: killed in between, it finds them once more
        run.checkpoints.save(loop.step, loop.state_dict())
        run.note_rows(experiment.train, experiment.validation)
    write_network_card(run, loop, experiment)
    run.forget_after(loop.epoch)
