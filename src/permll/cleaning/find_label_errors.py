"""``find_label_errors``: label issues from out-of-sample predicted probabilities."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike

from permll.data.labels import encode_class_numbers, encode_labels
from permll.data.readers.raw_data import default_ids
from permll.findings import DEFAULT_THRESHOLD, Findings
from permll.functional.label_errors import find_errors
from permll.functional.noise_model import conservative_noise_model, fit_noise_model, label_posterior


def find_label_errors(
    labels: ArrayLike | Sequence[object],
    pred_probs: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
) -> Findings:
    """Find wrong labels from the probabilities of a classifier that was not trained on these labels.

    Such are the probabilities of ``sklearn.model_selection.cross_val_predict(..., method="predict_proba")``.

    Args:
        labels: N given labels: integers from 0 to c - 1, or class names.
        pred_probs: (N, c), one column for each class, in sorted order or in that of ``classes``.
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
    p = torch.as_tensor(pred_probs).detach().cpu().double()
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"pred_probs must have shape (N, c) with c >= 2, got {tuple(p.shape)}.")
    if not bool(p.isfinite().all()) or bool((p < 0).any()) or not bool(((p.sum(1) - 1).abs() < 1e-3).all()):
        raise ValueError("pred_probs must not be negative and each row must sum to 1; apply softmax to logits first.")
    given, names = _encode(labels, classes, p.shape[1])
    if len(given) != len(p):
        raise ValueError(f"pred_probs has {len(p)} rows, but there are {len(given)} labels: pass one label per row.")
    log_p = p.clamp_min(1e-12).log()
    errors = find_errors(log_p, given)
    conservative = conservative_noise_model(fit_noise_model(log_p, given), log_p, given)
    low, high = errors.limits
    metadata: dict[str, Any] = {
        "noise": {"rate": errors.rate, "low": low, "high": high, "rows": len(p), "by": "held_out"},
        "transition": errors.transition.tolist(),
    }
    return Findings.from_posterior(
        ids or default_ids(len(p)),
        names,
        given,
        errors.posterior,
        label_quality=errors.quality,
        conservative=label_posterior(log_p, given, conservative),
        threshold=threshold,
        issues_have_proposals=False,
        metadata=metadata,
    )


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
