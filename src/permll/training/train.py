"""``train``: train a method on data as a recipe says, in a run folder that resumes."""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import nn

from permll.data.dataset import LabeledData
from permll.data.inputs import Images, LazyImages
from permll.data.loading import load
from permll.data.readers.image_files import SMALL_IMAGE_SIZE
from permll.data.readers.options import ReadKeywords, check_keywords
from permll.distributed.launch import launch_fabric, lost_rank_errors
from permll.methods._base import Method
from permll.methods._registry import find_method, method_name
from permll.networks import build_network
from permll.training.callbacks import Callback
from permll.training.data_preparation import Experiment, PreviousSplit, prepare
from permll.training.feature_cache import FEATURES
from permll.training.predictor import class_name, saved_encoder, write_model_card
from permll.training.progress import default_watchers
from permll.training.recipe import AUTO, GIVEN, DataSection, Named, Recipe, differences
from permll.training.recipe_files import choose_recipe
from permll.training.run import Run, default_folder
from permll.training.runner import run_training, save_together
from permll.training.trainer import Trainer, restart_epoch
from permll.training.views import build_views

Network = nn.Module | Callable[[], nn.Module]


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
            f"give the method's class, not an object: train(data, {type(method).__name__}, "
            'overrides={"method.NAME": ...}).'
        )
    named = isinstance(data, str | Path)
    given = {
        "method.name": method_name(method) if isinstance(method, type) else method,
        "data.source": str(data) if named else None,
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    options = {f"data.options.{name}": value for name, value in check_keywords(reader, "train").items()}
    changes = {name: value for name, value in given.items() if value is not None} | options | dict(overrides or {})
    if recipe is None and data is None:
        raise ValueError("no training data: pass data, or a recipe that names some (permll recipes list).")
    resolved = choose_recipe(recipe, changes)
    if network is not None:
        made = network if isinstance(network, nn.Module) else network()
        resolved = resolved.model_copy(update={"network": Named(name=f"{GIVEN}{class_name(made)}")})
    run = Run(out or default_folder(recipe, resolved))
    if run.exists:
        resolved = _same_recipe(run, resolved)
    if data is not None and not named and not isinstance(data, LabeledData):
        data = load(data, **resolved.data.options)
    if test is not None and not isinstance(test, LabeledData):
        test = load(test, **resolved.data.options)
    if run.finished and not isinstance(data, LabeledData):
        return run
    watchers = default_watchers() if callbacks is None else list(callbacks)
    with torch.random.fork_rng(devices=[]):
        run.check_folder()
        before = PreviousSplit(*run.rows, saved_encoder(run)) if run.exists else None
        experiment = prepare(
            resolved,
            data if isinstance(data, LabeledData) else None,
            test,
            before,
            features=run.folder / FEATURES,
            notify=None if run.exists else _to_all(watchers),
        )
        if run.finished:
            _same_rows(run, experiment)
            return run
        resolved = _suited(resolved, experiment)
        trainer = build_trainer(resolved, experiment, network)
        with lost_rank_errors(trainer.group, run.folder), run.locked() if trainer.group.is_main else nullcontext():
            _resume(run, resolved, experiment, trainer)
            run_training(run, resolved, experiment, trainer, watchers)
    return run


def build_trainer(recipe: Recipe, experiment: Experiment, network: Network | None = None) -> Trainer:
    """Return the loop of a recipe on its data, at the beginning."""
    training = recipe.training
    if training.threads:
        torch.set_num_threads(training.threads)
    info = find_method(recipe.method.name)
    reason = info.single_process_reason
    fabric = launch_fabric(
        accelerator=training.accelerator,
        devices=training.devices,
        num_nodes=training.num_nodes,
        strategy=training.strategy,
        precision=training.precision,
        batch_size=training.rows_of_a_batch,
        single_process_reason=reason and f"{info.name} {reason}",
    )
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
    return Trainer(
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
            name = "resnet8" if inputs.size <= SMALL_IMAGE_SIZE else "resnet18"
        else:
            name = "mlp"
        recipe = recipe.model_copy(update={"network": recipe.network.model_copy(update={"name": name})})
    if recipe.training.batch_size == AUTO:  # ten steps an epoch or more: fewer teach too little
        recipe = recipe.with_training(batch_size=min(max(2 ** int(math.log2(rows / 10)) if rows > 10 else 2, 16), 128))
    return recipe


def _to_all(callbacks: Iterable[Callback]) -> Callable[[str], None]:
    def notify(what: str) -> None:
        for callback in callbacks:
            callback.on_data(what)

    return notify


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


def _resume(run: Run, recipe: Recipe, experiment: Experiment, trainer: Trainer) -> None:
    """Begin the run, or stand where it was left; of several ranks, the first writes and all read."""
    group = trainer.group
    if not run.exists and group.is_main:
        run.begin(recipe, experiment.train, experiment.noise, experiment.validation)
    group.barrier()
    same = run.check(experiment.train, experiment.validation)
    if not same and recipe.data.noise:
        raise ValueError(
            f"{run.folder} put noise on the labels of other samples: noise cannot be drawn for some of them alone."
        )
    state = run.checkpoints.newest()
    if state is not None and not same:  # other rows, other batches: the epoch begins anew
        state = restart_epoch(state)
    if state is not None:
        try:
            trainer.load_state_dict(state)
        except RuntimeError as other:
            reason = str(other).splitlines()[-1].strip().rstrip(".")
            raise ValueError(f"{run.folder} was begun with another network: {reason}.") from None
    group.barrier()
    if not same:  # first the state of these rows, then their names: killed in between, it finds them once more
        save_together(run.checkpoints, trainer)
    if not group.is_main:
        return
    if not same:
        run.save_split(experiment.train, experiment.validation)
    write_model_card(run, trainer, experiment)
    run.truncate_metrics(trainer.epoch)
