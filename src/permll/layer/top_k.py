"""Top-k compression of rows: k entries per row, and one shared value (the tail) for all other classes.

A row of c entries becomes k class numbers, their values and a tail. The given label is always stored, together with the
k - 1 largest other entries. For rows of logits the tail is the log-mean-exp of the other entries, which preserves the
softmax mass of the stored classes and of the rest. For rows of probabilities it is the mean, which preserves the sum;
there the largest entries are those of largest absolute value, since entries may also grow below 0.
A row whose entries outside k classes are all equal, such as every initial row, is stored exactly.

Notation: ``c`` the number of classes, ``a = softmax(α)``, ``p = softmax(z)``, ``r = a p / <a, p>``.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Tail = Literal["mean", "logmeanexp"]


class TopKRows(NamedTuple):
    """Compressed rows: class numbers (B, k), the given label first; values (B, k); tails (B,)."""

    classes: Tensor
    values: Tensor
    tail: Tensor


class TopKUpdate(NamedTuple):
    """An update of rows: ``values`` (B, m) at ``classes`` (B, m), and mean and variance (B,) of all other entries.

    The classes of a row are distinct.
    """

    classes: Tensor
    values: Tensor
    mean: Tensor
    variance: Tensor


class TopKLossAndGrads(NamedTuple):
    """Corrected loss of each sample (B,), and its gradients in the logits (B, c) and in compressed rows of α."""

    loss: Tensor
    grad_logits: Tensor
    grad_alpha: TopKUpdate


def compress(rows: Tensor, labels: Tensor, k: int, tail: Tail) -> TopKRows:
    """Compress rows (B, c) to k <= c entries.

    Examples:
        >>> row = torch.tensor([[0.0, 4.0, 1.0, 3.0, 2.0]])
        >>> compress(row, torch.tensor([0]), 3, "mean")
        TopKRows(classes=tensor([[0, 1, 3]]), values=tensor([[0., 4., 3.]]), tail=tensor([1.5000]))
    """
    num_rest = rows.shape[1] - k
    scores = rows if tail == "logmeanexp" else rows.abs()
    scores = scores.scatter(1, labels[:, None], torch.inf)  # the label comes first, whatever its value
    _, order = grouped_topk(scores, k + 1 if num_rest else k)
    classes = order[:, :k]
    values = rows.gather(1, classes)
    if not num_rest:
        return TopKRows(classes, values, torch.zeros_like(values[:, 0]))
    shift = rows.gather(1, order[:, k:])  # the largest of the rest: equal entries give exactly that entry as the tail
    rest = rows - shift
    if tail == "mean":
        tails = rest.scatter_(1, classes, 0.0).sum(1).div_(num_rest)
    else:
        tails = rest.exp_().scatter_(1, classes, 0.0).sum(1).div_(num_rest).log_()
    return TopKRows(classes, values, tails.add_(shift[:, 0]))


def expand(row: TopKRows, num_classes: int) -> Tensor:
    """Return dense rows (B, c): the stored entries, and the tail everywhere else.

    Examples:
        >>> expand(TopKRows(torch.tensor([[2, 0]]), torch.tensor([[5.0, 1.0]]), torch.tensor([0.5])), 4)
        tensor([[1.0000, 0.5000, 5.0000, 0.5000]])
    """
    return row.tail[:, None].repeat(1, num_classes).scatter_(1, row.classes, row.values)


def row_logsumexp(row: TopKRows, num_classes: int) -> Tensor:
    """Return log Σ exp of each row (B,).

    Examples:
        >>> row = TopKRows(torch.tensor([[2, 0]]), torch.tensor([[5.0, 1.0]]), torch.tensor([0.5]))
        >>> torch.allclose(row_logsumexp(row, 4), expand(row, 4).logsumexp(1))
        True
    """
    num_rest = num_classes - row.classes.shape[1]
    if not num_rest:
        return row.values.logsumexp(1)
    return torch.cat([row.values, row.tail[:, None] + math.log(num_rest)], 1).logsumexp(1)


def row_argmax(row: TopKRows, num_classes: int) -> Tensor:
    """Return the class (B,) with the largest entry of each row, the first one in case of ties.

    Examples:
        >>> values, tail = torch.tensor([[5.0, 1.0], [0.0, 0.0]]), torch.tensor([0.5, 0.5])
        >>> row_argmax(TopKRows(torch.tensor([[2, 0]]), values, tail), 4)
        tensor([2, 1])
    """
    classes, k = row.classes.expand(len(row.values), -1), row.classes.shape[1]
    top = row.values.amax(1)
    best = classes.where(row.values == top[:, None], num_classes).amin(1)
    in_tail = (row.tail >= top).nonzero()[:, 0] if k < num_classes else best[:0]
    if len(in_tail):  # the first class outside the stored ones attains the maximum
        is_rest = torch.ones(len(in_tail), num_classes, dtype=torch.bool, device=best.device)
        first = is_rest.scatter_(1, classes[in_tail], False).int().argmax(1)
        best[in_tail] = first.where(row.tail[in_tail] > top[in_tail], first.minimum(best[in_tail]))
    return best


def apply_update(row: TopKRows, update: TopKUpdate, scale: float, num_classes: int) -> TopKRows:
    """Return the rows after adding ``scale`` times the update, in O(B k m).

    This equals ``compress`` of the dense result with a log-mean-exp tail, if the update's classes contain the new top
    k. For all other entries, of mean μ and variance σ², log mean exp(s u) = s μ + s² σ² / 2 + O(s³) is used.

    Examples:
        >>> row = TopKRows(torch.tensor([[0, 1]]), torch.tensor([[2.0, 0.0]]), torch.tensor([0.0]))
        >>> update = TopKUpdate(torch.tensor([[3]]), torch.tensor([[1.0]]), torch.tensor([0.0]), torch.tensor([0.0]))
        >>> apply_update(row, update, 0.5, 5)
        TopKRows(classes=tensor([[0, 3]]), values=tensor([[2.0000, 0.5000]]), tail=tensor([0.]))
    """
    k = row.classes.shape[1]
    at_stored, candidates, at_candidates, is_new = _match_classes(row, update)
    classes = torch.cat([row.classes, candidates], 1)
    from_tail = (row.tail[:, None] + scale * at_candidates).masked_fill_(~is_new, -torch.inf)
    values = torch.cat([row.values + scale * at_stored, from_tail], 1)
    scores = values.clone()
    scores[:, 0] = torch.inf  # the label
    top = scores.topk(k).indices
    result = TopKRows(classes.gather(1, top), values.gather(1, top), row.tail)
    if k == num_classes:
        return result
    tail = row.tail + scale * update.mean + (scale * scale / 2) * update.variance
    dropped = values.scatter(1, top, -torch.inf)
    shift = torch.maximum(dropped.amax(1), tail)
    num_rest = (num_classes - k) - is_new.sum(1)
    total = (dropped - shift[:, None]).exp().sum(1) + num_rest * (tail - shift).exp()
    return result._replace(tail=shift + (total / (num_classes - k)).log())


def _match_classes(row: TopKRows, update: TopKUpdate) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the update of stored entries (B, k), and candidate classes with their updates and whether they are new."""
    k = row.classes.shape[1]
    if torch.equal(update.classes[:, :k], row.classes):  # the row has not changed since the update was computed
        new = update.classes[:, k:]
        return update.values[:, :k], new, update.values[:, k:], torch.ones_like(new, dtype=torch.bool)
    same = row.classes[:, :, None] == update.classes[:, None, :]  # (B, k, m)
    at_stored = torch.where(same.any(2), (same * update.values[:, None, :]).sum(2), update.mean[:, None])
    return at_stored, update.classes, update.values, ~same.any(1)


def grouped_topk(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the values and indices (B, count) of the largest entries of rows (B, c), as ``torch.topk`` does.

    Long rows are split into groups. The top entries lie in the groups with the largest maxima, so only those are
    searched, which takes a quarter of the time on a CPU.

    Examples:
        >>> rows = torch.rand(2, 5000)
        >>> torch.equal(grouped_topk(rows, 3)[0], rows.topk(3).values)
        True
    """
    length = rows.shape[1]
    if count == 0 or length < 32 * count:
        values, indices = rows.topk(count)
        return values, indices
    size = math.isqrt(length // count)
    groups = length // size  # entry j belongs to group j mod groups; entries beyond size * groups belong to none
    top_groups = rows[:, : size * groups].unflatten(1, (size, groups)).amax(1).topk(count).indices
    members = torch.arange(0, size * groups, groups, device=rows.device)
    candidates = (top_groups[:, :, None] + members).flatten(1)
    ungrouped = torch.arange(size * groups, length, device=rows.device).expand(len(rows), -1)
    candidates = torch.cat([candidates, ungrouped], 1)
    values, top = rows.gather(1, candidates).topk(count)
    return values, candidates.gather(1, top)


def prediction_ce(row: TopKRows, logits: Tensor) -> TopKLossAndGrads:
    """Return -log <a, p> and its gradients p - r and a - r without a dense row of α.

    Let ā be the weight of each class that is not stored. Then <a, p> = Σ_stored a_k p_k + ā (1 - Σ_stored p_k), and
    outside the stored classes r = ā p / <a, p> is largest where p is. Only the k - 1 most probable of them can enter
    the top k. Operations over all c classes are the softmax, one top-k search, two sums and one product; the rest is
    O(B k).
    """
    k, num_classes = row.classes.shape[1], logits.shape[1]
    tiny = torch.finfo(logits.dtype).tiny
    log_total = row_logsumexp(row, num_classes)
    a = (row.values - log_total[:, None]).exp().clamp_min_(tiny)
    a_rest = (row.tail - log_total).exp().clamp_min_(tiny)
    p = logits.softmax(-1)
    p_stored = p.gather(1, row.classes)
    p.scatter_(1, row.classes, 0.0)
    mass, squares = p.sum(1), torch.linalg.vector_norm(p, dim=1).square()
    joint = a * p_stored
    evidence = joint.sum(1) + a_rest * mass
    ratio = a_rest / evidence
    p.scatter_(1, row.classes, -1.0)  # below every probability, also those that underflow to 0
    p_next, next_classes = grouped_topk(p, min(k - 1, num_classes - k))
    num_rest = max(num_classes - k - p_next.shape[1], 1)
    mean = ratio * (mass - p_next.sum(1)).clamp_min_(0.0) / num_rest
    square = ratio.square() * (squares - p_next.square().sum(1)).clamp_min_(0.0) / num_rest
    r, r_next = joint / evidence[:, None], p_next * ratio[:, None]
    values = torch.cat([a - r, a_rest[:, None] - r_next], 1)
    classes = torch.cat([row.classes, next_classes], 1)
    grad_alpha = TopKUpdate(classes, values, a_rest - mean, (square - mean.square()).clamp_min_(0.0))
    grad_logits = p.mul_(1 - ratio[:, None]).scatter_(1, row.classes, p_stored - r)
    return TopKLossAndGrads(-evidence.log(), grad_logits, grad_alpha)
