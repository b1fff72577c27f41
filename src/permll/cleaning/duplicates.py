"""Exact duplicates whose labels differ: at most one of the labels is correct."""

from collections import defaultdict

from torch import Tensor

from permll.data.inputs import Inputs
from permll.data.sample_digests import sample_digests
from permll.utils.progress_bar import progress


def conflicting_duplicates(inputs: Inputs, labels: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return groups of rows that are bitwise equal but do not have the same label, each in order.

    Images in files are compared by the content of the files, other samples by their values.

    Examples:
        >>> import torch
        >>> from permll.data.inputs import Texts
        >>> texts = Texts(("good", "bad", "good", "bad"))
        >>> conflicting_duplicates(texts, torch.tensor([1, 0, 0, 0]))
        ((0, 2),)
    """
    groups = defaultdict(list)
    with progress("finding duplicates", len(inputs)) as advance:
        for row, digest in enumerate(sample_digests(inputs)):
            groups[digest].append(row)
            advance(1)
    repeated = (tuple(rows) for rows in groups.values() if len(rows) > 1)
    return tuple(rows for rows in repeated if len(set(labels[list(rows)].tolist())) > 1)
