"""Contrastive learning: two views of one sample should lie together, apart from those of all others."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def nt_xent(
    first: Float[Tensor, "batch features"], second: Float[Tensor, "batch features"], temperature: float
) -> Float[Tensor, " views"]:
    """Return the normalised, temperature-scaled cross-entropy of SimCLR for each of the 2B views, the first ones first.

    With s the cosine of two views, j the other view of the sample of i, and all 2B - 1 other views in the sum,

        -log exp(s_ij / T) / Σ_{k ≠ i} exp(s_ik / T).

    Args:
        first: features (B, d) of one view of each sample; only their directions count.
        second: those of another.
        temperature: T > 0.

    Examples:
        >>> apart = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> nt_xent(apart, apart, 1.0)
        tensor([0.5514, 0.5514, 0.5514, 0.5514])
    """
    views = nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = (views @ views.T / temperature).fill_diagonal_(-torch.inf)
    other = torch.arange(len(views), device=views.device).roll(len(first))
    return nn.functional.cross_entropy(similarity, other, reduction="none")
