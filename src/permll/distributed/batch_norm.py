"""Synchronized batch normalization: statistics over the rows of all processes, so that their number changes no result.

On CUDA, PyTorch's ``SyncBatchNorm`` is used. It does not run on other devices; this implementation does.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.modules.batchnorm import _BatchNorm

from permll.distributed.process_group import all_gather


def convert_batch_norm(module: nn.Module, device: torch.device) -> nn.Module:
    """Return the network with synchronized batch norms; the state dict is unchanged."""
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)
    if isinstance(module, _BatchNorm):
        synced = SyncBatchNorm(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        synced._parameters.update(module._parameters)  # the same tensors: an optimizer may hold them already
        synced._buffers.update(module._buffers)
        return synced.train(module.training)
    for name, child in module.named_children():
        module.add_module(name, convert_batch_norm(child, device))
    return module


class SyncBatchNorm(_BatchNorm):
    """A batch norm over the rows of all processes, for inputs of any number of dimensions.

    With n_r values of mean m_r and sum of squared deviations s_r on process r: n = Σ n_r, m = Σ n_r m_r / n,
    variance = (Σ s_r + Σ n_r (m_r - m)²) / n. A process may have no row.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"a batch norm needs two dimensions or more, got {input.ndim}.")

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized rows."""
        if not (self.training or self.running_mean is None):
            return super().forward(input)
        self._check_input_dim(input)
        weight = torch.ones(self.num_features).to(input) if self.weight is None else self.weight
        bias = torch.zeros(self.num_features).to(input) if self.bias is None else self.bias
        count, mean, variance = _statistics(input.detach())
        if self.training and self.track_running_stats:
            self._update_running_stats(count, mean, variance)
        return _Normalize.apply(input, weight, bias, mean, variance, count, self.eps)

    @torch.no_grad()
    def _update_running_stats(self, count: float, mean: Tensor, variance: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked += 1
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * (count / max(count - 1, 1))
        self.running_mean.lerp_(mean.to(self.running_mean), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var), momentum)


def _statistics(x: Tensor) -> tuple[float, Tensor, Tensor]:
    """Return the number of values of a channel on all processes, their mean (C,) and variance (C,)."""
    channels = x.shape[1]
    n = x.numel() // channels
    dims = [dimension for dimension in range(x.ndim) if dimension != 1]
    wide = torch.promote_types(x.dtype, torch.float32)
    local = torch.zeros(2 * channels + 1, dtype=wide, device=x.device)
    if n:
        mean = x.to(wide).mean(dims)  # var_mean would take ten times as long on a CPU
        deviations = (x - mean.view(1, -1, *[1] * (x.ndim - 2))).square_().sum(dims)
        local = torch.cat([mean, deviations, mean.new_full((1,), float(n))])
    gathered = all_gather(local[None], dist.get_world_size())  # (R, 2C + 1)
    means, deviations_all, counts = gathered[:, :channels], gathered[:, channels:-1], gathered[:, -1:]
    total = counts.sum()
    if float(total) < 2:
        raise ValueError("batch norm cannot train on a single row over all processes: use a larger batch size.")
    mean = (counts * means).sum(0) / total
    variance = (deviations_all.sum(0) + (counts * (means - mean).square()).sum(0)) / total
    return float(total), mean, variance


def _like(gradient: Tensor, x: Tensor) -> Tensor:
    """Return the gradient in the memory format of x: kernels are slow where the two differ."""
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return gradient.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


class _Normalize(Function):
    """(x - mean) / √(variance + ε) w + b, with mean and variance over all processes.

    With x̂ the normalized values, g the incoming gradient and <·> the mean over all processes,
    dx = w / √(variance + ε) (g - <g> - x̂ <g x̂>). The kernels are those of a batch norm with fixed statistics.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, count: float, eps: float
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, variance)
        ctx.count, ctx.eps = count, eps
        return torch.batch_norm(x, weight, bias, mean, variance, False, 0.0, eps, False) if x.numel() else x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance = ctx.saved_tensors
        if x.numel():
            dx, dw, db = torch.ops.aten.native_batch_norm_backward(
                _like(gradient, x), x, weight, mean, variance, None, None, False, ctx.eps, [True, True, True]
            )
        else:
            dx, dw, db = gradient, torch.zeros_like(weight), torch.zeros_like(weight)
        sums = torch.cat([db, dw])
        dist.all_reduce(sums)
        mean_g, mean_gx = (sums / ctx.count).chunk(2)
        scale = -weight * (variance + ctx.eps).rsqrt().to(weight)
        if x.numel():
            dx.add_(torch.batch_norm(x, scale * mean_gx, scale * mean_g, mean, variance, False, 0.0, ctx.eps, False))
        return dx, dw, db, None, None, None, None
