"""MORPH: what a network has memorised, told from the labels it predicted lately, and how many labels are wrong.

Letters, as in the paper: ``H`` the labels that a sample was predicted in its last q visits, of which -1 stands for none
yet; ``A`` the sum of its losses over all epochs so far, the area under its loss curve.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.functional.mixture import fit_gaussian_mixture, unit_scaled, wrong_posterior

NONE = -1  # where a history has no prediction yet


def add_to_history(
    history: Int[Tensor, "samples visits"], predicted: Int[Tensor, " samples"]
) -> Int[Tensor, "samples visits"]:
    """Return H after a visit: the newest prediction comes last, the oldest is forgotten.

    Examples:
        >>> add_to_history(torch.tensor([[-1, 4, 2]]), torch.tensor([7]))
        tensor([[4, 2, 7]])
    """
    return torch.cat([history[:, 1:], predicted[:, None].to(history)], 1)


def memorized(history: Int[Tensor, "samples visits"], labels: Int[Tensor, " samples"]) -> Bool[Tensor, " samples"]:
    """Return whether the given label was predicted more often than any other.

    Examples:
        >>> history = torch.tensor([[0, 1, 1], [0, 1, 2], [-1, -1, 1]])
        >>> memorized(history, torch.tensor([1, 1, 1]))
        tensor([ True, False,  True])
    """
    own = history == labels[:, None]
    # How often each visit's label occurs: a column for every visit, not for every class, of which there may be many.
    counts = torch.stack([(history == visit[:, None]).sum(1) for visit in history.T], 1)
    others = counts.masked_fill(own | (history == NONE), 0).amax(1)
    return own.sum(1) > others


def rate_from_areas(areas: Float[Tensor, " samples"]) -> float | None:
    """Return the noise rate, the mean probability that A belongs to the upper of two humps; None without two humps.

    Areas are scaled to [0, 1], where each hump has a variance of 5e-4 at least.

    Examples:
        >>> rate_from_areas(torch.cat([torch.linspace(1, 2, 60), torch.linspace(7, 8, 20)]))
        0.25
        >>> rate_from_areas(torch.ones(9))
    """
    scaled = unit_scaled(areas).double()
    mixture = fit_gaussian_mixture(scaled, floor=5e-4)
    return None if mixture is None else wrong_posterior(scaled, mixture, monotone=False).mean().item()
