"""Which labels may change without a review."""

from collections.abc import Iterable, Sequence

from jaxtyping import Bool, Int
from torch import Tensor

from permll.data.labels import similar_names

MIN_CLASS_SIZE = 10  # samples from which a network knows a class


def may_change(
    proposals: Int[Tensor, " samples"],
    labels: Int[Tensor, " samples"],
    classes: Sequence[str],
    duplicates: Iterable[Sequence[int]] = (),
) -> Bool[Tensor, " samples"]:
    """Return which labels may become their proposals without a review.

    Not if the proposed class is rare or may be a misspelling of a more frequent one, and not if exact duplicates of the
    sample have other labels: the network has seen the same sample with several labels.

    Args:
        proposals: proposed classes.
        labels: given labels.
        classes: class names.
        duplicates: groups of rows that are equal but do not have the same label.

    Examples:
        >>> import torch
        >>> labels = torch.tensor([0] * 20 + [1] * 20 + [2])
        >>> may_change(torch.tensor([1, 2] + [0] * 39), labels, ["cat", "dog", "Dog "], duplicates=[(3, 4)])[:5]
        tensor([ True, False,  True, False, False])
    """
    counts = labels.bincount(minlength=len(classes))
    is_known = counts >= MIN_CLASS_SIZE
    for group in similar_names(classes):
        is_known[[k for k in group if k != max(group, key=lambda k: int(counts[k]))]] = False
    allowed = is_known[proposals]
    for rows in duplicates:
        allowed[list(rows)] = False
    return allowed
