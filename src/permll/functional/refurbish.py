"""Labels that are made anew: by gradient (PENCIL), and from what the network said lately (joint optimisation).

Letters: ``y`` the given label, ``p = softmax(logits)``, ``c`` the number of classes; PENCIL's label logits ``ỹ`` and
label distribution ``d = softmax(ỹ)``.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def entropy(logits: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
    """Return H(p) = -Σ_k p_k log p_k; its gradient in logit k is -p_k (log p_k + H).

    Examples:
        >>> entropy(torch.zeros(1, 2))
        tensor([0.6931])
    """
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def divergence(
    logits: Float[Tensor, "batch classes"], others: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """Return KL(p || d), with d = softmax(others).

    Its gradient in the other logits is d - p, that in logit k is p_k (log p_k - log d_k - KL).

    Examples:
        >>> divergence(torch.zeros(1, 2), torch.tensor([[0.0, 50.0]]))
        tensor([24.3069])
    """
    log_p, log_d = logits.log_softmax(-1), others.log_softmax(-1)
    return (log_p.exp() * (log_p - log_d)).sum(-1)


# --- PENCIL --------------------------------------------------------------------------------------------------------


def label_compatibility(
    label_logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], *, softened: bool = True
) -> Float[Tensor, " batch"]:
    """Return how far the label distribution has left the given label.

    Softened, as the authors compute it, it is -log softmax(d)_y: softmax a second time, of numbers within [0, 1]. With
    g = softmax(d) - e_y the gradient in ỹ is then d (g - <d, g>), which fades as d grows certain. As the paper has it,
    it is -log d_y with the gradient d - e_y, which does not.

    Examples:
        >>> label_logits, labels = torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 0])
        >>> label_compatibility(label_logits, labels)
        tensor([0.3133, 1.3131])
        >>> label_compatibility(label_logits, labels, softened=False)
        tensor([1.2337e-04, 9.0001e+00])
    """
    return nn.functional.cross_entropy(label_logits.softmax(-1) if softened else label_logits, labels, reduction="none")


def pencil_loss(
    logits: Float[Tensor, "batch classes"],
    label_logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"],
    alpha: float,
    beta: float,
    *,
    softened: bool = True,
) -> Float[Tensor, " batch"]:
    """Return KL(p || d) / c + α compatibility(d, y) + β H(p) / c, which moves the network and the labels.

    Examples:
        >>> logits, labels = torch.zeros(1, 4), torch.tensor([1])
        >>> pencil_loss(logits, logits, labels, alpha=0.0, beta=4.0)
        tensor([1.3863])
    """
    classes = logits.shape[-1]
    compatibility = label_compatibility(label_logits, labels, softened=softened)
    return (divergence(logits, label_logits) + beta * entropy(logits)) / classes + alpha * compatibility


# --- Joint optimisation --------------------------------------------------------------------------------------------


def class_prior_divergence(
    logits: Float[Tensor, "batch classes"], prior: Float[Tensor, " classes"]
) -> Float[Tensor, ""]:
    """Return KL(prior || mean of p over the batch): it rises when a class is forgotten.

    The gradient in logit k of sample i is p_ik (<r, p_i> - r_k) / B, with r = prior / mean p.

    Examples:
        >>> class_prior_divergence(torch.tensor([[50.0, 0.0], [0.0, 50.0]]), torch.tensor([0.5, 0.5]))
        tensor(0.)
    """
    log_mean = logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
    return (torch.xlogy(prior, prior) - prior * log_mean).sum()
