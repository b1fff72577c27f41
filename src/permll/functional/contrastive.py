"""Contrastive loss on two augmented views per sample."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def nt_xent_loss(
    first: Float[Tensor, "batch features"], second: Float[Tensor, "batch features"], temperature: float
) -> Float[Tensor, " views"]:
    """Return the normalized temperature-scaled cross-entropy (SimCLR) of the 2B views, ``first`` before ``second``.

    With s the cosine similarity of two views and j the other view of the sample of view i,

        -log exp(s_ij / T) / Σ_{k ≠ i} exp(s_ik / T).

    Args:
        first: features (B, d) of one view of each sample.
        second: features (B, d) of the other view.
        temperature: T > 0.

    Examples:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> nt_xent_loss(features, features, 1.0)
        tensor([0.5514, 0.5514, 0.5514, 0.5514])
    """
    views = nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = (views @ views.T / temperature).fill_diagonal_(-torch.inf)
    other_view = torch.arange(len(views), device=views.device).roll(len(first))
    return nn.functional.cross_entropy(similarity, other_view, reduction="none")
