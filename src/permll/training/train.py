"""``fit``: a recipe carried out in a run folder, from its beginning or from wherever it was left."""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from permll.data.inputs import Images, LazyImages
from permll.data.loading import load
from permll.data.readers.image_files import SMALL
from permll.data.dataset import Data
from permll.methods._base import Method
from permll.methods._registry import find_method, method_name
from permll.networks import build_network
from permll.training.runner import carry_out, save_together
from permll.training.data_preparation import Before, Experiment, prepare
from permll.training.feature_cache import FEATURES
from permll.distributed.launch import launched, spoken_of
from permll.training.trainer import Loop
from permll.training.callbacks import Observer
from permll.training.recipe import AUTO, GIVEN, DataSection, Named, Recipe, differences
from permll.training.recipe_files import choose_recipe
from permll.training.run import Run, default_folder
from permll.training.predictor import class_name, saved_encoder, write_network_card
from permll.training.views import build_views
from permll.training.progress import default_watchers

Network = nn.Module | Callable[[], nn.Module]


def fit(
    method: str | type[Method] | None = None,
    data: Any = None,
    recipe: Recipe | Path | str | None = None,
    *,
    out: Path | str | None = None,
    noise: str | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    test: Data | None = None,
    network: Network | None = None,
    observers: Iterable[Observer] | None = None,
    **settings: Any,
) -> Run:
    """Train a method on data as a recipe says, and return the run.

    A run that was begun in ``out`` goes on from its last checkpoint; one that is finished is only read. It must be a
    run of the same recipe: ``fit(recipe=Run(out).recipe, out=out)`` goes on with any.

    Args:
        method: its name (``permll methods``), or a class of yours; default the recipe's.
        data: to train on: whatever ``permll.data.load`` takes, a path, a data frame, the name of a built-in set, or
            ``Data``; default what the recipe names.
        recipe: a recipe, the name of a built-in one (``permll recipes list``), or a TOML file; default ``own/default``,
            which picks a network that suits the data.
        out: the run's folder; default ``runs/RECIPE-METHOD-SEED``.
        noise: to put on the labels (``permll noise list``), instead of the recipe's.
        epochs: how many, instead of the recipe's.
        seed: of initial weights, orders and views, instead of the recipe's.
        test: to test on, instead of what the recipe names.
        network: any module that returns logits, instead of the recipe's; or a function that makes one, for methods that
            need several, or begin anew.
        observers: who watches, see ``Observer``; default a progress bar where there is a terminal or a notebook.
        settings: any other value of the recipe, dots written as two underscores: ``optimizer__lr=0.1``.

    Examples:
        >>> from tempfile import mkdtemp
        >>> run = fit("permll", "digits", "tiny/digits", epochs=2, out=mkdtemp())
        >>> run.finished, len(run.metrics)
        (True, 2)
    """
    if isinstance(method, Method):
        raise TypeError(
            f"give the method's class and its settings, not an object: fit({type(method).__name__}, method__NAME=...)."
        )
    named = isinstance(data, str | Path)
    given = {
        "method.name": method_name(method) if isinstance(method, type) else method,
        "data.source": str(data) if named else None,
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    } | {name.replace("__", "."): value for name, value in settings.items()}
    changes = {name: value for name, value in given.items() if value is not None}
    if recipe is None and data is None:
        raise ValueError("say what to train on: data, or a recipe that names some (permll recipes list).")
    resolved = choose_recipe(recipe, changes)
    if network is not None:
        made = network if isinstance(network, nn.Module) else network()
        resolved = resolved.model_copy(update={"network": Named(name=f"{GIVEN}{class_name(made)}")})
    run = Run(out or default_folder(recipe, resolved))
    if run.exists:
        resolved = _same_recipe(run, resolved)
    if data is not None and not named and not isinstance(data, Data):
        data = load(data, **resolved.data.options)
    if run.finished and not isinstance(data, Data):
        return run
    watchers = default_watchers() if observers is None else list(observers)
    with torch.random.fork_rng(devices=[]):
        run.refuse_a_folder_in_use()
        before = Before(*run.rows, saved_encoder(run)) if run.exists else None
        experiment = prepare(
            resolved,
            data if isinstance(data, Data) else None,
            test,
            before,
            features=run.folder / FEATURES,
            say=None if run.exists else _to_all(watchers),
        )
        if run.finished:
            _same_rows(run, experiment)
            return run
        resolved = _suited(resolved, experiment)
        loop = make_loop(resolved, experiment, network)
        with spoken_of(loop.ranks, run.folder), run.locked() if loop.ranks.first else nullcontext():
            _take_up(run, resolved, experiment, loop)
            carry_out(run, resolved, experiment, loop, watchers)
    return run


def make_loop(recipe: Recipe, experiment: Experiment, network: Network | None = None) -> Loop:
    """Return the loop of a recipe on its data, at the beginning."""
    training = recipe.training
    if training.threads:
        torch.set_num_threads(training.threads)
    info = find_method(recipe.method.name)
    fabric = launched(training, info.alone and f"{info.name} {info.alone}")
    torch.manual_seed(training.seed)
    views = build_views(experiment.train.inputs, recipe.views)
    method = info.build(**recipe.method.settings)
    build = _network_builder(recipe, experiment, views, network)
    if isinstance(network, nn.Module) and len(method.network_names) > 1:
        raise ValueError(
            f"{recipe.method.name} trains {len(method.network_names)} networks: give a function that makes one, "
            "network=lambda: ..., instead of a network."
        )
    for name in method.network_names:
        method.networks[name] = build(name, 0)
    if network is not None:
        _try_out(method.networks[method.network_names[0]], experiment, views)
    return Loop(
        fabric,
        method,
        experiment.train,
        views,
        optimizer=recipe.optimizer.model_dump(),
        schedule=recipe.schedule.model_dump(),
        epochs=training.epochs,
        batch_size=training.rows_of_a_batch,
        seed=training.seed,
        workers=training.workers,
        validation=None if experiment.validation_is_clean else experiment.validation,
        trusted=experiment.trusted,
        placement=training.placement,
        fresh=None if isinstance(network, nn.Module) else build,
    )


def _same_recipe(run: Run, asked: Recipe) -> Recipe:
    """Return the recipe that is asked for, if the run was begun with it: what changes no result may be another."""
    begun = run.recipe
    if asked.network.name == AUTO and not begun.network.name.startswith(GIVEN):
        asked = asked.model_copy(update={"network": begun.network, "data": _settled(asked.data, begun.data)})
    if asked.training.batch_size == AUTO:
        asked = asked.with_training(batch_size=begun.training.batch_size)
    if asked.hash != begun.hash:
        raise ValueError(
            f"{run.folder} is a run of another recipe ({differences(begun, asked)}): choose another folder, or permll "
            f"train {run.folder}."
        )
    return asked


def _settled(asked: DataSection, begun: DataSection) -> DataSection:
    """Return what is asked for, with what it leaves to the data as the run has decided it."""
    if asked.backbone or asked.pixels:
        return asked
    return asked.model_copy(update={name: getattr(begun, name) for name in ("pixels", "backbone", "weights")})


def _same_rows(run: Run, experiment: Experiment) -> None:
    """Refuse other data than those a finished run was trained on."""
    if not run.check(experiment.train, experiment.validation):
        raise ValueError(f"{run.folder} is finished, and was trained on other samples: choose another folder.")


def _suited(recipe: Recipe, experiment: Experiment) -> Recipe:
    """Choose what the recipe leaves open by the data: the recipe that is written down has no ``auto`` left."""
    inputs, rows = experiment.train.inputs, len(experiment.train)
    recipe = recipe.model_copy(update={"data": experiment.section or recipe.data})
    if recipe.network.name == AUTO:
        if isinstance(inputs, Images):
            name = "cnn" if inputs.pixels.shape[2] < 24 else "resnet8"
        elif isinstance(inputs, LazyImages):
            name = "resnet8" if inputs.size <= SMALL else "resnet18"
        else:
            name = "mlp"
        recipe = recipe.model_copy(update={"network": recipe.network.model_copy(update={"name": name})})
    if recipe.training.batch_size == AUTO:  # ten steps an epoch or more: fewer teach too little
        recipe = recipe.with_training(batch_size=min(max(2 ** int(math.log2(rows / 10)) if rows > 10 else 2, 16), 128))
    return recipe


def _to_all(observers: Iterable[Observer]) -> Callable[[str], None]:
    def say(what: str) -> None:
        for observer in observers:
            observer.on_data(what)

    return say


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
        if recipe.network.name.startswith(GIVEN):
            raise ValueError(
                f"the run trains a network of yours, {recipe.network.name.removeprefix(GIVEN)}: give it to permll.fit("
                "recipe=Run(folder).recipe, out=folder, network=...)."
            )
        return build_network(
            recipe.network.name,
            input_shape=shape,
            num_classes=data.num_classes,
            seed=seed,
            **recipe.network.settings,
        )

    return build


def _try_out(network: nn.Module, experiment: Experiment, views: Mapping[str, Any]) -> None:
    """Refuse a network of the user's that does not take the samples, or does not give a score for every class."""
    rows = torch.arange(2)
    x = views["plain"](experiment.train.inputs.batch(rows), rows)
    was_training = network.training
    try:
        with torch.no_grad():
            found = tuple(network.eval()(x).shape)
    except RuntimeError as problem:
        shape = tuple(x.shape[1:])
        reason = str(problem).splitlines()[0].rstrip(".")
        raise ValueError(f"the network does not take samples of shape {shape}: {reason}.") from None
    finally:
        network.train(was_training)
    wanted = (2, experiment.train.num_classes)
    if found != wanted:
        raise ValueError(f"the network must give a score for every class, shape {wanted} for 2 samples; got {found}.")


def _take_up(run: Run, recipe: Recipe, experiment: Experiment, loop: Loop) -> None:
    """Begin the run, or stand where it was left; of several ranks, the first writes and all read."""
    ranks = loop.ranks
    if not run.exists and ranks.first:
        run.begin(recipe, experiment.train, experiment.noise, experiment.validation)
    ranks.wait()
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
    ranks.wait()
    if not same:  # first the state of these rows, then their names: killed in between, it finds them once more
        save_together(run.checkpoints, loop)
    if not ranks.first:
        return
    if not same:
        run.note_rows(experiment.train, experiment.validation)
    write_network_card(run, loop, experiment)
    run.forget_after(loop.epoch)
