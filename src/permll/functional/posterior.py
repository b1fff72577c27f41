"""Posterior of the class of a sample given its label, r[k] ∝ p[k]^β T[k, y] exp(-b [k = y]).

The shift b lowers the log-odds of all labels alike: it changes how many labels are suspect, but not their order.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ROWS = 50_000  # bounds the memory of temporaries


def label_log_odds(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    power: float,
    transition: Float[Tensor, "classes classes"],
) -> Float[Tensor, " samples"]:
    """Return log(r[y] / (1 - r[y])) with b = 0.

    Examples:
        >>> transition = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> odds = label_log_odds(torch.tensor([[0.6, 0.4]]).log(), torch.tensor([1]), 1.0, transition)
        >>> torch.allclose(odds.exp(), torch.tensor([0.4 * 0.8 / (0.6 * 0.1)]))
        True
    """
    log_T = transition.T.log().to(log_p.dtype).contiguous()
    parts = []
    for p, y in zip(log_p.split(CHUNK_ROWS), labels.split(CHUNK_ROWS), strict=True):
        score, index = torch.add(log_T[y], p, alpha=power), y[:, None]
        own = score.gather(1, index)[:, 0]
        parts.append(own - score.scatter_(1, index, -torch.inf).logsumexp(1))
    return torch.cat(parts)


def label_posterior(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    power: float,
    transition: Float[Tensor, "classes classes"],
    shifts: Float[Tensor, " samples"],
) -> Float[Tensor, "samples classes"]:
    """Return r (N, c), in float32, with a shift b for each sample.

    Examples:
        >>> transition = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> label_posterior(torch.tensor([[0.6, 0.4]]).log(), torch.tensor([1]), 1.0, transition, torch.zeros(1))
        tensor([[0.1579, 0.8421]])
    """
    log_T = transition.T.log().to(log_p.dtype).contiguous()
    posterior = torch.empty(log_p.shape, dtype=torch.float32, device=log_p.device)
    for p, y, b, r in zip(*(of.split(CHUNK_ROWS) for of in (log_p, labels, shifts, posterior)), strict=True):
        score = torch.add(log_T[y], p, alpha=power)
        r.copy_(score.scatter_add_(1, y[:, None], -b[:, None].to(score)).softmax(-1))
    return posterior


def shift_for_rate(log_odds: Float[Tensor, " samples"], rate: float) -> float:
    """Return b for which a fraction ``rate`` of the labels has negative log-odds; equal ones are not separated.

    Examples:
        >>> shift_for_rate(torch.tensor([3.0, -1.0, 2.0, 4.0]), 0.25)
        0.5
    """
    values, count = log_odds.cpu().numpy(), round(rate * len(log_odds))
    if 0 < count < len(values):
        below, above = np.partition(values, [count - 1, count])[count - 1 : count + 1]
        if below < above:
            return (float(below) + float(above)) / 2
        first, last = int((values < above).sum()), int((values <= above).sum())  # all of them or none
        count = last if 2 * count > first + last else first
    if count == 0:
        return min(float(values.min()), 0.0) - 1
    if count == len(values):
        return float(values.max()) + 1
    return shift_for_rate(log_odds, count / len(values))
