"""MORPH: memorized samples from the prediction history, and the noise rate from areas under loss curves.

Notation: ``H`` the predicted labels of a sample at its last q visits (-1: no prediction yet); ``A`` the sum of its
losses over all epochs so far, the area under its loss curve.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from permll.functional._shapes import Labels, Mask, PerSample
from permll.functional.mixture import fit_gaussian_mixture, min_max_scale, mislabeled_posterior

NO_PREDICTION = -1


def update_prediction_history(history: Int[Tensor, "batch visits"], predicted: Labels) -> Int[Tensor, "batch visits"]:
    """Append the newest predictions to H and drop the oldest.

    Examples:
        >>> update_prediction_history(torch.tensor([[-1, 4, 2]]), torch.tensor([7]))
        tensor([[4, 2, 7]])
    """
    return torch.cat([history[:, 1:], predicted[:, None].to(history)], 1)


def is_memorized(history: Int[Tensor, "batch visits"], labels: Labels) -> Mask:
    """Return whether the given label was predicted more often than any other label.

    Examples:
        >>> history = torch.tensor([[0, 1, 1], [0, 1, 2], [-1, -1, 1]])
        >>> is_memorized(history, torch.tensor([1, 1, 1]))
        tensor([ True, False,  True])
    """
    is_label = history == labels[:, None]
    # Frequency of each visit's prediction: one column per visit, since there may be many classes.
    counts = torch.stack([(history == visit[:, None]).sum(1) for visit in history.T], 1)
    other_counts = counts.masked_fill(is_label | (history == NO_PREDICTION), 0).amax(1)
    return is_label.sum(1) > other_counts


def noise_rate_from_loss_areas(areas: PerSample) -> float | None:
    """Return the noise rate, the mean posterior of the upper component of a Gaussian mixture; None if none is fitted.

    Areas are scaled to [0, 1], and 5e-4 is added to the variances.

    Examples:
        >>> noise_rate_from_loss_areas(torch.cat([torch.linspace(1, 2, 60), torch.linspace(7, 8, 20)]))
        0.25
        >>> noise_rate_from_loss_areas(torch.ones(9))
    """
    scaled = min_max_scale(areas).double()
    mixture = fit_gaussian_mixture(scaled, reg_covar=5e-4)
    return None if mixture is None else mislabeled_posterior(scaled, mixture, monotone=False).mean().item()
