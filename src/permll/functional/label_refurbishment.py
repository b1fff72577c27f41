"""Label refurbishment: losses of methods that learn or replace labels (PENCIL, joint optimization).

Notation: ``y`` the given label, ``p = softmax(logits)``, ``c`` the number of classes; PENCIL's label logits ``ỹ`` and
label distribution ``d = softmax(ỹ)``.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from permll.functional._shapes import Labels, Logits, PerSample


def softmax_entropy(logits: Logits) -> PerSample:
    """Return H(p) = -Σ_k p_k log p_k; its gradient in logit k is -p_k (log p_k + H).

    Examples:
        >>> softmax_entropy(torch.zeros(1, 2))
        tensor([0.6931])
    """
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def kl_divergence(logits: Logits, other_logits: Logits) -> PerSample:
    """Return KL(p || d), with d = softmax(other_logits).

    Its gradient in the other logits is d - p, in logit k it is p_k (log p_k - log d_k - KL).

    Examples:
        >>> kl_divergence(torch.zeros(1, 2), torch.tensor([[0.0, 50.0]]))
        tensor([24.3069])
    """
    log_p, log_d = logits.log_softmax(-1), other_logits.log_softmax(-1)
    return nn.functional.kl_div(log_d, log_p, reduction="none", log_target=True).sum(-1)


# --- PENCIL ---------------------------------------------------------------------------------------------------------


def pencil_compatibility_loss(label_logits: Logits, labels: Labels, *, softened: bool = True) -> PerSample:
    """Return the cross-entropy between the given label and PENCIL's label distribution.

    Softened, as in the authors' code, it is -log softmax(d)_y, with a second softmax of numbers in [0, 1]. With g =
    softmax(d) - e_y its gradient in ỹ is d (g - <d, g>), which vanishes as d becomes certain. As in the paper, it is
    -log d_y with the gradient d - e_y, which does not vanish.

    Examples:
        >>> label_logits, labels = torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 0])
        >>> pencil_compatibility_loss(label_logits, labels)
        tensor([0.3133, 1.3131])
        >>> pencil_compatibility_loss(label_logits, labels, softened=False)
        tensor([1.2337e-04, 9.0001e+00])
    """
    return nn.functional.cross_entropy(label_logits.softmax(-1) if softened else label_logits, labels, reduction="none")


def pencil_loss(
    logits: Logits, label_logits: Logits, labels: Labels, alpha: float, beta: float, *, softened: bool = True
) -> PerSample:
    """Return KL(p || d) / c + α compatibility(d, y) + β H(p) / c, the loss of the network and of the label logits.

    Examples:
        >>> logits, labels = torch.zeros(1, 4), torch.tensor([1])
        >>> pencil_loss(logits, logits, labels, alpha=0.0, beta=4.0)
        tensor([1.3863])
    """
    classes = logits.shape[-1]
    compatibility = pencil_compatibility_loss(label_logits, labels, softened=softened)
    return (kl_divergence(logits, label_logits) + beta * softmax_entropy(logits)) / classes + alpha * compatibility


# --- Joint optimization ---------------------------------------------------------------------------------------------


def class_prior_divergence(logits: Logits, prior: Float[Tensor, " classes"]) -> Float[Tensor, ""]:
    """Return KL(prior || mean of p over the batch), which penalizes classes that are never predicted.

    The gradient in logit k of sample i is p_ik (<r, p_i> - r_k) / B, with r = prior / mean p.

    Examples:
        >>> class_prior_divergence(torch.tensor([[50.0, 0.0], [0.0, 50.0]]), torch.tensor([0.5, 0.5]))
        tensor(0.)
    """
    log_mean = logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
    return (torch.xlogy(prior, prior) - prior * log_mean).sum()
