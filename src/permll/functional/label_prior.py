"""Label and class priors of PermLL+: prior log-odds of the given label, and alignment of predictions to a class prior.

Notation: ``g`` the label logit, the entry of α at the given label, in nats; ``R`` the fraction of correct labels of a
class; ``q`` the class prior; ``π`` the mean prediction of the network.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor


def earned_label_logit(accuracy: Float[Tensor, " classes"], max_logit: float) -> Float[Tensor, " classes"]:
    """Return log(R / (1 - R)), clipped to [0, ``max_logit``], the label logit for a fraction R of correct labels.

    It is the largest g at which predictions become certain if all wrong labels come from one other class; see
    docs/theory.md.

    Examples:
        >>> earned_label_logit(torch.tensor([0.2, 0.5, 0.8]), 3.0)
        tensor([0.0000, 0.0000, 1.3863])
    """
    return torch.logit(accuracy, eps=1e-6).clamp(0.0, max_logit)


def decayed_label_logit(
    label_logit: float, progress: Float[Tensor, ""], start: Float[Tensor, ""], duration: float
) -> Float[Tensor, ""]:
    """Return ``label_logit`` until ``progress`` reaches ``start``, then decay it linearly to 0 within ``duration``.

    Examples:
        >>> progress = torch.tensor([0.0, 0.1, 0.25, 0.3, 1.0])
        >>> [round(decayed_label_logit(1.5, now, torch.tensor(0.1), 0.2).item(), 3) for now in progress]
        [1.5, 1.5, 0.375, 0.0, 0.0]
    """
    return label_logit * (1 - (progress - start) / max(duration, torch.finfo(torch.float32).tiny)).clamp(0.0, 1.0)


def align_prior(
    log_p: Float[Tensor, "batch classes"], prior: Float[Tensor, " classes"], mean_prediction: Float[Tensor, " classes"]
) -> Float[Tensor, "batch classes"]:
    """Return log(p q / π) up to a constant per row: predictions adjusted to the class prior q.

    Examples:
        >>> mean_prediction = torch.tensor([0.8, 0.2])
        >>> align_prior(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([0.5, 0.5]), mean_prediction).softmax(-1)
        tensor([[0.5000, 0.5000]])
    """
    return log_p + (prior.log() - mean_prediction.log())


def label_accuracy(
    p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], pseudo_count: float = 10.0
) -> Float[Tensor, " classes"]:
    """Return R (c,), the mean of p_y over samples labeled y, shrunk to the overall mean by ``pseudo_count`` samples.

    Pass held-out samples, since labels of training samples may be memorized. R is biased downward, as the network is
    imperfect.

    Examples:
        >>> p = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6]])
        >>> label_accuracy(p, torch.tensor([0, 0, 1]), pseudo_count=0.0)
        tensor([0.7000, 0.6000])
    """
    p_y = p.gather(1, labels[:, None])[:, 0]
    total = torch.zeros(p.shape[1], dtype=p.dtype, device=p.device).index_add_(0, labels, p_y)
    return (total + pseudo_count * p_y.mean()) / (labels.bincount(minlength=p.shape[1]) + pseudo_count)


def prior_of_correct_labels(
    labels: Int[Tensor, " samples"], accuracy: Float[Tensor, " classes"], factor: float = 1.5
) -> Float[Tensor, " classes"]:
    """Return the ``shrunk_prior`` of correct labels, proportional to G_y R_y with G_y the frequency of label y.

    With T the transition matrix, G_y R_y = q_y T_yy. If all classes lose the same fraction of labels and R is exact,
    this is the true class prior, however rare a class is. The factor absorbs unequal losses, and an R that is too small
    for classes that are predicted poorly.

    Examples:
        >>> labels = torch.tensor([0] * 600 + [1] * 400)  # 200 samples are of class 1; 60 % of each kept their labels
        >>> accuracy = torch.tensor([480 / 600, 120 / 400])
        >>> prior_of_correct_labels(labels, accuracy, factor=1.0)
        tensor([0.8000, 0.2000])
    """
    correct = labels.bincount(minlength=len(accuracy)).clamp_min(1).to(accuracy) * accuracy.clamp_min(1e-6)
    return shrunk_prior(correct / correct.sum(), factor)


def shrunk_prior(prior: Float[Tensor, " classes"], factor: float = 2.0) -> Float[Tensor, " classes"]:
    """Shrink a class prior toward the uniform one: ratios to uniform within ``factor`` become 1, others move by it.

    While most labels of a class are correct, noise can at most halve its frequency, so only a class below half of the
    uniform frequency is certainly rare.

    Examples:
        >>> shrunk_prior(torch.tensor([0.45, 0.35, 0.20]))
        tensor([0.3333, 0.3333, 0.3333])
        >>> shrunk_prior(torch.tensor([0.5, 0.49, 0.01]))
        tensor([0.4854, 0.4854, 0.0291])
    """
    log_ratio = (prior * len(prior)).clamp_min(torch.finfo(prior.dtype).tiny).log()
    return (log_ratio.sign() * (log_ratio.abs() - math.log(factor)).clamp_min(0)).softmax(-1)


def normalize_prior(prior: Sequence[float], num_classes: int) -> Float[Tensor, " classes"]:
    """Validate a user-defined class prior and normalize it to sum to one.

    Examples:
        >>> normalize_prior([30.0, 10.0], 2)
        tensor([0.7500, 0.2500])
    """
    if len(prior) != num_classes or not all(0 < value < math.inf for value in prior):
        raise ValueError(
            f"prior must have one positive value for each of the {num_classes} classes, got {list(prior)}."
        )
    return torch.tensor(prior, dtype=torch.float32) / sum(prior)
