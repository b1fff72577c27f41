"""The authors' recipes of every method for CIFAR train from the first stage to the last.

Images and network are small and epochs are scaled down; optimizer, schedule, stages, views and settings are the
recipe's.
"""

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from permll.data import Images, LabeledData
from permll.methods import METHODS, list_methods
from permll.training.data_preparation import prepare_data
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe
from permll.training.train import build_trainer
from permll.training.trainer import Trainer

ROWS = 40
EPOCHS = 20  # instead of 100 to 3120
# Method settings in epochs.
LENGTHS = {"baseline", "correction", "estimate", "first", "freeze", "joint", "prune_every", "prune_from", "pseudo1"}
LENGTHS |= {"ramp", "rehearsal", "reweight", "second", "sharpening", "simple", "start_before", "warm_up"}
# GLC needs trusted samples of all hundred classes.
OTHER_FRAMES = [
    (frame, method)
    for frame in ("cifar10-asym-40", "cifar100-sym-60")
    for method in list_methods()
    if (frame, method) != ("cifar100-sym-60", "glc")
]


@cache
def images(classes: int) -> LabeledData:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 256, (ROWS, 3, 8, 8), dtype=torch.uint8, generator=generator)
    names = tuple(str(number) for number in range(classes))
    return LabeledData(Images(values), torch.arange(ROWS) % 10, names, tuple(str(row) for row in range(ROWS)))


def small_net(classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, classes))


def authors_recipe(frame: str, method: str, validation: int | None) -> Recipe:
    changes = {"method.name": method, "data.validation": validation, "training.threads": 1}
    if "trusted" in METHODS[method].needs:
        changes["data.trusted"] = 10
    recipe = load_recipe(f"paper/{frame}", changes)
    # CIFAR's asymmetric noise is defined for its own classes.
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"noise": "sym:0.2"})})


def scaled(recipe: Recipe) -> Recipe:
    """Return the recipe with all lengths in epochs scaled to ``EPOCHS`` in all."""
    factor = EPOCHS / recipe.training.epochs

    def scale(length: float) -> float:
        return length if length < 1 else max(1, round(factor * length))

    content: dict[str, Any] = recipe.model_dump()
    content["training"]["epochs"] = EPOCHS
    content["schedule"]["milestones"] = [scale(milestone) for milestone in recipe.schedule.milestones]
    content["method"] |= {name: scale(value) for name, value in recipe.method.settings.items() if name in LENGTHS}
    return Recipe.model_validate(content)


def trainer_of(recipe: Recipe, frame: str) -> Trainer:
    classes = 100 if "cifar100" in frame else 10
    return build_trainer(recipe, prepare_data(recipe, images(classes)), lambda: small_net(classes))


def do_nothing(_: Trainer) -> None:
    pass


@pytest.mark.parametrize("method", list_methods())
def test_authors_schedule_runs_to_the_end(method: str) -> None:
    frame = "cifar10-sym-60"
    recipe = authors_recipe(frame, method, validation=None)  # the authors train on all images
    full, trainer = trainer_of(recipe, frame), trainer_of(scaled(recipe), frame)
    assert full.epochs == recipe.training.epochs
    assert [stage.name for stage in full.stages.plan] == [stage.name for stage in trainer.stages.plan]
    rates: list[float] = []
    optimizer = trainer.method.network_names[-1 if method == "mlnt" else 0]
    trained = trainer.run(lambda trainer: rates.append(trainer.optimizers[optimizer].param_groups[0]["lr"]), do_nothing)
    assert trained
    assert trainer.epoch == trainer.epochs == EPOCHS
    assert trainer.stages.number == len(trainer.stages.plan) - 1
    assert len(set(rates)) > len(recipe.schedule.milestones), "every milestone is passed"
    assert trainer.method.corrected_labels(trainer.predict_logits).isfinite().all()


@pytest.mark.parametrize(("frame", "method"), OTHER_FRAMES)
def test_authors_recipe_starts_with_other_noise_and_classes(frame: str, method: str) -> None:
    trainer = trainer_of(authors_recipe(frame, method, validation=10), frame)
    assert not trainer.run(do_nothing, lambda trainer: trainer.stop() if trainer.epoch == 1 else None)
    assert trainer.epoch == 1
    assert trainer.method.corrected_labels(trainer.predict_logits).isfinite().all()
