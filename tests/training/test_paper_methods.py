"""What the authors of each method prescribe for CIFAR-10 is carried out, from the first stage to the last epoch.

A few small images and a small network, but the optimizer, schedule, stages, views and settings of the recipe.
"""

from functools import cache

import pytest
import torch
from torch import nn

from permll.data import Images, LabeledData
from permll.methods import METHODS
from permll.training.data_preparation import prepare_data
from permll.training.recipe_files import load_recipe
from permll.training.train import build_trainer
from permll.training.trainer import Trainer

ROWS = 40
# GLC wants trusted rows of all hundred classes.
OTHERS = [
    (frame, method)
    for frame in ("cifar10-asym-40", "cifar100-sym-60")
    for method in METHODS
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


def prepared(frame: str, method: str, validation: int | None) -> Trainer:
    """Return the training that a recipe of the authors prescribes, of small images with a small network."""
    classes = 100 if "cifar100" in frame else 10
    changes = {"method.name": method, "data.validation": validation, "training.threads": 1}
    if "trusted" in METHODS[method].needs:
        changes["data.trusted"] = 10
    recipe = load_recipe(f"paper/{frame}", changes)
    simple = recipe.data.model_copy(update={"noise": "sym:0.2"})  # CIFAR's asymmetric noise is for its own classes
    recipe = recipe.model_copy(update={"data": simple})
    trainer = build_trainer(recipe, prepare_data(recipe, images(classes)), lambda: small_net(classes))
    assert trainer.epochs == recipe.training.epochs
    return trainer


@pytest.mark.parametrize("method", METHODS)
def test_the_authors_schedule_is_carried_out(method: str) -> None:
    trainer = prepared("cifar10-sym-60", method, validation=None)  # the authors train on all images
    assert trainer.run(lambda _: None, lambda _: None)
    assert trainer.epoch == trainer.epochs
    assert trainer.stages.number == len(trainer.stages.plan) - 1
    assert trainer.method.corrected_labels(trainer.predict_logits).isfinite().all()


@pytest.mark.parametrize(("frame", "method"), OTHERS)
def test_with_other_noise_and_other_classes_it_begins(frame: str, method: str) -> None:
    trainer = prepared(frame, method, validation=10)
    assert not trainer.run(lambda _: None, lambda trainer: trainer.stop() if trainer.epoch == 2 else None)
    assert trainer.epoch == 2
    assert trainer.method.corrected_labels(trainer.predict_logits).isfinite().all()
