"""The transition matrix T of label noise: T[k, y] is the probability that a sample of class k has the label y."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

IMPOSSIBLE = -1e4  # log-likelihood; finite, so that averages of models are finite
MAX_CLASSES = 2048  # with more classes, wrong labels are not counted by pair of classes
SYMMETRY_EVIDENCE = 2.0  # difference of log-likelihoods that shows symmetric noise


def weighted_counts(
    predicted: Int[Tensor, " samples"],
    labels: Int[Tensor, " samples"],
    weights: Float[Tensor, " samples"],
    num_classes: int,
) -> Float[Tensor, "classes classes"]:
    """Return the weight of samples with predicted class k and label y, (c, c).

    Examples:
        >>> weighted_counts(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([1.0, 0.5, 1.0]), 2)
        tensor([[1.0000, 0.5000],
                [0.0000, 1.0000]])
    """
    pairs = (predicted * num_classes + labels).bincount(weights.double(), minlength=num_classes**2)
    return pairs.view(num_classes, num_classes).to(weights)


def wrong_label_shares(
    counts: Float[Tensor, "classes classes"], frequencies: Float[Tensor, " classes"]
) -> tuple[Float[Tensor, "classes classes"], bool]:
    """Return for each class the distribution of its wrong labels, and whether the noise is shown to be symmetric.

    The counts are smoothed by the label frequencies with the weight s that makes them likeliest: a large one for counts
    that fit to the frequencies, and for few counts; the smallest, c, for flips into one class. Noise is symmetric if
    wrong labels follow the frequencies whatever the class: the log-likelihood for the largest weight exceeds that for
    the smallest by at least 2. See ``smoothing_fits``.

    Args:
        counts: weight of samples of class k (rows) with label y (columns).
        frequencies: of the labels.

    Examples:
        >>> counts = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> wrong_label_shares(counts, torch.tensor([0.2, 0.4, 0.4]))
        (tensor([[0.0000, 0.7000, 0.3000],
                [0.3333, 0.0000, 0.6667],
                [0.3333, 0.6667, 0.0000]]), False)
        >>> frequencies = torch.full((3,), 1 / 3)
        >>> [wrong_label_shares(n * torch.ones(3, 3), frequencies)[1] for n in (50.0, 1.0)]
        [True, False]
        >>> wrong_label_shares(torch.eye(3).roll(1, 0) * 50, frequencies)[1]
        False
    """
    counts, frequencies = off_diagonal(counts, frequencies)
    weights, fits = smoothing_fits(counts, frequencies)
    weight = weights[fits >= fits.max() - 1e-6].max()  # few counts have the same likelihood for all weights
    wrong = counts + weight.to(counts) * frequencies
    return wrong / wrong.sum(1, keepdim=True), bool(fits[-1] - fits[0] >= SYMMETRY_EVIDENCE)


def off_diagonal(
    counts: Float[Tensor, "classes classes"], frequencies: Float[Tensor, " classes"]
) -> tuple[Float[Tensor, "classes classes"], Float[Tensor, "classes classes"]]:
    """Return the counts of wrong labels, and for each class the frequencies of the other labels, both 0 at the class.

    Examples:
        >>> off_diagonal(torch.tensor([[3.0, 1.0], [2.0, 4.0]]), torch.tensor([0.6, 0.4]))
        (tensor([[0., 1.],
                [2., 0.]]), tensor([[0., 1.],
                [1., 0.]]))
    """
    mask = 1 - torch.eye(len(frequencies), device=frequencies.device)
    return counts * mask, frequencies * mask / (frequencies * mask).sum(1, keepdim=True)


def smoothing_fits(
    counts: Float[Tensor, "classes classes"], frequencies: Float[Tensor, "classes classes"]
) -> tuple[Float[Tensor, " weights"], Float[Tensor, " weights"]]:
    """Return the weights s = c, 2 c, 4 c, ..., 256 c and the log-likelihood of the counts for each, up to a constant.

    A row of counts has the Dirichlet-multinomial distribution with parameters s f.

    Args:
        counts: wrong labels, see ``off_diagonal``.
        frequencies: f, likewise.

    Examples:
        >>> frequencies = (1 - torch.eye(3)) / 2
        >>> for counts in (50 * frequencies, torch.eye(3).roll(1, 0) * 50):
        ...     weights, fits = smoothing_fits(counts, frequencies)
        ...     print(weights[fits.argmax()])
        tensor(768., dtype=torch.float64)
        tensor(3., dtype=torch.float64)
    """
    weights = len(counts) * 2.0 ** torch.arange(9, dtype=torch.float64, device=counts.device)
    where = counts > 0  # counts of 0 do not contribute
    n, priors = counts[where].double(), weights[:, None] * frequencies[where].double()
    terms = (priors + n).lgamma() - priors.lgamma()
    totals = (weights[:, None] + counts.double().sum(1)).lgamma() - weights.lgamma()[:, None]
    return weights, terms.sum(1) - totals.sum(1)


def log_transition(
    shares: Float[Tensor, "classes classes"] | None,
    diagonal: Float[Tensor, " classes"],
    frequencies: Float[Tensor, " classes"],
) -> Float[Tensor, "labels classes"]:
    """Return log T with this diagonal, as ``label_likelihood`` takes it.

    Args:
        shares: distribution of the wrong labels of each class, see ``wrong_label_shares``; None if they are drawn by
            the frequencies.
        diagonal: T[k, k].
        frequencies: of the labels.

    Examples:
        >>> shares = torch.tensor([[0.0, 0.7, 0.3], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
        >>> log_transition(shares, torch.tensor([0.5, 0.8, 0.8]), torch.full((3,), 1 / 3)).exp().T
        tensor([[0.5000, 0.3500, 0.1500],
                [0.1000, 0.8000, 0.1000],
                [0.2000, 0.0000, 0.8000]])
    """
    if shares is None:
        return torch.stack([diagonal, (1 - diagonal) / (1 - frequencies)]).log()
    return ((1 - diagonal)[:, None] * shares + diagonal.diag()).T.log()


def log_identity(num_classes: int) -> Float[Tensor, "labels classes"]:
    """Return log T for labels that are all correct, as ``label_likelihood`` takes it.

    Examples:
        >>> log_identity(2)
        tensor([[     0., -10000.],
                [-10000.,      0.]])
    """
    rows = num_classes if num_classes <= MAX_CLASSES else 2
    matrix = torch.full((rows, num_classes), IMPOSSIBLE)
    if rows == 2 < num_classes:
        matrix[0] = 0.0
        return matrix
    return matrix.fill_diagonal_(0.0)


def label_likelihood(
    log_likelihood: Float[Tensor, "labels classes"],
    labels: Int[Tensor, " samples"],
    frequencies: Float[Tensor, " classes"],
) -> Float[Tensor, "samples classes"]:
    """Return log T[:, y] for each label y.

    Args:
        log_likelihood: row y is log T[:, y]; for more than 2,048 classes the diagonal D of T in the first row and
            log((1 - D_k) / (1 - f_k)) in the second: a wrong label is then drawn by the frequencies f.
        labels: y.
        frequencies: f.
    """
    if len(log_likelihood) == len(frequencies):
        return log_likelihood.index_select(0, labels)
    diagonal, wrong = log_likelihood
    rows = wrong + frequencies.to(wrong)[labels].log()[:, None]
    return rows.scatter(1, labels[:, None], diagonal[labels][:, None])


def with_unlearned_classes(
    log_likelihood: Float[Tensor, "labels classes"], learned: Bool[Tensor, " classes"]
) -> Float[Tensor, "labels classes"]:
    """Return log T, as ``label_likelihood`` takes it, without noise from or to classes that are not ``learned``.

    Examples:
        >>> log_likelihood = torch.tensor([[0.6, 0.2, 0.1], [0.3, 0.7, 0.1], [0.1, 0.1, 0.8]]).log()
        >>> with_unlearned_classes(log_likelihood, torch.tensor([True, True, False])).exp()
        tensor([[0.6000, 0.2000, 0.0000],
                [0.3000, 0.7000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    if len(log_likelihood) == len(learned):
        return torch.where(
            learned[:, None] & learned, log_likelihood, log_identity(len(learned)).to(log_likelihood.device)
        )
    diagonal, wrong = log_likelihood
    # The entry of an unlearned label exceeds all others, which are not known in this form.
    return torch.stack([diagonal.where(learned, -IMPOSSIBLE), wrong.where(learned, IMPOSSIBLE)])
