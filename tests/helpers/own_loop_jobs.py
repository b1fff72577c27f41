"""A user's own training loop on several processes: ``torchrun -m tests.helpers.own_loop_jobs OUT``.

Each job trains 60 points with 40 % wrong labels. Rank 0 writes the results of a job to OUT, every rank its labels.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from permll import PermutationLayer
from permll.layer.autograd import Reduction
from permll.layer.base import CorrectionLayer
from tests.helpers.default_layer import end_warm_up
from tests.helpers.processes import leave_process_group

N, C, BATCH = 660, 4, 60
JOBS = {
    "default": {"kind": "default"},
    "default-inside": {"kind": "default", "inside": True},
    "default-bfloat16": {"kind": "default", "dtype": torch.bfloat16},
    "paper": {"kind": "paper"},
    "paper-inside": {"kind": "paper", "inside": True},
    "paper-top_k": {"kind": "paper", "top_k": 2},
    "paper-uneven": {"kind": "paper", "uneven": True},
    "default-compiled": {"kind": "default", "compiled": True},
    "default-fsdp": {"kind": "default", "inside": True, "wrapper": "fsdp"},
}


class LossModule(nn.Module):
    """A network whose forward pass returns the loss; with ``inside``, the layer is a part of it."""

    def __init__(self, net: nn.Module, layer: CorrectionLayer, inside: bool, reduction: Reduction = "sum") -> None:
        super().__init__()
        self.net, self.reduction = net, reduction
        if inside:
            self.layer = layer
        else:
            self.__dict__["layer"] = layer  # hidden from the wrapper

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return self.layer(self.net(x), index, self.reduction)


def points() -> tuple[Tensor, Tensor, Tensor]:
    """Return points (N, 4), their classes, and labels of which 40 % are wrong."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(C, (N,), generator=generator)
    x = 2 * nn.functional.one_hot(truth, C).double() + torch.randn(N, C, generator=generator, dtype=torch.float64)
    wrong = torch.rand(N, generator=generator) < 0.4
    return x, truth, torch.where(wrong, (truth + torch.randint(1, C, (N,), generator=generator)) % C, truth)


def build_layer(labels: Tensor, kind: str, **storage: object) -> CorrectionLayer:
    """Return a layer of which the state changes in every step."""
    if kind == "paper":
        return PermutationLayer.paper(labels, C, lr=1.0, **storage)
    dtype = storage.pop("dtype", torch.float64)
    return end_warm_up(PermutationLayer(labels, C, dtype=dtype, **storage), influence=0.1)


def train(
    rank: int,
    size: int,
    kind: str,
    *,
    inside: bool = False,
    uneven: bool = False,
    compiled: bool = False,
    wrapper: str = "ddp",
    epochs: int = 4,
    **storage: object,
) -> dict[str, Tensor]:
    """Return labels, weights and state after training as rank ``rank`` of ``size``.

    A batch contains a sample twice, which several processes get. With ``uneven``, all rows but one go to rank 0, and
    the others sometimes have none.
    """
    torch.manual_seed(1)
    x, _, labels = points()
    layer = build_layer(labels, kind, **storage)
    if kind == "paper":
        layer.double()
    net = nn.Sequential(nn.Linear(C, 8), nn.Tanh(), nn.Linear(8, C)).double()
    module: nn.Module = LossModule(net, layer, inside)
    if size > 1:
        assert not [name for name, _ in module.named_buffers()]  # nothing to broadcast
        if wrapper == "fsdp":
            module = FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True)
        else:
            module = DistributedDataParallel(module)
    if compiled:
        module = torch.compile(module, backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    generator = torch.Generator().manual_seed(2)
    for _ in range(epochs):
        for batch in torch.randperm(N, generator=generator).split(BATCH):
            rows = torch.cat([batch, batch[:2], batch[:1]])
            own = (rows[:-1] if rank == 0 else rows[-1:][: rank == 1]) if uneven and size > 1 else rows[rank::size]
            optimizer.zero_grad()
            if len(own):
                loss = module(x[own], own) * (size / len(rows))
                loss.backward()
            else:
                module(x[:1], torch.zeros(1, dtype=torch.int64)).mul(0.0).backward()
                layer.zero_grad()
            optimizer.step()
            layer.step()
    state = {name: value for name, value in layer.state_dict().items() if value.is_floating_point()}
    return {"corrected": layer.corrected_labels(), "weight": net[0].weight.detach(), "alpha": layer.alpha} | state


def main(out: Path) -> None:
    """Run all jobs as a process of torchrun."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name, job in JOBS.items():
        result = train(rank, size, **job)
        save_file({key: value.contiguous() for key, value in result.items()}, out / f"{name}-{rank}.safetensors")
    alone = build_layer(points()[2], "paper", process_group=own_group(rank))
    alone(torch.eye(C)[:1].requires_grad_(), torch.tensor([rank])).backward()
    alone.step()
    save_file({"alpha": alone.alpha.contiguous()}, out / f"alone-{rank}.safetensors")
    leave_process_group()


def own_group(rank: int) -> dist.ProcessGroup:
    """Return a group with this process alone; every process creates all groups."""
    return [dist.new_group([other]) for other in range(dist.get_world_size())][rank]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
