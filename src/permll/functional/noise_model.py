"""Posterior of the true class given a sample and its label, from predictions and a model of the label noise.

With p the network's probabilities, τ a temperature, ε an error floor, and T[k, y] the probability that a sample of
class k is labeled y,

    r[k] ∝ q[k] T[k, y] exp(-b [k = y]),    q = (1 - ε) softmax(log p / τ) + ε / c.

τ and T are fitted to n held-out rows (``fit_noise_model``). n rows cannot bound the error rate of the network below
1 / (2n + 2), so that is the floor ε; without it a single confident error would count as a wrong label even in clean
data. The label bias b is for training rows, whose labels the network has partly memorized: it is chosen so that the
fraction of wrong labels is the same as in held-out rows (``fit_label_bias``). For held-out rows b is 0.

Noise between two similar classes and confusion of these classes by the network are not identifiable from noisy labels.
Automatic changes therefore use a conservative noise model (``conservative_noise_model``). It assumes that the network
is wrong, independent of its confidence, a quarter as often as its mean confidence implies, and then in favor of the
classes that it confuses: M[k] is added to q for rows with predicted class k (``confusion_prior``). T is fitted again,
so errors that M explains are not counted as noise, and the lower end of the rate's interval is used.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional.noise_rate import (
    fit_joint,
    fit_joint_from_probs,
    noise_rate_from_joint,
    smoothed_transition,
)

MAX_LABEL_BIAS = 20.0  # nats; labels with a larger bias are memorized and cannot be corrected for
CONSERVATIVE_FACTOR = 0.25  # of the errors that the network's confidence implies
SMOOTHING = 3.0  # of T; more than the default, since its entries decide on single labels
CHUNK_ROWS = 100_000  # rows per float64 chunk
_BIAS_BISECTIONS = 50


class NoiseModel(NamedTuple):
    """A model of the label noise and of the reliability of predictions.

    Args:
        transition: T (c, c), T[k, y] = P(label y | class k).
        temperature: τ.
        rate: estimated fraction of wrong labels.
        error: its standard error from sampling.
        error_floor: ε, the minimum probability that the network is wrong.
        confusion: M (c, c) of the conservative model; None for no confusion.
        joint: J (c, c), J[k, y] = P(class k, label y) as fitted; None for a model that was not fitted.
    """

    transition: Float[Tensor, "classes classes"]
    temperature: float
    rate: float
    error: float
    error_floor: float = 0.0
    confusion: Float[Tensor, "classes classes"] | None = None
    joint: Float[Tensor, "classes classes"] | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate, within [0, 1]."""
        return max(self.rate - 1.96 * self.error, 0.0), min(self.rate + 1.96 * self.error, 1.0)

    @property
    def shrunk_rate(self) -> float:
        """The rate shrunk by its error, rate - error² / rate, but at least a tenth of the error floor.

        A significant rate hardly changes, and an insignificant one becomes almost 0. It stays positive, so that correct
        labels still have an order.
        """
        return max(self.rate - self.error**2 / self.rate if self.rate > 0 else 0.0, self.error_floor / 10)


def fit_noise_model(log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> NoiseModel:
    """Fit the noise model to held-out rows by maximum likelihood; T has the ``shrunk_rate``.

    Examples:
        >>> log_p = (0.98 * torch.eye(2) + 0.01).log().repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> round(fit_noise_model(log_p, labels).rate, 2)
        0.1
    """
    fit = fit_joint(log_p, labels)
    transition = smoothed_transition(fit.joint, len(labels), SMOOTHING)
    rate, floor = noise_rate_from_joint(fit.joint), 1 / (2 * len(labels) + 2)
    model = NoiseModel(transition, fit.temperature, rate, fit.error, error_floor=floor, joint=fit.joint)
    return model._replace(transition=_with_rate(transition, model.rate, model.shrunk_rate))


def conservative_noise_model(
    noise_model: NoiseModel, log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> NoiseModel:
    """Return the noise model with the ``confusion_prior`` of the network and the lowest plausible noise rate.

    Args:
        noise_model: result of ``fit_noise_model``.
        log_p: predictions of the same held-out rows.
        labels: their given labels.

    Examples:
        >>> log_p = (0.98 * torch.eye(2) + 0.01).log().repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> round(conservative_noise_model(fit_noise_model(log_p, labels), log_p, labels).rate, 2)
        0.03
    """
    confused = noise_model._replace(confusion=confusion_prior(log_p, noise_model.temperature))
    probs = calibrated_class_probs(log_p, confused)
    joint = fit_joint_from_probs(probs, labels, noise_model.transition, SMOOTHING)
    rate = noise_rate_from_joint(joint)
    model = confused._replace(rate=max(rate - 1.96 * noise_model.error, 0.0), error=0.0)
    transition = smoothed_transition(joint, len(labels), SMOOTHING)
    return model._replace(transition=_with_rate(transition, rate, model.shrunk_rate))


def confusion_prior(log_p: Float[Tensor, "samples classes"], temperature: float) -> Float[Tensor, "classes classes"]:
    """Return M[k, j] = u/4 C[k, j], the assumed probability of class j for rows with predicted class k.

    u is the mean of 1 - max p, the error rate implied by the network's confidence. C[k] is the mean of p over rows with
    predicted class k, without k itself and normalized.

    Examples:
        >>> confusion_prior(torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]]).log(), 1.0)[0]
        tensor([0.0000, 0.0250, 0.0125], dtype=torch.float64)
    """
    p = (log_p.double() / temperature).softmax(-1)
    classes = p.shape[1]
    confusion = torch.zeros(classes, classes, dtype=p.dtype, device=p.device).index_add_(0, p.argmax(1), p)
    off_diagonal = 1 - torch.eye(classes).to(p)
    confusion = (confusion + torch.finfo(torch.float32).tiny) * off_diagonal  # uniform if a class is never predicted
    return CONSERVATIVE_FACTOR * (1 - p.amax(1)).mean() * confusion / confusion.sum(1, keepdim=True)


def _with_rate(transition: Tensor, rate: float, new_rate: float) -> Tensor:
    """Return T rescaled to a lower noise rate, or symmetric noise if ``new_rate`` is not lower."""
    classes = len(transition)
    identity = torch.eye(classes).to(transition)
    if rate > new_rate:
        noise = transition * (1 - identity) * (new_rate / rate)
    else:
        noise = new_rate / (classes - 1) * (1 - identity)
    return noise + torch.diag(1 - noise.sum(1))


def calibrated_class_probs(
    log_p: Float[Tensor, "samples classes"], noise_model: NoiseModel
) -> Float[Tensor, "samples classes"]:
    """Return q (N, c), in float64: class probabilities before the label is taken into account.

    Examples:
        >>> noise_model = NoiseModel(torch.eye(2), 1.0, 0.0, 0.0, error_floor=0.2)
        >>> calibrated_class_probs(torch.tensor([[0.0, 1.0]]).log(), noise_model)
        tensor([[0.1000, 0.9000]], dtype=torch.float64)
    """
    p = (log_p.double() / noise_model.temperature).softmax(-1)
    if noise_model.confusion is not None:
        confusion = noise_model.confusion[p.argmax(1)]
        p = (1 - confusion.sum(1, keepdim=True)) * p + confusion
    return (1 - noise_model.error_floor) * p + noise_model.error_floor / p.shape[1]


def label_posterior(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    noise_model: NoiseModel,
    label_bias: float = 0.0,
) -> Float[Tensor, "samples classes"]:
    """Return r (N, c), in float64.

    Args:
        log_p: log-probabilities or logits of the network.
        labels: given labels.
        noise_model: result of ``fit_noise_model`` or ``conservative_noise_model``.
        label_bias: b.

    Examples:
        >>> noise_model = NoiseModel(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), 1.0, 0.1, 0.0)
        >>> label_posterior(torch.tensor([[0.2, 0.8]]).log(), torch.tensor([0]), noise_model)  # 0.2 x 0.9 to 0.8 x 0.1
        tensor([[0.6923, 0.3077]], dtype=torch.float64)
    """
    tiny = torch.finfo(torch.float64).tiny
    q = calibrated_class_probs(log_p, noise_model)
    score = (q * noise_model.transition.double().T[labels]).clamp_min(tiny).log()
    score[torch.arange(len(labels)), labels] -= label_bias
    return score.softmax(-1)


def fit_label_bias(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    noise_model: NoiseModel,
    rate: float | None = None,
) -> float:
    """Return the label bias b in [0, ``MAX_LABEL_BIAS``] for which the mean of 1 - r[y] is the noise rate.

    Args:
        log_p: predictions of training rows.
        labels: their given labels.
        noise_model: fitted to held-out rows.
        rate: fraction of wrong labels; default the model's ``shrunk_rate``.

    Examples:
        >>> noise_model = NoiseModel(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), 1.0, 0.1, 0.0)
        >>> log_p, labels = torch.tensor([[0.9, 0.1]]).log().repeat(10, 1), torch.zeros(10, dtype=torch.int64)
        >>> b = fit_label_bias(log_p, labels, noise_model)
        >>> round(1 - label_posterior(log_p, labels, noise_model, b)[0, 0].item(), 4)
        0.1
    """
    rate = noise_model.shrunk_rate if rate is None else rate
    r = label_posterior(log_p, labels, noise_model)
    return _label_bias_for_rate(r.gather(1, labels[:, None])[:, 0], rate)


def _label_bias_for_rate(r_y: Tensor, rate: float) -> float:
    """Return the b in [0, ``MAX_LABEL_BIAS``] for which the mean of 1 - r_y is ``rate`` after subtracting b."""
    r_other = 1 - r_y
    low, high = 0.0, MAX_LABEL_BIAS
    for _ in range(_BIAS_BISECTIONS):  # not scipy.optimize.bisect: it needs a sign change, and rounds differently
        label_bias = (low + high) / 2
        wrong = (r_other / (r_other + r_y * math.exp(-label_bias))).mean().item()
        low, high = (label_bias, high) if wrong < rate else (low, label_bias)
    return low
