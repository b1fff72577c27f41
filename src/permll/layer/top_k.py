"""Rows of which only some entries are kept: those of k classes, and one number that all other classes share.

A row of c entries becomes k class numbers, their values and a tail. The given label is always kept, and with it the
k - 1 largest of the others. For rows that go through softmax the tail is the logarithm of the mean of exp, so that kept
classes and all others together have the softmax mass they had; for rows of probabilities it is the mean, and sums stay.
There the largest are those of the largest size, since what begins next to 0 may also grow below it.
A row whose entries beyond k classes are all alike, as every row begins, is kept exactly.

Letters: ``c`` the number of classes, ``a = softmax(α)``, ``p = softmax(z)``, ``r = a p / <a, p>``.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Tail = Literal["mean", "logmeanexp"]


class TopKRows(NamedTuple):
    """Rows of which k entries are kept: class numbers (B, k), the given label's first; values (B, k); tails (B,)."""

    classes: Tensor
    values: Tensor
    tail: Tensor


class Change(NamedTuple):
    """What is to be added to rows: ``values`` (B, m) at ``classes`` (B, m); elsewhere numbers of this ``mean``, (B,).

    No class comes twice in a row. Of the numbers elsewhere the ``variance`` (B,) is known too.
    """

    classes: Tensor
    values: Tensor
    mean: Tensor
    variance: Tensor


class TopKCorrection(NamedTuple):
    """The loss of each sample (B,), where it pulls the network (B, c), and where it pulls the sample's own row."""

    loss: Tensor
    grad_logits: Tensor
    grad_alpha: Change


def compress(rows: Tensor, labels: Tensor, k: int, tail: Tail) -> TopKRows:
    """Return rows (B, c) with the k entries that are to be kept, k <= c.

    Examples:
        >>> row = torch.tensor([[0.0, 4.0, 1.0, 3.0, 2.0]])
        >>> compress(row, torch.tensor([0]), 3, "mean")
        Kept(classes=tensor([[0, 1, 3]]), values=tensor([[0., 4., 3.]]), tail=tensor([1.5000]))
    """
    spread = rows.shape[1] - k
    ranked = rows if tail == "logmeanexp" else rows.abs()
    first = ranked.scatter(1, labels[:, None], torch.inf)  # the label comes first, whatever its value
    _, order = largest_entries(first, k + 1 if spread else k)
    classes = order[:, :k]
    values = rows.gather(1, classes)
    if not spread:
        return TopKRows(classes, values, torch.zeros_like(values[:, 0]))
    largest = rows.gather(1, order[:, k:])  # of the rest: what is alike comes out of either mean as it is, to the bit
    rest = rows - largest
    if tail == "mean":
        shared = rest.scatter_(1, classes, 0.0).sum(1).div_(spread)
    else:
        shared = rest.exp_().scatter_(1, classes, 0.0).sum(1).div_(spread).log_()
    return TopKRows(classes, values, shared.add_(largest[:, 0]))


def expand(row: TopKRows, num_classes: int) -> Tensor:
    """Return the rows (B, c): what is kept, and the tail everywhere else.

    Examples:
        >>> expand(TopKRows(torch.tensor([[2, 0]]), torch.tensor([[5.0, 1.0]]), torch.tensor([0.5])), 4)
        tensor([[1.0000, 0.5000, 5.0000, 0.5000]])
    """
    return row.tail[:, None].repeat(1, num_classes).scatter_(1, row.classes, row.values)


def log_total(row: TopKRows, num_classes: int) -> Tensor:
    """Return log Σ exp of each row (B,).

    Examples:
        >>> row = TopKRows(torch.tensor([[2, 0]]), torch.tensor([[5.0, 1.0]]), torch.tensor([0.5]))
        >>> torch.allclose(log_total(row, 4), expand(row, 4).logsumexp(1))
        True
    """
    spread = num_classes - row.classes.shape[1]
    if not spread:
        return row.values.logsumexp(1)
    return torch.cat([row.values, row.tail[:, None] + math.log(spread)], 1).logsumexp(1)


def largest(row: TopKRows, num_classes: int) -> Tensor:
    """Return the class (B,) with the largest entry of each row, of several the first.

    Examples:
        >>> largest(TopKRows(torch.tensor([[2, 0]]), torch.tensor([[5.0, 1.0], [0.0, 0.0]]), torch.tensor([0.5, 0.5])), 4)
        tensor([2, 1])
    """
    classes, k = row.classes.expand(len(row.values), -1), row.classes.shape[1]
    top = row.values.amax(1)
    best = classes.where(row.values == top[:, None], num_classes).amin(1)
    shared = (row.tail >= top).nonzero()[:, 0] if k < num_classes else best[:0]
    if len(shared):  # then the first class that is not kept is as large as any
        absent = torch.ones(len(shared), num_classes, dtype=torch.bool, device=best.device)
        first = absent.scatter_(1, classes[shared], False).int().argmax(1)
        best[shared] = first.where(row.tail[shared] > top[shared], first.minimum(best[shared]))
    return best


def moved(row: TopKRows, change: Change, scale: float, num_classes: int) -> TopKRows:
    """Return the row after adding ``scale`` times the change, as far as it can be known, in O(B k m).

    It is ``compress`` of the whole row, log-mean-exp for the tail, if the classes that the change names hold those that
    come to be kept. Of the others it knows mean μ and variance σ², and log mean exp(s u) = s μ + s² σ² / 2 + O(s³).

    Examples:
        >>> row = TopKRows(torch.tensor([[0, 1]]), torch.tensor([[2.0, 0.0]]), torch.tensor([0.0]))
        >>> up = Change(torch.tensor([[3]]), torch.tensor([[1.0]]), torch.tensor([0.0]), torch.tensor([0.0]))
        >>> moved(row, up, 0.5, 5)
        Kept(classes=tensor([[0, 3]]), values=tensor([[2.0000, 0.5000]]), tail=tensor([0.]))
    """
    k = row.classes.shape[1]
    at_kept, new, at_new, fresh = _matched(row, change)
    classes = torch.cat([row.classes, new], 1)
    from_tail = (row.tail[:, None] + scale * at_new).masked_fill_(~fresh, -torch.inf)
    values = torch.cat([row.values + scale * at_kept, from_tail], 1)
    first = values.clone()
    first[:, 0] = torch.inf  # the label
    chosen = first.topk(k).indices
    kept = TopKRows(classes.gather(1, chosen), values.gather(1, chosen), row.tail)
    if k == num_classes:
        return kept
    rest = row.tail + scale * change.mean + (scale * scale / 2) * change.variance
    left = values.scatter(1, chosen, -torch.inf)
    top = torch.maximum(left.amax(1), rest)
    others = (num_classes - k) - fresh.sum(1)
    total = (left - top[:, None]).exp().sum(1) + others * (rest - top).exp()
    return kept._replace(tail=top + (total / (num_classes - k)).log())


def _matched(row: TopKRows, change: Change) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the change of the kept entries (B, k), and classes, changes and whether they are new of others, (B, n)."""
    k = row.classes.shape[1]
    known = change.classes[:, :k]
    if torch.equal(known, row.classes):  # as when nobody moved the row since the change was found
        new = change.classes[:, k:]
        return change.values[:, :k], new, change.values[:, k:], torch.ones_like(new, dtype=torch.bool)
    same = row.classes[:, :, None] == change.classes[:, None, :]  # (B, k, m)
    at_kept = torch.where(same.any(2), (same * change.values[:, None, :]).sum(2), change.mean[:, None])
    return at_kept, change.classes, change.values, ~same.any(1)


def largest_entries(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest entries of rows (B, c) and their places, both (B, count), as ``topk`` does.

    Long rows are first divided into groups: the largest entries are in those groups whose largest are largest. On a CPU
    that takes a quarter of the time.

    Examples:
        >>> rows = torch.rand(2, 5000)
        >>> torch.equal(largest_entries(rows, 3)[0], rows.topk(3).values)
        True
    """
    length = rows.shape[1]
    if count == 0 or length < 32 * count:
        values, places = rows.topk(count)
        return values, places
    size = math.isqrt(length // count)
    groups = length // size  # entry j belongs to group j mod groups, and the few beyond size * groups to none
    tops = rows[:, : size * groups].unflatten(1, (size, groups)).amax(1).topk(count).indices
    members = torch.arange(0, size * groups, groups, device=rows.device)
    places = (tops[:, :, None] + members).flatten(1)
    beyond = torch.arange(size * groups, length, device=rows.device).expand(len(rows), -1)
    places = torch.cat([places, beyond], 1)
    values, found = rows.gather(1, places).topk(count)
    return values, places.gather(1, found)


def prediction_ce(row: TopKRows, logits: Tensor) -> TopKCorrection:
    """Return -log <a, p> and its gradients p - r and a - r, without ever making a row of c entries of α.

    With ā the weight of every class that is not kept, <a, p> = Σ_kept a_k p_k + ā (1 - Σ_kept p_k), and there r = ā p /
    <a, p> is largest where p is: the classes that could come to be kept are the k - 1 likeliest of them. Over the c
    classes go the softmax, one search for these, two sums and one product; everything else is O(B k).
    """
    k, num_classes = row.classes.shape[1], logits.shape[1]
    tiny = torch.finfo(logits.dtype).tiny
    total = log_total(row, num_classes)
    a = (row.values - total[:, None]).exp().clamp_min_(tiny)
    a_rest = (row.tail - total).exp().clamp_min_(tiny)
    p = logits.softmax(-1)
    p_kept = p.gather(1, row.classes)
    p.scatter_(1, row.classes, 0.0)
    mass, squares = p.sum(1), torch.linalg.vector_norm(p, dim=1).square()
    joint = a * p_kept
    evidence = joint.sum(1) + a_rest * mass
    pull = a_rest / evidence
    p.scatter_(1, row.classes, -1.0)  # below those of which the exponential is 0
    p_next, following = largest_entries(p, min(k - 1, num_classes - k))
    others = max(num_classes - k - p_next.shape[1], 1)
    mean = pull * (mass - p_next.sum(1)).clamp_min_(0.0) / others
    square = pull.square() * (squares - p_next.square().sum(1)).clamp_min_(0.0) / others
    r, r_next = joint / evidence[:, None], p_next * pull[:, None]
    at = torch.cat([a - r, a_rest[:, None] - r_next], 1)
    classes = torch.cat([row.classes, following], 1)
    change = Change(classes, at, a_rest - mean, (square - mean.square()).clamp_min_(0.0))
    grad_logits = p.mul_(1 - pull[:, None]).scatter_(1, row.classes, p_kept - r)
    return TopKCorrection(-evidence.log(), grad_logits, change)


def split_repeats(index: Tensor) -> list[Tensor | slice]:
    """Return the places of a batch in parts that hold no row twice: all first visits, all second ones, and so on.

    Examples:
        >>> split_repeats(torch.tensor([7, 3, 7, 5]))
        [tensor([0, 1, 3]), tensor([2])]
        >>> split_repeats(torch.tensor([7, 3, 5]))
        [slice(None, None, None)]
    """
    named, order = index.sort(stable=True)
    if not (named[1:] == named[:-1]).any():
        return [slice(None)]
    turn = torch.arange(len(index), device=index.device) - torch.searchsorted(named, named)
    return [order[turn == number].sort().values for number in range(int(turn.max()) + 1)]
