"""The posterior of the true class, given a sample and its label: of what a network predicts and how labels go wrong.

With p the network's probabilities, τ a temperature, ε the chance that the network is plainly mistaken, and T[k, y] the
probability that a sample of class k is given the label y,

    r[k] ∝ q[k] T[k, y] exp(-b [k = y]),    q = (1 - ε) softmax(log p / τ) + ε / c.

τ and T come from n rows whose labels the network has not seen (``fit_noise_model``). So few rows cannot show that it is
never mistaken, however sure it is of itself, hence ε = 1 / (2n + 2): without it a single sure mistake would pass for a
wrong label even where no label is wrong. The lean b is for rows it was trained on: there it leans to the given label,
which it has seen, and b takes back so much that as many labels are wrong among them as among the others
(``fit_label_bias``). For rows it was not trained on, b is 0.

A label that goes from one class to another that looks alike cannot be told from a network that mixes these two up, by
any number of rows whose labels are in doubt. Before a label is changed unseen, a sceptic is asked (``conservative_model``). He
takes the network to be mistaken, however sure it is, a quarter as often as it expects to be in the mean, and then for
the classes that it mixes up anyway: M[k] is added to q for a row whose most probable class is k (``mistakes``). What
these mistakes explain is no noise, so he finds T anew, and of its rate takes the lower end of the interval.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional.noise_rate import (
    ENOUGH,
    fit_likelihood,
    fit_temperature,
    guess_transition,
    joint_from_label_probs,
    joint_given,
    noise_rate_from_joint,
    smoothed_transition,
    subsample,
)

MOST_LEAN = 20.0  # nats: what leans further has been learned by heart, and taking that back would be guessing
CONSERVATIVE_FACTOR = 0.25  # times the mistakes that the network expects to make
CAUTION = 3.0  # see smoothed_transition: here entries of T decide on single labels, not on their number alone
MAY_LEAN = 2.0  # times the odds of labels it has not seen, before more is taken for learned by heart
TOO_SURE = 1.1  # times: how much surer a network is of rows it has not seen, too, than it should be
AT_ONCE = 100_000  # rows, where the doubles of all of them would not do
_HALVINGS = 50
_TO_MATCH = 24  # halvings of a range of logarithms: to a millionth


class NoiseModel(NamedTuple):
    """How labels go wrong on their way from the true class, and how far predictions are to be trusted.

    Args:
        transition: T (c, c), T[k, y] = P(label y | class k).
        temperature: τ.
        rate: the share of wrong labels, as estimated.
        error: its standard error, of the draw of rows alone.
        slip: ε, the chance that the network is mistaken whatever it says.
        mistakes: M (c, c), what a sceptic adds to the predictions; None for nothing.
    """

    transition: Float[Tensor, "classes classes"]
    temperature: float
    rate: float
    error: float
    error_floor: float = 0.0
    confusion: Float[Tensor, "classes classes"] | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The rate's 95 % interval, within [0, 1]."""
        return max(self.rate - 1.96 * self.error, 0.0), min(self.rate + 1.96 * self.error, 1.0)

    @property
    def cautious_rate(self) -> float:
        """What is left of the rate when its error is taken off: rate - error² / rate.

        Of a rate that stands out little is taken, and one that may as well be 0 becomes next to 0: where nothing is
        wrong, nothing is to be found. It is not 0, so that there is an order among labels that are right.
        """
        return max(self.rate - self.error**2 / self.rate if self.rate > 0 else 0.0, self.error_floor / 10)


def fit_noise_model(log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> NoiseModel:
    """Return the channel under which the labels of held-out rows are likeliest, T with its ``cautious_rate``.

    Examples:
        >>> log_p = (0.98 * torch.eye(2) + 0.01).log().repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> round(fit_noise_model(log_p, labels).rate, 2)
        0.1
    """
    fit = fit_likelihood(log_p, labels)
    transition = smoothed_transition(fit.joint, len(labels), CAUTION)
    found = NoiseModel(
        transition, fit.temperature, noise_rate_from_joint(fit.joint), fit.error, error_floor=1 / (2 * len(labels) + 2)
    )
    return found._replace(transition=_with_rate(transition, found.rate, found.cautious_rate))


def conservative_model(
    noise_model: NoiseModel, log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> NoiseModel:
    """Return the channel as a sceptic takes it: with mistakes of the network, and the least noise that can be beside.

    Args:
        channel: from ``fit_noise_model``.
        log_p: of the same held-out rows.
        labels: the same.

    Examples:
        >>> log_p = (0.98 * torch.eye(2) + 0.01).log().repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> round(conservative_model(fit_noise_model(log_p, labels), log_p, labels).rate, 2)
        0.03
    """
    mistaken = noise_model._replace(confusion=confusion(log_p, noise_model.temperature))
    joint = joint_given(believed(log_p, mistaken), labels, noise_model.transition, CAUTION)
    rate = noise_rate_from_joint(joint)
    least = mistaken._replace(rate=max(rate - 1.96 * noise_model.error, 0.0), error=0.0)
    transition = smoothed_transition(joint, len(labels), CAUTION)
    return least._replace(transition=_with_rate(transition, rate, least.cautious_rate))


def confusion(log_p: Float[Tensor, "samples classes"], temperature: float) -> Float[Tensor, "classes classes"]:
    """Return M[k, j] = u/4 C[k, j], what a sceptic takes for the chance of class j where the network is sure of k.

    u is the mean of 1 - max p, the share of rows that the network expects to be wrong about, and C[k] the mean of p
    over rows whose most probable class is k, without k itself, so that it sums to one.

    Examples:
        >>> confusion(torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]]).log(), 1.0)[0]
        tensor([0.0000, 0.0250, 0.0125], dtype=torch.float64)
    """
    p = (log_p.double() / temperature).softmax(-1)
    classes = p.shape[1]
    mixed = torch.zeros(classes, classes, dtype=p.dtype, device=p.device).index_add_(0, p.argmax(1), p)
    others = 1 - torch.eye(classes).to(p)
    mixed = (mixed + torch.finfo(torch.float32).tiny) * others  # of a class that is never predicted: all alike
    return CONSERVATIVE_FACTOR * (1 - p.amax(1)).mean() * mixed / mixed.sum(1, keepdim=True)


def _with_rate(transition: Tensor, rate: float, wanted: float) -> Tensor:
    """Return T with another noise rate: of the same form if there is any noise to tell one, symmetric otherwise."""
    classes = len(transition)
    right = torch.eye(classes).to(transition)
    wrong = transition * (1 - right) * (wanted / rate) if rate > wanted else wanted / (classes - 1) * (1 - right)
    return wrong + torch.diag(1 - wrong.sum(1))


def believed(log_p: Float[Tensor, "samples classes"], noise_model: NoiseModel) -> Float[Tensor, "samples classes"]:
    """Return q (N, c), in float64: what is to be believed of the classes before a label is seen.

    Examples:
        >>> noise_model = NoiseModel(torch.eye(2), 1.0, 0.0, 0.0, error_floor=0.2)
        >>> believed(torch.tensor([[0.0, 1.0]]).log(), noise_model)
        tensor([[0.1000, 0.9000]], dtype=torch.float64)
    """
    p = (log_p.double() / noise_model.temperature).softmax(-1)
    if noise_model.confusion is not None:
        mistaken = noise_model.confusion[p.argmax(1)]
        p = (1 - mistaken.sum(1, keepdim=True)) * p + mistaken
    return (1 - noise_model.error_floor) * p + noise_model.error_floor / p.shape[1]


def label_posterior(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    noise_model: NoiseModel,
    label_bias: float = 0.0,
) -> Float[Tensor, "samples classes"]:
    """Return r (N, c), in float64.

    Args:
        log_p: logarithms of the network's probabilities, or logits.
        labels: as given.
        channel: from ``fit_noise_model``, or what ``conservative_model`` leaves of it.
        lean: b.

    Examples:
        >>> noise_model = NoiseModel(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), 1.0, 0.1, 0.0)
        >>> label_posterior(torch.tensor([[0.2, 0.8]]).log(), torch.tensor([0]), noise_model)  # 0.2 x 0.9 to 0.8 x 0.1
        tensor([[0.6923, 0.3077]], dtype=torch.float64)
    """
    tiny = torch.finfo(torch.float64).tiny
    q = believed(log_p, noise_model)
    score = (q * noise_model.transition.double().T[labels]).clamp_min(tiny).log()
    score[torch.arange(len(labels)), labels] -= label_bias
    return score.softmax(-1)


def fit_label_bias(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    noise_model: NoiseModel,
    rate: float | None = None,
) -> float:
    """Return the lean b in [0, ``MOST_LEAN``] with which the mean of 1 - r[y] is the noise rate.

    Args:
        log_p: of rows the network was trained on.
        labels: as given.
        channel: of rows it was not trained on.
        rate: the share of wrong labels; default the channel's ``cautious_rate``.

    Examples:
        >>> noise_model = NoiseModel(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), 1.0, 0.1, 0.0)
        >>> log_p, labels = torch.tensor([[0.9, 0.1]]).log().repeat(10, 1), torch.zeros(10, dtype=torch.int64)
        >>> b = fit_label_bias(log_p, labels, noise_model)
        >>> round(1 - label_posterior(log_p, labels, noise_model, b)[0, 0].item(), 4)
        0.1
    """
    wanted = noise_model.cautious_rate if rate is None else rate
    r = label_posterior(log_p, labels, noise_model)
    return _label_bias_for(r.gather(1, labels[:, None])[:, 0], wanted)


def excess_label_bias(believed: Float[Tensor, " samples"], others: Float[Tensor, " others"], times: float) -> float:
    """Return how much further, in nats, a network leans to labels it has seen than it may; 0 if it does not.

    That is the b, ``MOST_LEAN`` at most, with which the mean of p_y e^-b / (p_y e^-b + 1 - p_y) has ``times`` the odds
    that the mean of p_y has over samples it has not seen.

    Args:
        believed: p_y of samples it was trained on.
        others: p_y of samples it was not trained on, with labels as noisy.
        times: the odds that it may lean by.

    Examples:
        >>> excess_label_bias(torch.full((5,), 0.6), torch.full((5,), 0.5), 1.5)  # odds of 1.5 to 1
        0.0
        >>> round(excess_label_bias(torch.full((5,), 0.75), torch.full((5,), 0.5), 1.5), 4)  # of 3 to 1: log 2 too much
        0.6931
    """
    right = others.double().mean().clamp(1e-6, 1 - 1e-6).item()
    p_y = believed.double()
    wrong = (1 - right) / (1 - right + times * right)
    return 0.0 if (1 - p_y).mean().item() >= wrong * (1 - 1e-6) else _label_bias_for(p_y, wrong)


def _label_bias_for(r_y: Tensor, wrong: float) -> float:
    """Return the b in [0, ``MOST_LEAN``] with which the mean of 1 - r_y, once b is taken off, is ``wrong``."""
    others = 1 - r_y
    low, high = 0.0, MOST_LEAN
    for _ in range(_HALVINGS):
        label_bias = (low + high) / 2
        found = (others / (others + r_y * math.exp(-label_bias))).mean().item()
        low, high = (label_bias, high) if found < wrong else (low, label_bias)
    return low


class HeldOut(NamedTuple):
    """Rows that the network was not trained on: logits (n, c), and labels as given (n,)."""

    logits: Float[Tensor, "others classes"]
    labels: Int[Tensor, " others"]


def train_label_posterior(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], others: HeldOut | None = None
) -> Float[Tensor, "samples classes"]:
    """Return r (N, c), in float32, for rows that the network was trained on with targets that hold their labels.

    r[k] ∝ q[k] T[k, y], q = softmax(z / τ). Of the logits of given labels so much is taken that the network leans no
    further to labels it has seen than it may (``excess_label_bias``). It is surer of rows it was trained on, too: τ makes it
    as sure of them as of others (``match_confidence``), which it is a little too sure of as well, hence a tenth more;
    and surer if the labels of those would be likelier then, where there is a row of them for each pair of classes: with
    fewer, any sure prediction finds a T to go with it. T is the one that makes ``labels`` likeliest, as in
    ``fit_noise_model``. Without others nothing is taken, τ is 1, and T the joint distribution of q and labels: one step
    towards the likeliest, since with all of them what is known by heart would pass for right.

    Args:
        logits: z (N, c).
        labels: as given.
        others: that the network was not trained on, with labels as noisy as these.

    Examples:
        >>> logits = torch.tensor([[3.0, 0.0]] * 8 + [[0.0, 3.0]] * 8)
        >>> labels = torch.tensor([0] * 8 + [1] * 7 + [0])
        >>> train_label_posterior(logits, labels).argmax(1)[-1]
        tensor(1)
    """
    if others is None or len(others.labels) == 0:
        temperature, label_bias = 1.0, 0.0
        joint = joint_from_label_probs(logits.softmax(-1), labels)
    else:
        some, given = subsample(logits, labels)
        seen, unseen = (z.double().softmax(-1).gather(1, y[:, None])[:, 0] for z, y in ((some, given), others))
        label_bias = excess_label_bias(seen, unseen, MAY_LEAN)
        some = some.scatter_add(1, given[:, None], torch.full_like(some[:, :1], -label_bias))
        one_for_each_pair = min(len(others.labels), ENOUGH) >= logits.shape[1] ** 2
        surer = min(fit_temperature(*others), 1.0) if one_for_each_pair else 1.0
        temperature = TOO_SURE * match_confidence(some, others.logits) * surer
        start = guess_transition(logits.shape[1]).to(logits.device)
        joint = joint_given((some.double() / temperature).softmax(-1), given, start)
    noise_model = NoiseModel(
        smoothed_transition(joint, len(labels)), temperature, noise_rate_from_joint(joint), error=0.0
    )
    parts = zip(logits.split(AT_ONCE), labels.split(AT_ONCE), strict=True)
    return torch.cat([label_posterior(rows, own, noise_model, label_bias / temperature).float() for rows, own in parts])


def match_confidence(logits: Float[Tensor, "samples classes"], others: Float[Tensor, "others classes"]) -> float:
    """Return the τ in [1/8, 8] for which the mean of max softmax(z / τ) is that of max softmax(z) over other rows.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
        >>> round(match_confidence(logits, logits / 3), 4)
        3.0
    """
    wanted = others.double().softmax(-1).amax(-1).mean()
    behind = logits.float() - logits.float().amax(-1, keepdim=True)  # max softmax(z / τ) is 1 / Σ exp(behind / τ)
    low, high = -math.log(8), math.log(8)
    for _ in range(_TO_MATCH):
        middle = (low + high) / 2
        sure = (behind / math.exp(middle)).exp().sum(-1).reciprocal().double().mean()
        low, high = (middle, high) if bool(sure > wanted) else (low, middle)
    return math.exp((low + high) / 2)
