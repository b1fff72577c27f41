"""How many labels are wrong, and which class is given in whose place: told without a single clean label.

Each estimator returns the joint distribution ``J[i, j] = P(clean class i, given label j)`` (c, c) of the rows it was
shown, in float64. From it follow the noise rate ``1 - trace J`` and the transition matrix ``T[i, j]``, J with rows that
sum to one.

- ``joint_from_label_probs``: what a method believes the labels to be, such as PermLL's a or a memory of predictions.
- ``joint_by_likelihood``: the transition matrix under which the given labels are likeliest, if the network's
  predictions are right up to a temperature. Fair only to rows whose labels the network was not trained on; close to it
  for others as long as it has learned none by heart.
- ``noise_rate_from_mixture``: the share of the upper hump of the losses; a rate alone.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from permll.functional.mixture import fit_gaussian_mixture, wrong_posterior
from permll.functional.subsample import subsample_rows

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-8, 13))  # a quarter to eight
STEPS = 100  # of EM
ROUGHLY = 1e-4  # nats a label: less does not tell one epoch from another
ENOUGH = 20_000  # rows tell a rate to half a per cent; more would only take longer


def noise_rate(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the share of wrong labels, by ``joint_by_likelihood``.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:20] = 1 - labels[:20]
        >>> round(noise_rate(logits, labels), 2)
        0.2
    """
    return noise_rate_from_joint(joint_by_likelihood(logits, labels))


def least_noise_rate(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the lower of ``noise_rate`` and ``noise_rate_from_mixture``, for a method that leaves out so many labels.

    What a network does not know yet passes for noise in the likelihood, and the less it is given to learn from, the
    less it knows: on the way down both would call ever more labels wrong. The losses of such a network do not fall into
    two humps, and speak against it. Those of a network that knows do, with more in the upper one than are wrong.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:20] = 1 - labels[:20]
        >>> round(least_noise_rate(logits, labels), 2)
        0.2
    """
    return min(noise_rate(logits, labels), noise_rate_from_mixture(logits, labels))


def noise_rate_from_joint(joint: Float[Tensor, "classes classes"]) -> float:
    """Return 1 - trace J, kept within [0, 1].

    Examples:
        >>> noise_rate_from_joint(torch.tensor([[0.4, 0.1], [0.0, 0.5]]))
        0.1...
    """
    return min(max(1 - joint.trace().item(), 0.0), 1.0)


def transition_of(joint: Float[Tensor, "classes classes"]) -> Float[Tensor, "classes classes"]:
    """Return T[i, j] = J[i, j] / Σ_k J[i, k]; a class that does not occur keeps its labels.

    Examples:
        >>> transition_of(torch.tensor([[0.3, 0.1, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 0.0]]))
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
    """Return as many rows as are needed: ``subsample_rows``.

    Examples:
        >>> logits, labels = subsample(torch.zeros(3 * ENOUGH, 3), torch.arange(3 * ENOUGH) % 3)
        >>> len(logits) == ENOUGH, labels.bincount().min().item() > 0.3 * ENOUGH
        (True, True)
    """
    if len(labels) <= ENOUGH:
        return logits, labels
    rows = subsample_rows(len(labels), ENOUGH).to(labels.device)
    return logits[rows], labels[rows]


def joint_from_label_probs(
    beliefs: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> Float[Tensor, "classes classes"]:
    """Return J[i, j] = 1/N Σ_{n: y_n = j} q_n[i], with q_n what is believed of the clean class of sample n.

    Examples:
        >>> joint_from_label_probs(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([0, 1]))
        tensor([[0.5000, 0.2500],
                [0.0000, 0.2500]], dtype=torch.float64)
    """
    joint = beliefs.new_zeros(beliefs.shape[1], beliefs.shape[1], dtype=torch.float64)
    return joint.index_add_(0, labels, beliefs.double()).T / len(labels)


def noise_rate_from_mixture(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the mean probability that the loss -log p_y belongs to the upper of two normal distributions.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1) + 0.1 * torch.randn(100, 2)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:20] = 1 - labels[:20]
        >>> round(noise_rate_from_mixture(logits, labels), 2)
        0.2
    """
    losses = nn.functional.cross_entropy(logits.double(), labels, reduction="none")
    mixture = fit_gaussian_mixture(losses)
    return 0.0 if mixture is None else wrong_posterior(losses, mixture).mean().item()


def smoothed_transition(
    joint: Float[Tensor, "classes classes"], samples: int, caution: float = 1.0
) -> Float[Tensor, "classes classes"]:
    """Return T as if c more rows of each class had been seen, with as many wrong labels as in all, evenly spread.

    T[i, j] ∝ N J[i, j] + caution c S[i, j], S being symmetric noise of rate 1 - trace J. c² free entries would take
    mistakes of the network for noise where there are few rows for each; with many rows c more change little.

    Examples:
        >>> joint = torch.tensor([[0.4, 0.1], [0.0, 0.5]])
        >>> smoothed_transition(joint, 10)
        tensor([[0.8286, 0.1714],
                [0.0286, 0.9714]])
    """
    classes, wrong = len(joint), 1 - joint.trace()
    each = caution * classes * wrong / max(classes - 1, 1)  # more of each wrong label
    counts = samples * joint + each
    counts.diagonal().add_(caution * classes * (1 - wrong) - each)
    return counts / counts.sum(1, keepdim=True)


class LikelihoodFit(NamedTuple):
    """What ``fit_likelihood`` finds."""

    joint: Float[Tensor, "classes classes"]
    temperature: float
    error: float  # standard error of the rate, of the draw of rows alone


def joint_by_likelihood(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> Float[Tensor, "classes classes"]:
    """Return the joint distribution of ``fit_likelihood``.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[:30:2] = 1
        >>> transition_of(joint_by_likelihood(logits, labels)).round(decimals=2)
        tensor([[0.7000, 0.3000],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    logits, labels = subsample(logits, labels)
    return _best_fit(logits, labels)[1]


def fit_temperature(logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the temperature of ``fit_likelihood``.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> fit_temperature(0.2 * torch.eye(2).repeat(50, 1), labels) < 1  # far surer than it says
        True
    """
    return _best_fit(*subsample(logits, labels))[2]


def fit_likelihood(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], *, groups: int = 20, caution: float = 1.0
) -> LikelihoodFit:
    """Return the joint distribution for the T and the temperature τ that maximise Σ_n log Σ_i p_n[i] T[i, y_n].

    Here p_n = softmax(z_n / τ), of the logits z_n.

    Noise and mistakes of the network are told apart by confidence: noise is as frequent where the network is sure as
    where it is not. EM finds T for each τ: with r_n[i] ∝ p_n[i] T[i, y_n], J[i, j] = 1/N Σ_{n: y_n = j} r_n[i], and T
    is J's ``smoothed_transition``. With few rows for each pair of classes the rate still comes out some points high.

    Args:
        logits: of a network, (N, c).
        labels: as given, (N,).
        groups: of rows that are left out in turn, for the standard error.
        caution: see ``smoothed_transition``; 0 for the maximum of the likelihood itself.

    Examples:
        >>> logits = 6 * torch.eye(2).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> fit = fit_likelihood(logits, labels)
        >>> round(noise_rate_from_joint(fit.joint), 2), round(fit.error, 2)
        (0.1, 0.03)
    """
    logits, labels = subsample(logits, labels)
    _, joint, temperature = _best_fit(logits, labels, caution)
    groups = min(groups, len(labels))
    if groups < 2:
        return LikelihoodFit(joint, temperature, error=1.0)
    scaled, start = logits.double() / temperature, smoothed_transition(joint, len(labels), caution)
    # At random, but the same each time: rows often come in an order that has to do with their labels.
    group = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)) % groups
    left_out = [_fit(scaled[group != g], labels[group != g], start, caution) for g in range(groups)]
    rates = torch.tensor([noise_rate_from_joint(without) for _, without in left_out], dtype=torch.float64)
    error = ((groups - 1) * rates.var(unbiased=False)).sqrt().item()
    return LikelihoodFit(joint, temperature, error)


def guess_transition(classes: int) -> Float[Tensor, "classes classes"]:
    """Return the T that EM begins with: symmetric noise, a little of it.

    Examples:
        >>> guess_transition(3)[0]
        tensor([0.8000, 0.1000, 0.1000], dtype=torch.float64)
    """
    return 0.3 / classes + 0.7 * torch.eye(classes, dtype=torch.float64)


def joint_given(
    p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    start: Float[Tensor, "classes classes"],
    caution: float = 1.0,
) -> Float[Tensor, "classes classes"]:
    """Return the joint distribution of ``fit_likelihood`` for probabilities as they are, by EM from a T.

    Examples:
        >>> p = (0.98 * torch.eye(2) + 0.01).repeat(50, 1)
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> labels[::10] = 1 - labels[::10]
        >>> round(noise_rate_from_joint(joint_given(p, labels, torch.tensor([[0.7, 0.3], [0.3, 0.7]]))), 2)
        0.1
    """
    p, labels = subsample(p, labels)
    return _fit(p.double().log(), labels, start.double(), caution)[1]


class WarmFit(NamedTuple):
    """How well labels are explained by predictions, a transition matrix and a temperature."""

    likelihood: float  # mean log-likelihood of a label
    transition: Float[Tensor, "classes classes"]
    place: int  # of the temperature in TEMPERATURES


def warm_fit(
    logits: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], before: WarmFit | None = None
) -> WarmFit:
    """Return what ``fit_likelihood`` maximises, roughly: to compare one epoch's predictions with another's.

    Args:
        logits: of rows that the network was not trained on.
        labels: as given.
        before: what explained the epoch before, to begin with: then it takes milliseconds.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> knows, guesses = 4 * torch.eye(2).repeat(50, 1), torch.zeros(100, 2)
        >>> warm_fit(knows, labels).likelihood > warm_fit(guesses, labels).likelihood
        True
    """
    logits, labels = subsample(logits, labels)
    last = len(TEMPERATURES) - 1
    if before is None:
        start, places = guess_transition(logits.shape[1]).to(logits.device), set(range(0, len(TEMPERATURES), 4))
    else:
        start, places = before.transition, {max(before.place - 2, 0), before.place, min(before.place + 2, last)}
    fits = {place: _fit(logits.double() / TEMPERATURES[place], labels, start, 1.0, ROUGHLY) for place in places}
    best = max(fits, key=lambda place: fits[place][0])
    likelihood, joint = fits[best]
    return WarmFit(likelihood, smoothed_transition(joint, len(labels)), best)


def _best_fit(logits: Tensor, labels: Tensor, caution: float = 1.0) -> tuple[float, Tensor, float]:
    """Return the likeliest fit over the temperatures: every fourth first, then ever nearer to the best."""
    start = guess_transition(logits.shape[1]).to(logits.device)
    fits: dict[int, tuple[float, Tensor]] = {}
    tried: Iterable[int] = range(0, len(TEMPERATURES), 4)
    for apart in (2, 1, 0):
        for place in set(tried) - set(fits):
            fits[place] = _fit(logits.double() / TEMPERATURES[place], labels, start, caution)
        best = max(fits, key=lambda place: fits[place][0])
        tried = {best - apart, best + apart} & set(range(len(TEMPERATURES)))
    return (*fits[best], TEMPERATURES[best])


def _fit(logits: Tensor, labels: Tensor, T: Tensor, caution: float, tolerance: float = 1e-7) -> tuple[float, Tensor]:
    """Return the mean log-likelihood and the joint distribution that EM comes to from T."""
    p = logits.softmax(-1)
    joint, likelihood = T, -torch.inf
    for _ in range(STEPS):
        r = T.T[labels].mul_(p)  # in place, as is the division: N x c numbers more each time would take as long again
        total = r.sum(1).clamp_min(torch.finfo(p.dtype).tiny)
        before, likelihood = likelihood, total.log().mean().item()
        joint = joint_from_label_probs(r.div_(total[:, None]), labels)
        T = smoothed_transition(joint, len(labels), caution)
        if abs(likelihood - before) < tolerance:
            break
    return likelihood, joint
