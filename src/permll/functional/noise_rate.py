"""Estimators of the noise rate and the noise distribution from predictions and given labels, without clean labels.

Estimators return the joint distribution ``J[i, j] = P(clean class i, given label j)`` (c, c) in float64. The noise rate
is ``1 - trace J``, and the transition matrix ``T[i, j]`` is J with rows normalized to sum to one.

- ``joint_from_label_probs``: from class probabilities per sample, such as corrected labels or averaged predictions.
- ``fit_joint``: the transition matrix that maximizes the likelihood of the given labels, if predictions are calibrated
  up to a temperature. Unbiased for held-out rows only; close for training rows as long as no label is memorized.
- ``noise_rate_from_mixture``: weight of the upper component of a mixture of losses; a rate only.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from permll.functional.mixture import fit_gaussian_mixture, mislabeled_posterior
from permll.utils.indexing import subsample_rows

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-8, 13))  # 1/4 to 8
MAX_EM_STEPS = 100
WARM_TOLERANCE = 1e-4  # nats per label; smaller differences do not separate epochs
CHUNK_ROWS = 50_000  # converted to float64 at a time
MAX_ROWS = 20_000  # determine a rate to half a percent; more rows only take longer


def estimate_noise_rate(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the fraction of wrong labels by ``fit_joint``.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:20] = 1 - labels[:20]
        >>> round(estimate_noise_rate(logits, labels), 2)
        0.2
    """
    return noise_rate_from_joint(fit_joint(logits, labels).joint)


def conservative_noise_rate(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the lower of ``estimate_noise_rate`` and ``noise_rate_from_mixture``, for methods that drop samples.

    The likelihood counts errors of an undertrained network as noise, and dropping more samples makes them more
    frequent. The losses of such a network do not separate into two components, so the mixture gives a lower rate. For a
    well trained network the mixture gives a rate that is too high.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:20] = 1 - labels[:20]
        >>> round(conservative_noise_rate(logits, labels), 2)
        0.2
    """
    return min(estimate_noise_rate(logits, labels), noise_rate_from_mixture(logits, labels))


def noise_rate_from_joint(joint: Float[Tensor, "classes classes"]) -> float:
    """Return 1 - trace J, clipped to [0, 1].

    Examples:
        >>> noise_rate_from_joint(torch.tensor([[0.4, 0.1], [0.0, 0.5]]))
        0.1...
    """
    return min(max(1 - joint.trace().item(), 0.0), 1.0)


def transition_from_joint(joint: Float[Tensor, "classes classes"]) -> Float[Tensor, "classes classes"]:
    """Return T[i, j] = J[i, j] / Σ_k J[i, k]; the row of a class that does not occur is that of the identity.

    Examples:
        >>> transition_from_joint(torch.tensor([[0.3, 0.1, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 0.0]]))
        tensor([[0.7500, 0.2500, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    prior = joint.sum(1, keepdim=True)
    return torch.where(
        prior > 0, joint / prior.clamp_min(torch.finfo(joint.dtype).tiny), torch.eye(len(joint)).to(joint)
    )


def subsample(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> tuple[Float[Tensor, "some classes"], Int[Tensor, " some"]]:
    """Return at most ``MAX_ROWS`` rows; see ``subsample_rows``.

    Examples:
        >>> logits, labels = subsample(torch.zeros(3 * MAX_ROWS, 3), torch.arange(3 * MAX_ROWS) % 3)
        >>> len(logits) == MAX_ROWS, labels.bincount().min().item() > 0.3 * MAX_ROWS
        (True, True)
    """
    if len(labels) <= MAX_ROWS:
        return logits, labels
    rows = subsample_rows(len(labels), MAX_ROWS).to(labels.device)
    return logits[rows], labels[rows]


def joint_from_label_probs(
    label_probs: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> Float[Tensor, "classes classes"]:
    """Return J[i, j] = 1/N Σ_{n: y_n = j} q_n[i], with q_n the probabilities of the clean class of sample n.

    Examples:
        >>> joint_from_label_probs(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([0, 1]))
        tensor([[0.5000, 0.2500],
                [0.0000, 0.2500]], dtype=torch.float64)
    """
    joint = label_probs.new_zeros(label_probs.shape[1], label_probs.shape[1], dtype=torch.float64)
    for q, y in zip(label_probs.split(CHUNK_ROWS), labels.split(CHUNK_ROWS), strict=True):
        joint.index_add_(0, y, q.double())
    return joint.T / len(labels)


def noise_rate_from_mixture(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the mean posterior of the upper component of a Gaussian mixture of the losses -log p_y.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1) + 0.1 * torch.randn(100, 2)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:20] = 1 - labels[:20]
        >>> round(noise_rate_from_mixture(logits, labels), 2)
        0.2
    """
    losses = nn.functional.cross_entropy(logits.double(), labels, reduction="none")
    mixture = fit_gaussian_mixture(losses)
    return 0.0 if mixture is None else mislabeled_posterior(losses, mixture).mean().item()


def smoothed_transition(
    joint: Float[Tensor, "classes classes"], samples: int, smoothing: float = 1.0
) -> Float[Tensor, "classes classes"]:
    """Return T smoothed by ``smoothing`` c pseudo-samples per class with symmetric noise of the overall rate.

    T[i, j] ∝ N J[i, j] + smoothing c S[i, j], S being symmetric noise of rate 1 - trace J. Without smoothing, c² free
    entries would fit errors of the network as noise if there are few samples per entry.

    Examples:
        >>> joint = torch.tensor([[0.4, 0.1], [0.0, 0.5]])
        >>> smoothed_transition(joint, 10)
        tensor([[0.8286, 0.1714],
                [0.0286, 0.9714]])
    """
    classes, rate = len(joint), 1 - joint.trace()
    off_diagonal = smoothing * classes * rate / max(classes - 1, 1)
    counts = samples * joint + off_diagonal
    counts.diagonal().add_(smoothing * classes * (1 - rate) - off_diagonal)
    return counts / counts.sum(1, keepdim=True)


class JointFit(NamedTuple):
    """Result of ``fit_joint``."""

    joint: Float[Tensor, "classes classes"]
    temperature: float


def fit_joint(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], *, smoothing: float = 1.0
) -> JointFit:
    """Return the joint distribution for the T and the temperature τ that maximize Σ_n log Σ_i p_n[i] T[i, y_n].

    Here p_n = softmax(z_n / τ), of the logits z_n. Confidence separates noise from errors of the network: noise is
    equally frequent at all confidences. EM finds T for each τ: with r_n[i] ∝ p_n[i] T[i, y_n],
    J[i, j] = 1/N Σ_{n: y_n = j} r_n[i], and T is the ``smoothed_transition`` of J. With few samples per pair of classes
    the rate is biased upward by some points.

    Args:
        logits: (N, c) network outputs, best of held-out rows.
        labels: (N,) given labels.
        smoothing: see ``smoothed_transition``; 0 for the maximum likelihood estimate.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> round(noise_rate_from_joint(fit_joint(logits, labels).joint), 2)
        0.1
    """
    logits, labels = subsample(logits, labels)
    start = initial_transition(logits.shape[1]).to(logits.device)
    fits: dict[int, tuple[float, Tensor]] = {}
    candidates: Iterable[int] = range(0, len(TEMPERATURES), 4)
    for distance in (2, 1, 0):  # coarse to fine
        for i in set(candidates) - set(fits):
            fits[i] = _run_em(logits.double() / TEMPERATURES[i], labels, start, smoothing)
        best = max(fits, key=lambda i: fits[i][0])
        candidates = {best - distance, best + distance} & set(range(len(TEMPERATURES)))
    return JointFit(fits[best][1], TEMPERATURES[best])


def initial_transition(classes: int) -> Float[Tensor, "classes classes"]:
    """Return the start of EM: symmetric noise of moderate rate.

    Examples:
        >>> initial_transition(3)[0]
        tensor([0.8000, 0.1000, 0.1000], dtype=torch.float64)
    """
    return 0.3 / classes + 0.7 * torch.eye(classes, dtype=torch.float64)


class WarmFit(NamedTuple):
    """Result of ``warm_fit``."""

    likelihood: float  # mean log-likelihood of a label
    transition: Float[Tensor, "classes classes"]
    temperature_index: int  # in TEMPERATURES


def warm_fit(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], previous: WarmFit | None = None
) -> WarmFit:
    """Return the maximum of ``fit_joint`` to a coarse tolerance, to compare the predictions of epochs.

    Args:
        logits: outputs for held-out rows.
        labels: given labels.
        previous: result of the previous epoch as a warm start, which reduces the time to milliseconds.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> accurate, uniform = 4 * torch.eye(2).repeat(50, 1), torch.zeros(100, 2)
        >>> warm_fit(accurate, labels).likelihood > warm_fit(uniform, labels).likelihood
        True
    """
    logits, labels = subsample(logits, labels)
    last = len(TEMPERATURES) - 1
    if previous is None:
        start, candidates = initial_transition(logits.shape[1]).to(logits.device), set(range(0, len(TEMPERATURES), 4))
    else:
        at = previous.temperature_index
        start, candidates = previous.transition, {max(at - 2, 0), at, min(at + 2, last)}
    fits = {i: _run_em(logits.double() / TEMPERATURES[i], labels, start, 1.0, WARM_TOLERANCE) for i in candidates}
    best = max(fits, key=lambda i: fits[i][0])
    likelihood, joint = fits[best]
    return WarmFit(likelihood, smoothed_transition(joint, len(labels)), best)


def _run_em(
    logits: Tensor, labels: Tensor, T: Tensor, smoothing: float, tolerance: float = 1e-7
) -> tuple[float, Tensor]:
    """Return the mean log-likelihood and the joint distribution of EM from T."""
    p = logits.softmax(-1)
    joint, likelihood = T, -torch.inf
    for _ in range(MAX_EM_STEPS):
        r = T.T[labels].mul_(p)  # in place, like the division: allocating N x c numbers takes as long as the rest
        total = r.sum(1).clamp_min(torch.finfo(p.dtype).tiny)
        previous, likelihood = likelihood, total.log().mean().item()
        joint = joint_from_label_probs(r.div_(total[:, None]), labels)
        T = smoothed_transition(joint, len(labels), smoothing)
        if abs(likelihood - previous) < tolerance:
            break
    return likelihood, joint
