"""How far a given label is believed before its sample has a say, and how predictions are held to the classes' shares.

Letters: ``g`` the head start of the given label in α, in nats; ``ρ`` the share of a class's samples whose labels went
to one other class; ``q`` the shares that the classes should have; ``π`` those they have in the network's predictions.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor


def max_label_logit(flipped: float) -> float:
    """Return log((1 - ρ) / ρ), 0 at least: the head start below which a network grows certain of the class.

    Let a share ρ of the samples of class A be labelled B, and all of them look alike. As long as α rests, the target of
    those with their own label is r_A = p e^g / (p e^g + 1 - p), of the others r_A = p / (p + (1 - p) e^g). Their mean
    (1 - ρ) r_A + ρ r_A' lies above p for every p in (0, 1) exactly if g < log((1 - ρ) / ρ).

    Examples:
        >>> round(max_label_logit(0.4), 2), max_label_logit(0.6)
        (0.41, 0.0)
    """
    return max(math.log((1 - flipped) / flipped), 0.0) if 0 < flipped < 1 else (0.0 if flipped >= 1 else math.inf)


def pull_of_alike(p: float, gap: float, flipped: float) -> float:
    """Return what the targets of look-alikes move a prediction p by: (1 - ρ) r + ρ r' - p; see ``max_label_logit``.

    Examples:
        >>> pull_of_alike(0.6, 0.2, 0.4) > 0, pull_of_alike(0.99, 1.58, 0.4) > 0
        (True, False)
    """
    with_own = p * math.exp(gap) / (p * math.exp(gap) + 1 - p)
    with_other = p / (p + (1 - p) * math.exp(gap))
    return (1 - flipped) * with_own + flipped * with_other - p


def earned_label_logit(right: Float[Tensor, " classes"], most: float) -> Float[Tensor, " classes"]:
    """Return log(R / (1 - R)), within [0, ``most``]: the head start that labels deserve of which a share R is right.

    It is ``max_label_logit`` in the worst case, in which all wrong ones belong to one other class.

    Examples:
        >>> earned_label_logit(torch.tensor([0.2, 0.5, 0.8]), 3.0)
        tensor([0.0000, 0.0000, 1.3863])
    """
    return torch.logit(right, eps=1e-6).clamp(0.0, most)


def decayed_label_logit(
    gap: float, progress: Float[Tensor, ""], begins: Float[Tensor, ""], lasts: float
) -> Float[Tensor, ""]:
    """Return ``gap`` up to the share ``begins`` of training, then less and less, and 0 from ``lasts`` later on.

    Examples:
        >>> progress = torch.tensor([0.0, 0.1, 0.25, 0.3, 1.0])
        >>> [round(decayed_label_logit(1.5, now, torch.tensor(0.1), 0.2).item(), 3) for now in progress]
        [1.5, 1.5, 0.375, 0.0, 0.0]
    """
    return gap * (1 - (progress - begins) / max(lasts, torch.finfo(torch.float32).tiny)).clamp(0.0, 1.0)


def align_prior(
    log_p: Float[Tensor, "batch classes"], prior: Float[Tensor, " classes"], shares: Float[Tensor, " classes"]
) -> Float[Tensor, "batch classes"]:
    """Return log(p q / π), up to a constant of each row: what is said of a sample if the classes had their shares.

    Examples:
        >>> align_prior(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2])).softmax(-1)
        tensor([[0.5000, 0.5000]])
    """
    return log_p + (prior.log() - shares.log())


def label_accuracy(
    p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], more: float = 10.0
) -> Float[Tensor, " classes"]:
    """Return R (c,): the mean of p_y over samples with the label y, as if ``more`` had been seen at the mean of all.

    Of samples that the network was not trained on: what it says of others it may know by heart. It errs downwards,
    as the network does not know everything.

    Examples:
        >>> p = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6]])
        >>> label_accuracy(p, torch.tensor([0, 0, 1]), more=0.0)
        tensor([0.7000, 0.6000])
    """
    believed = p.gather(1, labels[:, None])[:, 0]
    total = torch.zeros(p.shape[1], dtype=p.dtype, device=p.device).index_add_(0, labels, believed)
    return (total + more * believed.mean()) / (labels.bincount(minlength=p.shape[1]) + more)


def prior_of_correct_labels(
    labels: Int[Tensor, " samples"], right: Float[Tensor, " classes"], factor: float = 1.5
) -> Float[Tensor, " classes"]:
    """Return the ``shrunk_prior`` of right labels, G_y R_y of all: G_y is a label's share, R_y how many are right.

    With T the transition matrix, G_y R_y = q_y T_yy: where all classes lose labels alike and R is known these are the
    true shares, however rare a class is, and however many wrong labels hide that. Where some lose more, or the network
    knows some less well so that its R is too small, the factor takes that off.

    Examples:
        >>> labels = torch.tensor([0] * 600 + [1] * 400)  # 200 of class 1 among them, 60 % of each kept their labels
        >>> right = torch.tensor([480 / 600, 120 / 400])
        >>> prior_of_correct_labels(labels, right, factor=1.0)
        tensor([0.8000, 0.2000])
    """
    of_right = labels.bincount(minlength=len(right)).clamp_min(1).to(right) * right.clamp_min(1e-6)
    return shrunk_prior(of_right / of_right.sum(), factor)


def shrunk_prior(shares: Float[Tensor, " classes"], factor: float = 2.0) -> Float[Tensor, " classes"]:
    """Return shares as far as they differ from even ones by more than a factor, which is taken off.

    As long as most labels of a class are right, wrong ones can at most halve its share of the labels; what is smaller
    than half of an even share is small in truth.

    Examples:
        >>> shrunk_prior(torch.tensor([0.45, 0.35, 0.20]))
        tensor([0.3333, 0.3333, 0.3333])
        >>> shrunk_prior(torch.tensor([0.5, 0.49, 0.01]))
        tensor([0.4854, 0.4854, 0.0291])
    """
    ratio = (shares * len(shares)).clamp_min(torch.finfo(shares.dtype).tiny).log()
    return (ratio.sign() * (ratio.abs() - math.log(factor)).clamp_min(0)).softmax(-1)


def known_prior(shares: Sequence[float], classes: int) -> Float[Tensor, " classes"]:
    """Return shares that are given, of whatever sum, so that they sum to one.

    Examples:
        >>> known_prior([30.0, 10.0], 2)
        tensor([0.7500, 0.2500])
    """
    if len(shares) != classes or not all(0 < share < math.inf for share in shares):
        raise ValueError(f"prior must have a share above 0 for each of the {classes} classes, got {list(shares)}.")
    return torch.tensor(shares, dtype=torch.float32) / sum(shares)
