"""Evidence of the nearest samples: the labels of ten neighbors, weighted by their cosine similarity.

With v[k] the weighted fraction of neighbors with the label k, and π[k] the frequency of the label, a prediction p
becomes proportional to

    p[k] ((10 v[k] + π[k]) / (11 π[k]))^(1/2).

Neighbors drawn at random have v = π and change nothing. The network has learned from the same labels, so the evidence
of neighbors counts half. A sample's own label is not among its neighbors.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.utils.indexing import subsample_rows

NUM_NEIGHBORS = 10
WEIGHT = 1 / 2
MAX_REFERENCES = 20_000  # samples among which neighbors are searched
BLOCK_SIZE = 2**25  # similarities computed at a time


def neighbor_votes(
    features: Float[Tensor, "samples dims"], labels: Int[Tensor, " samples"], num_classes: int
) -> Float[Tensor, "samples classes"]:
    """Return v (N, c): for each sample the weighted fraction of its neighbors by label; 0 without a similar one.

    Examples:
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> neighbor_votes(features, torch.tensor([0, 0, 1, 1]), 2)[0].argmax()
        tensor(0)
    """
    x = torch.nn.functional.normalize(features.float().flatten(1), dim=1)
    references = subsample_rows(len(x), MAX_REFERENCES).to(x.device)
    position = torch.full((len(x),), -1, device=x.device)
    position[references] = torch.arange(len(references), device=x.device)
    count = min(NUM_NEIGHBORS, len(references) - 1)
    votes = torch.zeros(len(x), num_classes, device=x.device)
    others, of_others = x[references].T, labels[references]
    for rows in torch.arange(len(x), device=x.device).split(max(BLOCK_SIZE // len(references), 1)):
        similarity = x[rows] @ others
        own = position[rows]
        similarity[own >= 0, own[own >= 0]] = -torch.inf
        nearest = similarity.topk(count, dim=1)
        votes[rows] = votes[rows].scatter_add_(1, of_others[nearest.indices], nearest.values.clamp_min(0))
    return votes / votes.sum(1, keepdim=True).clamp_min(torch.finfo(votes.dtype).tiny)


def add_votes(
    log_p: Float[Tensor, "samples classes"], votes: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> Float[Tensor, "samples classes"]:
    """Return log-probabilities with the evidence of ``neighbor_votes``; labels that do not occur stay as they are.

    Examples:
        >>> log_p, votes = torch.full((2, 2), 0.5).log(), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
        >>> add_votes(log_p, votes, torch.tensor([0, 1])).exp()
        tensor([[0.8209, 0.1791],
                [0.5000, 0.5000]])
    """
    prior = labels.bincount(minlength=log_p.shape[1]).to(log_p) / len(labels)
    ratio = (NUM_NEIGHBORS * votes.to(log_p) + prior) / ((NUM_NEIGHBORS + 1) * prior.clamp_min(1e-12))
    return (log_p + WEIGHT * torch.where(prior > 0, ratio, 1.0).log()).log_softmax(-1)
