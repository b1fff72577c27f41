"""``find_label_errors``: label issues from out-of-sample predicted probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from permll.data.labels import encode_class_numbers, encode_labels
from permll.data.readers.raw_data import RowNumbers
from permll.findings import DEFAULT_THRESHOLD, Findings
from permll.functional.label_errors import find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.functional.posterior import CHUNK_ROWS
from permll.functional.transition_fit import MIN_PROB

TOP_CLASSES = 5  # whose probabilities are kept for each sample


def find_label_errors(
    labels: ArrayLike | Sequence[object],
    pred_probs: ArrayLike,
    *,
    features: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
) -> Findings:
    """Find wrong labels from the probabilities of a classifier that was not trained on these labels.

    Such are the probabilities of ``sklearn.model_selection.cross_val_predict(..., method="predict_proba")``.

    Args:
        labels: N given labels: integers from 0 to c - 1, or class names.
        pred_probs: (N, c), one column for each class, in sorted order or in that of ``classes``.
        features: (N, d) vectors of the samples, such as embeddings; the labels of the nearest ones then count, too.
        classes: c class names, in the order of the columns.
        ids: N sample ids; default the row numbers.
        threshold: a label is an issue if it is correct with at most this probability and another class is more
            probable.

    Examples:
        >>> import numpy as np
        >>> labels = np.tile([0, 1], 50)
        >>> probabilities = np.eye(2)[labels] * 0.98 + 0.01
        >>> labels[::10] = 1 - labels[::10]
        >>> find_label_errors(labels, probabilities)
        Findings(100 labels, 10 issues)
    """
    shape = np.shape(pred_probs)
    if len(shape) != 2 or shape[1] < 2:
        raise ValueError(f"pred_probs must have shape (N, c) with c >= 2, got {shape}.")
    given, names = _encode(labels, classes, shape[1])
    if len(given) != shape[0]:
        raise ValueError(f"pred_probs has {shape[0]} rows, but there are {len(given)} labels: pass one label per row.")
    log_p = _log_probs(pred_probs)
    if features is not None:
        log_p = add_votes(log_p, neighbor_votes(_features(features, len(given)), given, shape[1]), given)
    errors = find_errors(log_p, given)
    del log_p  # a million rows take much memory
    low, high = errors.limits
    metadata: dict[str, Any] = {
        "noise": {"rate": errors.rate, "low": low, "high": high, "rows": len(given), "by": "held_out"},
        "transition": errors.transition.tolist(),
    }
    return Findings.from_posterior(
        ids or RowNumbers(len(given)),
        names,
        given,
        errors.posterior,
        label_quality=errors.quality,
        conservative_confidence=errors.confidence,
        top_k=TOP_CLASSES,
        threshold=threshold,
        issues_have_proposals=False,
        metadata=metadata,
    )


def _log_probs(pred_probs: ArrayLike) -> torch.Tensor:
    """Return log-probabilities (N, c) in float32, block by block, so that an array on disk is not loaded as a whole."""
    probs: Any = pred_probs.detach().cpu() if isinstance(pred_probs, torch.Tensor) else pred_probs
    probs = probs if isinstance(probs, torch.Tensor | np.ndarray) else np.asarray(probs)
    log_p = torch.empty(tuple(probs.shape), dtype=torch.float32)
    for block in torch.arange(len(log_p)).split(CHUNK_ROWS):
        rows = slice(int(block[0]), int(block[-1]) + 1)
        p = log_p[rows].copy_(torch.tensor(np.asarray(probs[rows])))
        if not bool(p.isfinite().all()) or bool((p < 0).any()) or not bool(((p.sum(1) - 1).abs() < 1e-3).all()):
            raise ValueError(
                "pred_probs must not be negative and each row must sum to 1; apply softmax to logits first."
            )
        p.clamp_min_(MIN_PROB).log_()
    return log_p


def _features(features: ArrayLike, rows: int) -> torch.Tensor:
    x = torch.tensor(np.asarray(features), dtype=torch.float32)
    if x.ndim != 2 or len(x) != rows:
        raise ValueError(f"features must have shape ({rows}, d), one row per label; got {tuple(x.shape)}.")
    if not bool(x.isfinite().all()):
        row = int((~x.isfinite()).any(1).nonzero()[0])
        raise ValueError(f"features of row {row} are NaN or infinite: fill them in, or remove the row.")
    return x


def _encode(
    labels: ArrayLike | Sequence[object], classes: Sequence[str] | None, columns: int
) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Return class numbers (N,) and class names."""
    given, names = encode_labels(labels, classes)
    if classes is None and len(names) < columns and all(name.isdigit() for name in names):  # a class without a label
        given, names = encode_class_numbers(labels, [str(k) for k in range(columns)])
    if len(names) != columns:
        raise ValueError(
            f"pred_probs has {columns} columns, but the labels have {len(names)} classes: pass classes=[...]."
        )
    return given, names
