"""How well label quality finds wrong labels.

``quality`` (N,) lies in [0, 1], low = suspect; ``wrong`` (N,) says which labels are wrong in truth. A number that has
no meaning is None, never NaN: there is nothing to rank if no label is wrong, or if every label is.
"""

from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.evaluation.validation import ratio, read_mask, read_quality, same_length


class FlagScore(NamedTuple):
    """How well a set of flagged labels covers the wrong ones."""

    flagged: int
    precision: float | None  # the wrong share of the flagged; None if none is flagged
    recall: float | None  # the flagged share of the wrong; None if none is wrong
    f1: float | None  # 2 (flagged and wrong) / (flagged + wrong); None if both are 0


@dataclass(frozen=True)
class Detection:
    """How well the wrong labels were found. None has the meanings said at each number."""

    samples: int
    wrong: int
    auroc: float | None  # None if no label is wrong, or every label is: there is no pair to compare
    average_precision: float | None  # None in the same cases: any ranking is as good as another
    k: int | None  # how many of the lowest were looked at: by default as many as are wrong; None if that is none
    precision_at_k: float | None  # None without k
    flagged: int | None  # None if no flags were given; the next three then are None too
    precision: float | None  # of the flags; None if nothing is flagged
    recall: float | None  # of the flags; None if no label is wrong
    f1: float | None  # of the flags; None if nothing is flagged and no label is wrong

    def numbers(self) -> dict[str, float | int | None]:
        """Return the fields by name, as JSON holds them."""
        return asdict(self)


def measure_detection(
    quality: Float[Tensor, " samples"],
    wrong: Bool[Tensor, " samples"],
    flagged: Bool[Tensor, " samples"] | None = None,
    *,
    k: int | None = None,
) -> Detection:
    """Return how well ``quality`` ranks, and ``flagged`` covers, the wrong labels.

    Args:
        quality: see above.
        wrong: see above.
        flagged: (N,) the labels that somebody would look at or change.
        k: how many of the lowest qualities to look at; by default as many as are wrong, where precision is recall.

    Examples:
        >>> found = measure_detection(torch.tensor([0.1, 0.9, 0.2, 0.8]), torch.tensor([True, False, False, False]))
        >>> found.auroc, found.k, found.precision_at_k, found.flagged
        (1.0, 1, 1.0, None)
    """
    same_length(quality=quality, wrong=wrong)
    count = int(read_mask(wrong, "wrong").sum())
    if k is None:
        k = count or None
    flags = FlagScore(0, None, None, None) if flagged is None else flag_score(flagged, wrong)
    return Detection(
        samples=len(wrong),
        wrong=count,
        auroc=auroc(quality, wrong),
        average_precision=average_precision(quality, wrong),
        k=k,
        precision_at_k=None if k is None else precision_at_k(quality, wrong, k),
        flagged=None if flagged is None else flags.flagged,
        precision=flags.precision,
        recall=flags.recall,
        f1=flags.f1,
    )


def auroc(quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"]) -> float | None:
    """Return P(q_wrong < q_right) + ½ P(q_wrong = q_right) for a wrong and a right label drawn at random.

    Counted in whole numbers, so it is exact; None if there is no such pair.

    Examples:
        >>> auroc(torch.tensor([0.1, 0.5, 0.5]), torch.tensor([True, True, False]))
        0.75
        >>> auroc(torch.tensor([0.1, 0.5]), torch.tensor([False, False])) is None
        True
    """
    wrongs, rights = _by_quality(quality, wrong)
    above = rights.sum() - rights.cumsum(0)
    twice_won = int((wrongs * (2 * above + rights)).sum())
    return ratio(twice_won, 2 * int(wrongs.sum()) * int(rights.sum()))


def average_precision(quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"]) -> float | None:
    """Return Σ_v precision_v (recall_v - recall_{v-1}) over the distinct qualities v, from the lowest up.

    Precision and recall at v are those of flagging every label of quality v or less: ties are taken together. None if
    no label is wrong, or every label is.

    Examples:
        >>> average_precision(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([True, False, True]))
        0.8333...
    """
    wrongs, rights = _by_quality(quality, wrong)
    found = wrongs.cumsum(0)
    precision = found.double() / (found + rights.cumsum(0))
    total = int(found[-1]) if bool(rights.any()) else 0
    return ratio(float((precision * wrongs).sum()), total)


def precision_at_k(quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"], k: int) -> float:
    """Return the share of wrong labels among the k of lowest quality; of equals at the cut, the share to be expected.

    Examples:
        >>> precision_at_k(torch.tensor([0.1, 0.5, 0.5, 0.9]), torch.tensor([True, True, False, False]), k=2)
        0.75
    """
    if not 1 <= k <= len(quality):
        raise ValueError(f"k is {k}, but there are {len(quality)} labels: take k from 1 to {len(quality)}.")
    wrongs, rights = _by_quality(quality, wrong)
    each = wrongs + rights
    cut = int(torch.searchsorted(each.cumsum(0), k))
    seen, found = int(each[:cut].sum()), int(wrongs[:cut].sum())
    return (found + (k - seen) * int(wrongs[cut]) / int(each[cut])) / k


def flag_score(flagged: Bool[Tensor, " samples"], wrong: Bool[Tensor, " samples"]) -> FlagScore:
    """Return precision, recall and F1 of the flagged labels.

    Examples:
        >>> flag_score(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
        FlagScore(flagged=2, precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    same_length(flagged=flagged, wrong=wrong)
    flagged, wrong = read_mask(flagged, "flagged"), read_mask(wrong, "wrong")
    n_flagged, n_wrong, both = int(flagged.sum()), int(wrong.sum()), int((flagged & wrong).sum())
    return FlagScore(n_flagged, ratio(both, n_flagged), ratio(both, n_wrong), ratio(2 * both, n_flagged + n_wrong))


def _by_quality(
    quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"]
) -> tuple[Int[Tensor, " distinct"], Int[Tensor, " distinct"]]:
    """Return how many wrong and how many right labels each distinct quality has, from the lowest up."""
    same_length(quality=quality, wrong=wrong)
    wrong = read_mask(wrong, "wrong")
    distinct, own = read_quality(quality).unique(return_inverse=True)
    wrongs, rights = (own[mask].bincount(minlength=len(distinct)) for mask in (wrong, ~wrong))
    return wrongs, rights
