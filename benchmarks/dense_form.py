"""The permutation layer as published: each swap is a matrix, each sample a c x c x c tensor.

α is a dense parameter with a separate SGD optimizer. For sample i the exponents [P(y, j)]_rk (α_j + z_k) are computed
for all j, r, k, with absent pairs masked, and log (P̄ p)_r is their log-sum-exp over j and k.
"""

import torch
from torch import Tensor, nn

from permll.layer.equations import initial_alpha
from permll.layer.reference import swap_matrix


class DensePermutationLayer(nn.Module):
    """Same loss and update as ``PermutationLayer``, with c³ numbers per sample."""

    def __init__(self, labels: Tensor, num_classes: int, init: float = 0.35) -> None:
        super().__init__()
        self.labels = labels
        self.alpha = nn.Parameter(initial_alpha(labels, num_classes, init))
        swaps = torch.stack(
            [
                torch.stack([swap_matrix(num_classes, y, j, torch.float32) for j in range(num_classes)])
                for y in range(num_classes)
            ]
        )
        self.swaps = swaps

    def forward(self, logits: Tensor, index: Tensor) -> Tensor:
        """Return the mean of -log (P̄ p)_y."""
        labels, alpha = self.labels[index], self.alpha[index]
        swaps = self.swaps[labels]
        spread = alpha[:, :, None, None].expand_as(swaps).contiguous()
        exponents = (spread + logits[:, None, None, :]) * swaps
        exponents = torch.where(exponents != 0, exponents, torch.full_like(exponents, -torch.inf))
        log_q = exponents.logsumexp((1, 3)) - alpha.logsumexp(-1, keepdim=True) - logits.logsumexp(-1, keepdim=True)
        return nn.functional.nll_loss(log_q, labels)
