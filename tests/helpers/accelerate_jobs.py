"""Training with Accelerate on digits with 40 % wrong labels: ``torchrun -m tests.helpers.accelerate_jobs OUT``.

Each job of ``JOBS`` runs on all processes, and every one of them writes its result to OUT.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import permll
from tests.helpers.digits_training import N, build_layer, build_net, digits, result
from tests.helpers.own_loop_jobs import LossModule
from tests.helpers.processes import leave_process_group

BATCH = 56  # 25 in an epoch; with fewer samples in the last one, several processes would repeat some
JOBS: dict[str, dict[str, Any]] = {
    "inside": {"inside": True},
    "outside-accumulated": {"inside": False, "accumulate": 2},
}


def train(
    inside: bool, epochs: int = 40, accumulate: int = 1, *, save: Path | None = None, load: Path | None = None
) -> dict[str, Tensor]:
    """Return the result of a training on all processes.

    Args:
        inside: whether the layer is a submodule of the network.
        epochs: until the end; a training that resumes continues with epoch 20.
        accumulate: batches per step.
        save: folder for the state after epoch 20.
        load: folder of a state to resume.
    """
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=accumulate,
        # The batches do not depend on the number of processes, their order depends on the epoch.
        dataloader_config=DataLoaderConfiguration(split_batches=True, use_seedable_sampler=True, data_seed=0),
    )
    layer, net = build_layer(), build_net()
    model = LossModule(net, layer, inside, "mean")
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x, _, labels = digits()
    dataset = permll.IndexedDataset(TensorDataset(x[:N], labels))
    loader = DataLoader(dataset, BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if not inside:
        accelerator.register_for_checkpointing(layer)
    start = 0
    if load is not None:
        accelerator.load_state(str(load))
        start = 20
    for epoch in range(start, epochs):
        loader.set_epoch(epoch)
        for x, _, index in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(x, index))
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                layer.step()
        if epoch == 19 and save is not None:
            accelerator.save_state(str(save))
    return result(net, layer)


def main(out: Path) -> None:
    """Run all jobs as a process of torchrun."""
    for name, job in JOBS.items():
        values = train(**job)
        save_file(values, out / f"{name}-{torch.distributed.get_rank()}.safetensors")
    leave_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
