"""Samples that are equal to the last bit and do not have one label: at most one of the labels is right."""

from collections import defaultdict

from torch import Tensor

from permll.data.inputs import Inputs
from permll.data.sample_digests import sample_digests
from permll.utils.progress import progress


def contradictions(inputs: Inputs, labels: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return the groups of rows that are equal and do not all have the same label, each in order.

    Images in files are compared by what the files hold; others by their values.

    Examples:
        >>> import torch
        >>> from permll.data.inputs import Texts
        >>> texts = Texts(("good", "bad", "good", "bad"))
        >>> contradictions(texts, torch.tensor([1, 0, 0, 0]))
        ((0, 2),)
    """
    groups = defaultdict(list)
    with progress("looking for duplicates", len(inputs)) as advance:
        for row, digest in enumerate(sample_digests(inputs)):
            groups[digest].append(row)
            advance(1)
    found = (tuple(rows) for rows in groups.values() if len(rows) > 1)
    return tuple(rows for rows in found if len(set(labels[list(rows)].tolist())) > 1)
