"""Samples that are equal to the last bit and do not have one label: at most one of the labels is right."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permll.data.decoding import OpenFile
from permll.data.inputs import Inputs, LazyImages, Table, Texts
from permll.data.progress import progress


def contradictions(inputs: Inputs, labels: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return the groups of rows that are equal and do not all have the same label, each in order.

    Images in files are compared by what the files hold; others by their values.

    Examples:
        >>> texts = Texts(("good", "bad", "good", "bad"))
        >>> contradictions(texts, torch.tensor([1, 0, 0, 0]))
        ((0, 2),)
    """
    groups = defaultdict(list)
    with progress("looking for duplicates", len(inputs)) as advance:
        for row, digest in enumerate(_digests(inputs)):
            groups[digest].append(row)
            advance(1)
    found = (tuple(rows) for rows in groups.values() if len(rows) > 1)
    return tuple(rows for rows in found if len(set(labels[list(rows)].tolist())) > 1)


def _digests(inputs: Inputs) -> Iterator[bytes]:
    for row in range(len(inputs)):
        yield hashlib.blake2b(_content(inputs, row), digest_size=16).digest()


def _content(inputs: Inputs, row: int) -> bytes:
    if isinstance(inputs, LazyImages) and isinstance(inputs.open, OpenFile):
        return (inputs.open.root / inputs.open.names[int(inputs.rows[row])]).read_bytes()
    shown: Any = inputs.show(row)
    if isinstance(inputs, Texts):
        return str(shown).encode()
    if isinstance(inputs, Table):
        return json.dumps(shown, sort_keys=True).encode()
    if isinstance(shown, Tensor):
        return shown.contiguous().view(torch.uint8).numpy().tobytes() + str(tuple(shown.shape)).encode()
    return np.asarray(shown).tobytes() + str(np.asarray(shown).shape).encode()  # an image
