"""Negative learning: losses on complementary labels, classes that a sample does not belong to.

Notation: ``z`` the logits, ``p = softmax(z)``, ``y`` the given label, ``ȳ`` a complementary label (any class except y),
``c`` the number of classes. Under symmetric noise of rate r the label y is wrong with probability r, the complementary
label ȳ only with r / (c - 1). Gradients are in z.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional._shapes import Labels, Logits, Mask, PerSample, Rows


def complementary_labels(
    labels: Labels, uniform: Float[Tensor, "batch draws"], num_classes: int
) -> Int[Tensor, "batch draws"]:
    """Return complementary labels from uniform numbers in [0, 1); every class except y is equally probable.

    Examples:
        >>> complementary_labels(torch.tensor([2]), torch.tensor([[0.0, 0.3, 0.6, 0.9]]), 4)
        tensor([[3, 3, 0, 1]])
    """
    return (labels[:, None] + 1 + (uniform * (num_classes - 1)).long()) % num_classes


def log_complement(logits: Logits) -> Rows:
    """Return log(1 - p_k) for every class, without cancellation where p_k is close to 1.

    Examples:
        >>> log_complement(torch.tensor([[50.0, 0.0]]))
        tensor([[-5.0000e+01, -1.9287e-22]])
    """
    log_p = logits.log_softmax(-1)
    top = log_p.argmax(-1, keepdim=True)  # only this probability can exceed 1/2; its complement is the sum of the rest
    rest = log_p.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)
    return (-log_p.exp().scatter(-1, top, 0.0)).log1p().scatter(-1, top, rest)


def negative_learning_loss(logits: Logits, complementary: Int[Tensor, "batch draws"]) -> PerSample:
    """Return -Σ log(1 - p_ȳ) over the complementary labels of each sample (NLNL).

    The gradient of a term is p_ȳ at ȳ and -p_ȳ p_k / (1 - p_ȳ) at the other classes.

    Examples:
        >>> negative_learning_loss(torch.zeros(1, 2), torch.tensor([[0, 1]]))
        tensor([1.3863])
    """
    return -log_complement(logits).gather(-1, complementary).sum(-1)


def negative_learning_plus_loss(logits: Logits, complementary: Int[Tensor, "batch draws"]) -> PerSample:
    """Return NL+ of JNPL: -Σ (1 - p_ȳ) log(1 - p_ȳ) with the factor detached.

    The gradient of a term is p_ȳ (1 - p_ȳ) at ȳ and -p_ȳ p_k at the other classes. It vanishes where the network is
    certain of the complementary label, since then the given label is more likely wrong. Averaged over all ȳ it is
    p_y (p - e_y) / (c - 1), the gradient of the absolute error 1 - p_y, so a class that is no longer predicted for its
    samples is hardly learned again.

    Examples:
        >>> negative_learning_plus_loss(torch.zeros(1, 2), torch.tensor([[0, 1]]))
        tensor([0.6931])
    """
    log_not = log_complement(logits).gather(-1, complementary)
    return -(log_not.detach().exp() * log_not).sum(-1)


def positive_learning_plus_loss(logits: Logits, doublings: int = 3) -> PerSample:
    """Return PL+ of JNPL: -Π_n (1 + p^(2^n)) log p, n = 0..``doublings``, p the largest probability, product detached.

    The product is (1 - p^m) / (1 - p) with m = 2^(doublings + 1), so the gradient at the predicted class is -(1 - p^m),
    which stays near -1 until p is close to 1.

    Examples:
        >>> positive_learning_plus_loss(torch.zeros(1, 2), doublings=0) / torch.tensor(2.0).log()
        tensor([1.5000])
    """
    log_p = logits.log_softmax(-1).max(-1).values
    powers = [(2**n * log_p.detach()).exp() for n in range(doublings + 1)]
    return -(1 + torch.stack(powers)).prod(0) * log_p


def only_top_above_chance(logits: Logits) -> Mask:
    """Return whether every class except the predicted one has a probability below 1/c.

    Examples:
        >>> only_top_above_chance(torch.tensor([[0.6, 0.2, 0.2], [0.6, 0.35, 0.05]]).log())
        tensor([ True, False])
    """
    return logits.softmax(-1).topk(2).values[:, 1] < 1 / logits.shape[-1]
