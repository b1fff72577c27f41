"""The audit of a run: near-duplicates, leaks, outliers, rare classes and empty values, from features it has anyway."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permll.audit import Audit
from permll.cleaning.audit_features import OUTLIER_SIDE, blank_rows, comparable_features, without_flags
from permll.cleaning.near_duplicates import Pair, find_pairs, group_numbers
from permll.data.dataset import LabeledData
from permll.data.inputs import Inputs, Table, Texts, Vectors
from permll.functional.outliers import outlier_scores

MAX_PAIRS = 1_000  # of near-duplicates and of leaks in the facts; the columns have all groups
MAX_IDS = 1_000
MIN_CLASS_RATIO = 0.1  # a class with less than this share of the samples of the largest one is rare


@dataclass(frozen=True, eq=False)
class AuditInput:
    """What an audit compares.

    Args:
        data: N samples as they were read, with their given labels.
        encoded: the same samples as the network takes them.
        max_probs: (N,) probability of the predicted class.
        test: test samples as they were read, if leaks are searched.
        encoded_test: the same, encoded.
    """

    data: LabeledData
    encoded: Inputs
    max_probs: Tensor | None = None
    test: LabeledData | None = None
    encoded_test: Inputs | None = None

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs of near-duplicates; rows from N on are test samples."""
        inputs = [self.encoded, *([] if self.encoded_test is None else [self.encoded_test])]
        texts = None
        if isinstance(self.data.inputs, Texts):
            more = self.test.inputs.texts if self.test is not None and isinstance(self.test.inputs, Texts) else ()
            texts = (*self.data.inputs.texts, *more)
        return find_pairs(_joint_features(inputs), texts, len(self.data))

    @cached_property
    def groups(self) -> np.ndarray[Any, Any]:
        """(N,) numbers of the groups of near-duplicates, 0 for none."""
        n = len(self.data)
        return group_numbers([pair for pair in self.pairs if pair.second < n], n)


def audit(given: AuditInput) -> Audit:
    """Return the audit of samples; a part that fails is a warning, and is listed in the facts.

    Examples:
        >>> x = torch.randn(200, 20, generator=torch.Generator().manual_seed(0))
        >>> x[7], x[9] = x[3], 50.0
        >>> labels, ids = torch.arange(200) % 2, tuple(map(str, range(200)))
        >>> found = audit(AuditInput(LabeledData(Vectors(x), labels, ("a", "b"), ids), Vectors(x)))
        >>> found.groups, found.is_outlier.nonzero()[0]
        ([[3, 7]], array([9]))
    """
    n = len(given.data)
    groups, scores = np.zeros(n, np.int32), np.full(n, np.nan, np.float32)
    facts: dict[str, Any] = {"failed": {}}

    def near_duplicates() -> dict[str, Any]:
        groups[:] = given.groups
        return _near_duplicates(given)

    def outliers() -> dict[str, Any]:
        x = comparable_features(given.encoded, OUTLIER_SIDE)
        x = without_flags(x) if isinstance(given.encoded, Vectors) else x
        found = outlier_scores(x, given.max_probs, given.data.num_classes)
        scores[:] = found.round(decimals=4).numpy()  # further digits depend on the machine
        return {"count": int((scores >= 0.5).sum())}

    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "near_duplicates": near_duplicates,
        "leaks": lambda: _leaks(given),
        "outliers": outliers,
        "classes": lambda: _classes(given.data),
        "empty": lambda: _empty(given.data, groups, scores),
    }
    for name, compute in parts.items():
        if name == "leaks" and given.test is None:
            continue
        try:
            facts[name] = compute()
        except Exception as error:  # the findings are worth more than the audit
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"the audit has no {name.replace('_', '-')}: {reason:.300}", stacklevel=2)
            facts["failed"][name] = reason
    return Audit(groups, scores, facts)


def _joint_features(inputs: list[Inputs]) -> Tensor:
    """Return the features of all samples, with one scale."""
    if all(isinstance(one, Vectors) for one in inputs):
        first = inputs[0]
        assert isinstance(first, Vectors)
        values = torch.cat([one.values for one in inputs if isinstance(one, Vectors)])
        return comparable_features(Vectors(values, scaled=first.scaled))
    features = [comparable_features(one) for one in inputs]
    if len({one.shape[1] for one in features}) > 1:  # color images and gray ones
        features = [comparable_features(one, gray=True) for one in inputs]
    return torch.cat(features)


def _near_duplicates(given: AuditInput) -> dict[str, Any]:
    """Return the number of groups, and the most similar pairs by id."""
    n, labels, ids = len(given.data), given.data.labels.numpy(), given.data.ids
    members: dict[int, set[int]] = {}
    for row in given.groups.nonzero()[0].tolist():
        members.setdefault(int(given.groups[row]), set()).add(int(labels[row]))
    conflicts = [number for number, found in members.items() if len(found) > 1]
    pairs = [pair for pair in given.pairs if pair.second < n]
    pairs.sort(key=lambda pair: (labels[pair.first] == labels[pair.second], pair.is_identical, -pair.similarity))
    return {
        "groups": len(members),
        "samples": int((given.groups > 0).sum()),
        "identical": sum(pair.is_identical for pair in pairs),
        "conflicts": conflicts,
        "pairs": [
            {
                "ids": [ids[pair.first], ids[pair.second]],
                "labels": [given.data.classes[labels[row]] for row in pair[:2]],
                "similarity": pair.similarity,
                "identical": pair.is_identical,
            }
            for pair in pairs[:MAX_PAIRS]
        ],
    }


def _leaks(given: AuditInput) -> dict[str, Any]:
    """Return the test samples that are near-duplicates of training samples, each with the most similar one."""
    assert given.test is not None
    n = len(given.data)
    best: dict[int, Pair] = {}
    for pair in _with_first_of_identical(given.pairs, n):
        if pair.first < n <= pair.second:
            best.setdefault(pair.second, pair)  # pairs are sorted
    data, test = given.data, given.test
    pairs = [
        {
            "ids": [data.ids[pair.first], test.ids[pair.second - n]],
            "labels": [data.classes[data.labels[pair.first]], test.classes[test.labels[pair.second - n]]],
            "similarity": pair.similarity,
            "identical": pair.is_identical,
        }
        for pair in best.values()
    ]
    source = str(test.metadata.get("source") or test.metadata.get("name", ""))
    identical = sum(bool(pair["identical"]) for pair in pairs)
    return {"data": source, "samples": len(test), "count": len(pairs), "identical": identical, "pairs": pairs}


def _with_first_of_identical(pairs: list[Pair], n: int) -> list[Pair]:
    """Return the pairs, and those of test samples that equal a test sample which a training sample resembles."""
    twins: dict[int, list[int]] = {}
    for pair in pairs:
        if pair.is_identical and pair.first >= n:
            twins.setdefault(pair.first, []).append(pair.second)
    more = [pair._replace(second=twin) for pair in pairs for twin in twins.get(pair.second, ()) if pair.first < n]
    return [*pairs, *more]


def _classes(data: LabeledData) -> dict[str, Any]:
    """Return the number of samples of each class, most frequent first, and those that are rare."""
    counts = dict(
        Counter({name: int(n) for name, n in zip(data.classes, data.class_counts, strict=True)}).most_common()
    )
    largest = max(counts.values(), default=0)
    rare = [name for name, count in counts.items() if count < MIN_CLASS_RATIO * largest]
    return {"counts": counts, "rare": rare, "min_ratio": MIN_CLASS_RATIO}


def _empty(data: LabeledData, groups: np.ndarray[Any, Any], scores: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the number of empty cells of each column, and the ids of blank images, texts or vectors."""
    inputs, columns, blank = data.inputs, {}, []
    if isinstance(inputs, Table):
        for name, column in inputs.columns.items():
            is_empty = np.isnan(column) if column.dtype.kind == "f" else column == ""
            if count := int(np.asarray(is_empty).sum()):
                columns[name] = count
    elif isinstance(inputs, Texts):
        blank = [row for row, text in enumerate(inputs.texts) if not text.strip()]
    else:  # of images in files, only those that resemble others or none are decoded
        blank = blank_rows(inputs, lambda: torch.from_numpy(((groups > 0) | (scores >= 0.5)).nonzero()[0]))
    return {"columns": columns, "samples": len(blank), "ids": [data.ids[row] for row in blank[:MAX_IDS]]}
