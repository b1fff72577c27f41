"""Two ranks normalise their parts of batches of many shapes, run by torchrun; the first leaves what came out."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from permll.distributed.batch_norm import convert_batch_norm
from permll.distributed.process_group import ProcessGroup

SHAPES = ((7, 3), (5, 3, 4), (6, 3, 2, 5), (3, 3, 1, 2, 2), (2, 3), (1, 3, 8))  # of the last, one rank has no row


def batches() -> list[tuple[Tensor, Tensor]]:
    """Return inputs, and weights for a loss of what comes out."""
    draw = torch.Generator().manual_seed(0)
    return [
        (10 + torch.randn(shape, generator=draw).double(), torch.randn(shape, generator=draw).double())
        for shape in SHAPES
    ]


def norms(dimensions: int) -> list[nn.Module]:
    """Return batch norms of all kinds for inputs with so many dimensions."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[dimensions]
    made = [
        kind(3),
        kind(3, affine=False),
        kind(3, momentum=None, eps=0.1),
        kind(3, track_running_stats=False),
    ]
    draw = torch.Generator().manual_seed(1)
    for norm in made:
        for parameter in norm.parameters():
            parameter.data.copy_(torch.randn(3, generator=draw))
    return [norm.double() for norm in made]


def passed(group: ProcessGroup) -> dict[str, Tensor]:
    """Return what comes out of norms, what goes back, and what they remember."""
    found: dict[str, Tensor] = {}
    for number, (x, weight) in enumerate(batches()):
        for kind, norm in enumerate(norms(x.ndim)):
            name = f"{number}.{kind}"
            shared = norm if group.is_single else convert_batch_norm(norm, torch.device("cpu"))
            own = x[group.local_rows].clone().requires_grad_()
            out = shared(own)
            (out * weight[group.local_rows]).sum().backward()
            found |= {
                f"{name}.out": group.gather_rows(out.detach(), len(x)),
                f"{name}.x": group.gather_rows(own.grad, len(x)),
            }
            found |= {f"{name}.d{key}": group.all_reduce(value.grad) for key, value in shared.named_parameters()}
            found |= {f"{name}.{key}": value for key, value in shared.state_dict().items()}
            found[f"{name}.evaluated"] = group.gather_rows(shared.eval()(own).detach(), len(x)) if kind != 3 else x
    return {key: value.contiguous().clone() for key, value in found.items()}


def main(out: Path) -> None:
    """Normalize, and write."""
    torch.distributed.init_process_group("gloo")
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    found = passed(ProcessGroup(rank, size))
    if rank == 0:
        save_file(found, out)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
