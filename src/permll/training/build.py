"""``build_trainer``: the trainer of a recipe on prepared data, with its method, networks and automatic settings."""

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from permll.data.inputs import Images, LazyImages, Vectors
from permll.data.readers.image_files import SMALL_IMAGE_SIZE
from permll.data.transforms.image_transforms import Transform
from permll.distributed.launch import launch_fabric
from permll.methods._registry import find_method
from permll.networks import build_network
from permll.training.data_preparation import PreparedData
from permll.training.feature_cache import NONE, TFIDF
from permll.training.recipe import AUTO, USER_NETWORK, Recipe, recipe_diff
from permll.training.run import Run
from permll.training.stages import NetworkFactory
from permll.training.trainer import Trainer
from permll.training.views import build_views
from permll.utils.messages import first_line

Network = nn.Module | Callable[[], nn.Module]
MAX_SINGLE_THREAD_COLUMNS = 1024  # up to this width, more threads take more processor time and no less time


def fill_auto_settings(recipe: Recipe, prepared: PreparedData) -> Recipe:
    """Return the recipe with encoder, network, batch size and number of threads chosen by the data."""
    inputs, rows = prepared.train.inputs, len(prepared.train)
    recipe = recipe.model_copy(update={"data": prepared.section or recipe.data})
    if recipe.network.name == AUTO:
        if isinstance(inputs, Images):
            name = "cnn" if inputs.pixels.shape[2] < 24 else "resnet8"
        elif isinstance(inputs, LazyImages):
            name = "resnet8" if inputs.size <= SMALL_IMAGE_SIZE else "resnet18"
        else:
            name = "mlp"
        recipe = recipe.model_copy(update={"network": recipe.network.model_copy(update={"name": name})})
    if recipe.training.batch_size == AUTO:  # at least ten steps in an epoch
        recipe = recipe.with_training(batch_size=min(max(2 ** int(math.log2(rows / 10)) if rows > 10 else 2, 16), 128))
    is_small = isinstance(inputs, Vectors) and inputs.values.shape[1] <= MAX_SINGLE_THREAD_COLUMNS
    if recipe.training.threads is None and recipe.network.name == "mlp" and is_small:
        recipe = recipe.with_training(threads=1)
    return recipe


@contextmanager
def restore_threads() -> Iterator[None]:
    """Restore the number of threads, which a recipe may change."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def match_run(recipe: Recipe, run: Run) -> Recipe:
    """Return the recipe with the settings that were chosen when the run started; refuse a run of another recipe."""
    saved = run.recipe
    if recipe.network.name == AUTO and not saved.network.name.startswith(USER_NETWORK):
        recipe = recipe.model_copy(update={"network": saved.network})
        if recipe.data.backbone in (None, "", NONE) and not recipe.data.pixels:
            recipe = recipe.with_data(
                pixels=saved.data.pixels, backbone=saved.data.backbone, weights=saved.data.weights
            )
        if recipe.data.encoder in (None, "", TFIDF):
            recipe = recipe.with_data(encoder=saved.data.encoder)
    if recipe.training.batch_size == AUTO:
        recipe = recipe.with_training(batch_size=saved.training.batch_size)
    if recipe.hash != saved.hash:
        raise ValueError(
            f"{run.folder} is a run of another recipe ({recipe_diff(saved, recipe)}): choose another folder, or resume "
            f"it with {run.resume_command}."
        )
    return recipe


def build_trainer(recipe: Recipe, prepared: PreparedData, network: Network | None = None) -> Trainer:
    """Return the trainer of a recipe, before its first step.

    Args:
        recipe: the recipe, without ``"auto"``.
        prepared: its data.
        network: a user's network, or a function that builds one.
    """
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
        batch_size=training.resolved_batch_size,
        single_process_reason=reason and f"{info.name} {reason}",
    )
    torch.manual_seed(training.seed)
    views = build_views(prepared.train.inputs, recipe.views)
    method = info.build(**recipe.method.settings)
    if isinstance(network, nn.Module) and len(method.network_names) > 1:
        raise ValueError(
            f"{recipe.method.name} trains {len(method.network_names)} networks: pass a function that builds one, "
            "network=lambda: ..., instead of a network."
        )
    build = _network_factory(recipe, prepared, views, network)
    for name in method.network_names:
        method.networks[name] = build(name, 0)
    if network is not None:
        _check_network(method.networks[method.network_names[0]], prepared, views)
    return Trainer(
        fabric,
        method,
        prepared.train,
        views,
        optimizer=recipe.optimizer.model_dump(),
        schedule=recipe.schedule.model_dump(),
        epochs=training.epochs,
        batch_size=training.resolved_batch_size,
        seed=training.seed,
        workers=training.workers,
        validation=None if prepared.validation_is_clean else prepared.validation,
        trusted=prepared.trusted,
        placement=training.placement,
        fresh=None if isinstance(network, nn.Module) else build,
    )


def _network_factory(
    recipe: Recipe, prepared: PreparedData, views: Mapping[str, Transform], network: Network | None
) -> NetworkFactory:
    """Return a function that builds a network from its name and the number of a stage, with different weights each."""
    data, rows = prepared.train, torch.arange(1)
    shape = tuple(views["plain"](data.inputs.batch(rows), rows).shape[1:])

    def build(name: str, stage: int) -> nn.Module:
        # A single network is called "net" and takes the seed itself.
        offset = 0 if name == "net" else zlib.crc32(name.encode()) % 1_000_000
        seed = recipe.training.seed + 1000 * offset + 1_000_000_007 * stage
        if isinstance(network, nn.Module):
            return network
        if network is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                return network()
        if recipe.network.name.startswith(USER_NETWORK):
            raise ValueError(
                f"the run trains a user-defined network, {recipe.network.name.removeprefix(USER_NETWORK)}: pass it to "
                "permll.train(recipe=Run(folder).recipe, out=folder, network=...)."
            )
        return build_network(
            recipe.network.name, input_shape=shape, num_classes=data.num_classes, seed=seed, **recipe.network.settings
        )

    return build


def _check_network(network: nn.Module, prepared: PreparedData, views: Mapping[str, Transform]) -> None:
    """Refuse a user's network that does not accept the samples, or does not return logits of all classes."""
    rows = torch.arange(2)
    x = views["plain"](prepared.train.inputs.batch(rows), rows)
    was_training = network.training
    try:
        with torch.no_grad():
            shape = tuple(network.eval()(x).shape)
    except RuntimeError as error:
        raise ValueError(
            f"the network does not accept samples of shape {tuple(x.shape[1:])}: {first_line(error)}."
        ) from None
    finally:
        network.train(was_training)
    expected = (2, prepared.train.num_classes)
    if shape != expected:
        raise ValueError(f"the network must return logits of shape {expected} for 2 samples; got {shape}.")
