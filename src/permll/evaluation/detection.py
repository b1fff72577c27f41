"""Metrics of label-error detection.

``quality`` (N,) in [0, 1] is a label quality score, low = suspect; ``wrong`` (N,) is a mask of the wrong labels.
Undefined metrics are None, never NaN.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from permll.evaluation.validation import check_mask, check_quality, check_same_length, safe_divide


class FlagScore(NamedTuple):
    """Precision, recall and F1 of a set of flagged labels."""

    flagged: int
    precision: float | None  # None if nothing is flagged
    recall: float | None  # None if no label is wrong
    f1: float | None  # None if nothing is flagged and no label is wrong


@dataclass(frozen=True)
class Detection:
    """Detection metrics; the ranking metrics are None if no label or every label is wrong."""

    samples: int
    wrong: int
    auroc: float | None
    average_precision: float | None
    k: int | None  # number of wrong labels; None if it is 0
    precision_at_k: float | None  # precision of the k lowest scores, which equals their recall
    flagged: int | None  # None without flags, as are the next three
    precision: float | None
    recall: float | None
    f1: float | None

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the metrics under the names used in metrics.jsonl."""
        return asdict(self)


def measure_detection(
    quality: Float[Tensor, " samples"],
    wrong: Bool[Tensor, " samples"],
    flagged: Bool[Tensor, " samples"] | None = None,
) -> Detection:
    """Return how well ``quality`` ranks, and ``flagged`` selects, the wrong labels.

    Args:
        quality: label quality scores (N,).
        wrong: mask (N,) of the wrong labels.
        flagged: mask (N,) of the labels to review or change.

    Examples:
        >>> import torch
        >>> detection = measure_detection(torch.tensor([0.1, 0.9, 0.2, 0.8]), torch.tensor([True, False, False, False]))
        >>> detection.auroc, detection.k, detection.precision_at_k, detection.flagged
        (1.0, 1, 1.0, None)
    """
    num_wrong = int(check_mask(wrong, "wrong").sum())
    flags = dict.fromkeys(FlagScore._fields) if flagged is None else flag_score(flagged, wrong)._asdict()
    return Detection(
        samples=len(wrong),
        wrong=num_wrong,
        auroc=auroc(quality, wrong),
        average_precision=average_precision(quality, wrong),
        k=num_wrong or None,
        precision_at_k=precision_at_k(quality, wrong, num_wrong) if num_wrong else None,
        **flags,
    )


def auroc(quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"]) -> float | None:
    """Return P(q_wrong < q_correct) + ½ P(q_wrong = q_correct) for a random wrong and a random correct label.

    Examples:
        >>> import torch
        >>> auroc(torch.tensor([0.1, 0.5, 0.5]), torch.tensor([True, True, False]))
        0.75
        >>> auroc(torch.tensor([0.1, 0.5]), torch.tensor([False, False])) is None
        True
    """
    from sklearn.metrics import roc_auc_score

    return _rank(roc_auc_score, quality, wrong)


def average_precision(quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"]) -> float | None:
    """Return Σ_v precision_v (recall_v - recall_{v-1}) over the distinct scores v in ascending order.

    Precision and recall at v are those of flagging all labels with a score of at most v.

    Examples:
        >>> import torch
        >>> average_precision(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([True, False, True]))
        0.8333...
    """
    from sklearn.metrics import average_precision_score

    return _rank(average_precision_score, quality, wrong)


def precision_at_k(quality: Float[Tensor, " samples"], wrong: Bool[Tensor, " samples"], k: int) -> float:
    """Return the fraction of wrong labels among the k lowest scores, in expectation over the order of ties.

    Examples:
        >>> import torch
        >>> precision_at_k(torch.tensor([0.1, 0.5, 0.5, 0.9]), torch.tensor([True, True, False, False]), k=2)
        0.75
    """
    if not 1 <= k <= len(quality):
        raise ValueError(f"k must lie in 1..{len(quality)}, the number of labels; got {k}.")
    quality, wrong = _check_ranking(quality, wrong)
    threshold = quality.kthvalue(k).values
    below, tied = quality < threshold, quality == threshold
    num_from_ties = k - int(below.sum())
    return (int(wrong[below].sum()) + num_from_ties * int(wrong[tied].sum()) / int(tied.sum())) / k


def flag_score(flagged: Bool[Tensor, " samples"], wrong: Bool[Tensor, " samples"]) -> FlagScore:
    """Return precision, recall and F1 of the flagged labels.

    Examples:
        >>> import torch
        >>> flag_score(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
        FlagScore(flagged=2, precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    check_same_length(flagged=flagged, wrong=wrong)
    flagged, wrong = check_mask(flagged, "flagged"), check_mask(wrong, "wrong")
    num_flagged, num_wrong, hits = int(flagged.sum()), int(wrong.sum()), int((flagged & wrong).sum())
    return FlagScore(
        num_flagged,
        precision=safe_divide(hits, num_flagged),
        recall=safe_divide(hits, num_wrong),
        f1=safe_divide(2 * hits, num_flagged + num_wrong),
    )


def _check_ranking(quality: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor]:
    check_same_length(quality=quality, wrong=wrong)
    return check_quality(quality), check_mask(wrong, "wrong")


def _rank(metric: Callable[..., float], quality: Tensor, wrong: Tensor) -> float | None:
    quality, wrong = _check_ranking(quality, wrong)
    is_mixed = bool(wrong.any()) and not bool(wrong.all())
    return float(metric(wrong.numpy(), -quality.numpy())) if is_mixed else None
