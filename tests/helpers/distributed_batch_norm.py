"""Batch norms over batches of many shapes, with one process or several."""

import torch
from torch import Tensor, nn

from permll.distributed.batch_norm import convert_batch_norm
from permll.distributed.process_group import ProcessGroup

SHAPES = ((7, 3), (5, 3, 4), (6, 3, 2, 5), (3, 3, 1, 2, 2), (2, 3), (1, 3, 8))  # the last leaves a process without rows


def batches() -> list[tuple[Tensor, Tensor]]:
    """Return inputs, and weights of the outputs in the loss."""
    generator = torch.Generator().manual_seed(0)
    return [
        (10 + torch.randn(shape, generator=generator).double(), torch.randn(shape, generator=generator).double())
        for shape in SHAPES
    ]


def batch_norms(dimensions: int) -> list[nn.Module]:
    """Return batch norms with different options for inputs of this number of dimensions."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[dimensions]
    norms = [kind(3), kind(3, affine=False), kind(3, momentum=None, eps=0.1), kind(3, track_running_stats=False)]
    generator = torch.Generator().manual_seed(1)
    for norm in norms:
        for parameter in norm.parameters():
            parameter.data.copy_(torch.randn(3, generator=generator))
    return [norm.double() for norm in norms]


def batch_norm_results(group: ProcessGroup) -> dict[str, Tensor]:
    """Return outputs, gradients and running statistics."""
    results: dict[str, Tensor] = {}
    for number, (x, weight) in enumerate(batches()):
        for kind, norm in enumerate(batch_norms(x.ndim)):
            name = f"{number}.{kind}"
            synced = norm if group.is_single else convert_batch_norm(norm, torch.device("cpu"))
            local = x[group.local_rows].clone().requires_grad_()
            out = synced(local)
            (out * weight[group.local_rows]).sum().backward()
            results |= {
                f"{name}.out": group.gather_rows(out.detach(), len(x)),
                f"{name}.x": group.gather_rows(local.grad, len(x)),
            }
            results |= {f"{name}.d{key}": group.all_reduce(value.grad) for key, value in synced.named_parameters()}
            results |= {f"{name}.{key}": value for key, value in synced.state_dict().items()}
            results[f"{name}.eval"] = group.gather_rows(synced.eval()(local).detach(), len(x)) if kind != 3 else x
    return {key: value.contiguous().clone() for key, value in results.items()}
