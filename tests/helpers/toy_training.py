"""Small trainings for the tests: seconds, on digits or on points in the plane."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from permll.data import LabeledData, Vectors
from permll.methods import Method, find_method
from permll.training.callbacks import Callback
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe
from permll.training.trainer import Trainer


def points(rows: int = 60, classes: int = 3, seed: int = 0) -> LabeledData:
    """Return points around as many centres as there are classes."""
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
    **more: Any,
) -> Trainer:
    """Return a loop of a registered method on vectors; its held-out rows are other points, these, or none."""
    from lightning_fabric import Fabric

    from permll.data.transforms import default_views

    if held_out is True:
        held_out = points(30, data.num_classes, seed=2)
    torch.manual_seed(5)
    method: Method = find_method(name).build(**(settings or {}))
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
        trusted=torch.arange(len(data)) % 5 < 2,
        **more,
    )


def quick_recipe(**overrides: Any) -> Recipe:
    """Return digits for a few epochs, in one thread."""
    changes = {"training.epochs": 3, "network.widths": [32], **{k.replace("__", "."): v for k, v in overrides.items()}}
    return load_recipe("tiny/digits", changes)


def files(folder: Path) -> dict[str, bytes]:
    """Return what a run has come to: its newest checkpoint, its metrics and its result."""
    newest = sorted((folder / "checkpoints").glob("step-*.safetensors"))[-1]
    return {path.name: path.read_bytes() for path in (newest, folder / "metrics.jsonl", folder / "result.json")}


class StopAfter(Callback):
    """Asks the loop to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_step_end(self, trainer: Trainer) -> None:
        self.left -= 1
        if self.left == 0:
            trainer.stop()
