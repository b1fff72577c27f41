"""Training with Lightning on digits with 40 % wrong labels; ``python -m tests.helpers.lightning_jobs OUT`` uses DDP.

Each job of ``JOBS`` runs on two processes, and every one of them writes its result to OUT.
"""

# ruff: noqa: ARG002 (hooks have the arguments of Lightning)

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import permll
from permll.layer.base import CorrectionLayer
from tests.helpers.digits_training import N, build_layer, build_net, digits, result
from tests.helpers.processes import leave_process_group
from tests.helpers.tiny_encoders import import_torchvision

if importlib.util.find_spec("torchvision") is not None:
    import_torchvision()  # as Lightning does

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch.nn.functional import cross_entropy

from permll.integrations.lightning import PermLLCallback

BATCH = 56  # 25 in an epoch
JOBS: dict[str, dict[str, Any]] = {
    "inside": {"inside": True},
    "outside-resumed": {"inside": False},
    "outside-accumulated": {"inside": False, "accumulate_grad_batches": 2},
}


class Classifier(LightningModule):
    """A perceptron; the layer is a submodule if ``inside``, else an attribute that is not registered."""

    def __init__(self, layer: CorrectionLayer, *, inside: bool) -> None:
        super().__init__()
        self.net = build_net()
        if inside:
            self.layer = layer
        else:
            self.__dict__["layer"] = layer
        self.modes: set[tuple[str, bool]] = set()  # of the layer, in training and in validation steps

    def training_step(self, batch: Sequence[Tensor], batch_idx: int) -> Tensor:
        x, _, index = batch
        self.modes.add(("train", self.layer.training))
        return self.layer(self.net(x), index)

    def validation_step(self, batch: Sequence[Tensor], batch_idx: int) -> None:
        x, y = batch
        self.modes.add(("validate", self.layer.training))
        self.log("val_loss", cross_entropy(self.net(x), y), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def train_loader() -> DataLoader[Any]:
    """Return batches of the training set, in an order that depends on the epoch; Lightning sets its number."""
    x, _, labels = digits()
    dataset = permll.IndexedDataset(TensorDataset(x[:N], labels))
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True)
    return DataLoader(dataset, batch_size=BATCH, sampler=sampler)


def val_loader() -> DataLoader[Any]:
    """Return batches of clean samples that are not among the layer's."""
    x, y, _ = digits()
    return DataLoader(TensorDataset(x[N:], y[N:]), batch_size=200)


def build_trainer(epochs: int, callbacks: Sequence[Callback], **settings: Any) -> Trainer:
    """Return a quiet trainer on the CPU."""
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    quiet |= {"accelerator": "cpu", "enable_checkpointing": False}
    return Trainer(max_epochs=epochs, callbacks=[*callbacks], **quiet | settings)


def train(
    inside: bool, epochs: int = 24, devices: int = 1, resume: Path | None = None, **settings: Any
) -> dict[str, Tensor]:
    """Return the result of a training; two processes have batches of half the size.

    Args:
        inside: whether the layer is a submodule.
        epochs: number of epochs.
        devices: number of processes.
        resume: file in which the training is saved after half of the epochs, to continue with a new model.
        settings: of the trainer.
    """
    if resume is not None:
        trainer, _ = fit(inside, epochs // 2, devices, None, settings)
        trainer.save_checkpoint(resume)
    return result(*fit(inside, epochs, devices, resume, settings)[1])


def fit(
    inside: bool, epochs: int, devices: int, checkpoint: Path | None, settings: dict[str, Any]
) -> tuple[Trainer, tuple[nn.Module, CorrectionLayer]]:
    """Return the trainer, and the network and the layer after the training."""
    layer = build_layer()
    model = Classifier(layer, inside=inside)
    strategy = "ddp" if devices > 1 else "auto"
    trainer = build_trainer(epochs, [PermLLCallback("layer")], devices=devices, strategy=strategy, **settings)
    if devices == 1:
        loader = train_loader()
    else:  # Lightning replaces the sampler
        loader = DataLoader(train_loader().dataset, batch_size=BATCH // devices, shuffle=True)
    trainer.fit(model, loader, val_loader(), ckpt_path=checkpoint)
    return trainer, (model.net, layer)


def main(out: Path) -> None:
    """Run all jobs on two processes, of which Lightning starts the second."""
    for name, job in JOBS.items():
        resume = out / f"{name}.ckpt" if "resumed" in name else None
        values = train(**job, devices=2, resume=resume)
        save_file(values, out / f"{name}-{torch.distributed.get_rank()}.safetensors")
    leave_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
