"""Small trainings for tests: seconds, on digits or on points in the plane."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from permll.data import LabeledData, Vectors
from permll.methods import Method, find_method
from permll.training.build import build_trainer as build_recipe_trainer
from permll.training.callbacks import Callback
from permll.training.data_preparation import PreparedData, prepare_data
from permll.training.model_card import write_model_card
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe
from permll.training.run import Run
from permll.training.train import train
from permll.training.trainer import Trainer


def points(rows: int = 60, classes: int = 3, seed: int = 0) -> LabeledData:
    """Return points around one center for each class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % classes
    centers = 3 * torch.randn(classes, 4, generator=generator)
    values = centers[labels] + torch.randn(rows, 4, generator=generator)
    ids = tuple(f"point {row}" for row in range(rows))
    return LabeledData(Vectors(values), labels, tuple(f"class {c}" for c in range(classes)), ids)


def small_net(inputs: int, classes: int, seed: int = 0, dropout: float = 0.1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(inputs, 16, bias=False),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(16, classes),
        )


def build_trainer(
    name: str,
    data: LabeledData,
    settings: Mapping[str, Any] | None = None,
    *,
    epochs: int = 4,
    batch_size: int = 16,
    held_out: LabeledData | bool = True,
    fabric: Any = None,
    dropout: float = 0.1,
    trusted: Tensor | None = None,
    **more: Any,
) -> Trainer:
    """Return a trainer of a registered method on vectors; held-out rows are other points, those passed, or none.

    A method that needs trusted samples has some by default.
    """
    from lightning_fabric import Fabric

    from permll.data.transforms import default_views

    if held_out is True:
        held_out = points(30, data.num_classes, seed=2)
    torch.manual_seed(5)
    info = find_method(name)
    method: Method = info.build(**(settings or {}))
    if "trusted" in info.needs and trusted is None:
        trusted = torch.arange(len(data)) % 5 < 2
    width = data.inputs.batch(torch.arange(1)).shape[1]
    for number, network in enumerate(method.network_names):
        method.networks[network] = small_net(width, data.num_classes, number, dropout)
    return Trainer(
        fabric or Fabric(accelerator="cpu", devices=1),
        method,
        data,
        default_views(data.inputs),
        optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
        schedule={"milestones": (0.5,)},
        epochs=epochs,
        batch_size=batch_size,
        validation=held_out or None,
        trusted=trusted,
        **more,
    )


def quick_recipe(**overrides: Any) -> Recipe:
    """Return a recipe for three epochs on digits; ``data__noise`` overrides ``data.noise``."""
    changes = {"training.epochs": 3, "network.widths": [32], **{k.replace("__", "."): v for k, v in overrides.items()}}
    return load_recipe("tiny/digits", changes)


def points_recipe(**overrides: Any) -> Recipe:
    """Return ``quick_recipe`` for data that are passed to ``train``: no noise, no held-out rows, default views."""
    plain = {"data__noise": "", "data__validation": None, "views__weak": None, "views__strong": None}
    return quick_recipe(**{"data__source": "own", **plain, **overrides})


def train_run(recipe: Recipe, folder: Path, data: LabeledData | None = None, **more: Any) -> tuple[Run, PreparedData]:
    """Train, write the model card again, and return the run with its data."""
    prepared = prepare_data(recipe, data)
    run = train(data, recipe=recipe, out=folder, **more)
    write_model_card(run, build_recipe_trainer(run.recipe, prepared, **more), prepared)
    return run, prepared


def newest_state(run: Run | Path) -> dict[str, Any]:
    """Return the newest checkpoint of a run."""
    state = (run if isinstance(run, Run) else Run(run)).checkpoints.newest()
    assert state is not None
    return state


def run_bytes(folder: Path) -> dict[str, bytes]:
    """Return the results of a run as bytes: its newest checkpoint, its metrics and its result."""
    newest = sorted((folder / "checkpoints").glob("step-*.safetensors"))[-1]
    return {path.name: path.read_bytes() for path in (newest, folder / "metrics.jsonl", folder / "result.json")}


def do_nothing(_: Trainer) -> None:
    """After a step or an epoch."""


def run_steps(trainer: Trainer, steps: int) -> None:
    """Take at most ``steps`` steps."""
    left = itertools.count(steps - 1, -1)

    def after_step(trainer: Trainer) -> None:
        if next(left) == 0:
            trainer.stop()

    trainer.run(after_step, do_nothing)
    trainer._stop_requested = False


def equal_states(one: Any, other: Any) -> bool:
    """Return whether two nested states are equal to the bit."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_states(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal_states, one, other))
    return bool(one == other)


class StopAfter(Callback):
    """Stops a training after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_step_end(self, trainer: Trainer) -> None:
        self.left -= 1
        if self.left == 0:
            trainer.stop()
