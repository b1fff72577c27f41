"""``find_label_errors``: findings from probabilities that somebody has already."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike

from permll.cleaning.findings import THRESHOLD, Findings
from permll.data.labels import encode_class_numbers, encode_labels
from permll.data.readers.raw_data import default_ids
from permll.functional.label_posterior import conservative_model, fit_noise_model, label_posterior


def find_label_errors(
    labels: ArrayLike | Sequence[object],
    pred_probs: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    threshold: float = THRESHOLD,
) -> Findings:
    """Return what is wrong with labels, as told by probabilities of rows that the classifier was not trained on.

    Such as those of a cross-validation, ``sklearn.model_selection.cross_val_predict(..., method="predict_proba")``.

    Args:
        labels: N of them; numbers from 0 to c - 1, or the names of classes.
        pred_probs: (N, c), one column for each class: sorted by name or value, or as in ``classes``.
        classes: c names, in the order of the columns.
        ids: N names of the rows; default their numbers.
        threshold: a label is flagged if it is right with at most this probability, and another is more probable.

    Examples:
        >>> import numpy as np
        >>> labels = np.tile([0, 1], 50)
        >>> probabilities = np.eye(2)[labels] * 0.98 + 0.01
        >>> labels[::10] = 1 - labels[::10]
        >>> find_label_errors(labels, probabilities)
        Findings(100 labels, 10 flagged)
    """
    p = torch.as_tensor(pred_probs).detach().cpu().double()
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"pred_probs must be (N, c) with two columns or more, got shape {tuple(p.shape)}.")
    if not bool(p.isfinite().all()) or bool((p < 0).any()) or not bool(((p.sum(1) - 1).abs() < 1e-3).all()):
        raise ValueError("pred_probs must be 0 or more and each row sum to 1; of logits, take softmax first.")
    given, names = _named(labels, classes, p.shape[1])
    if len(given) != len(p):
        raise ValueError(f"every row needs one label: there are {len(p)} rows of pred_probs and {len(given)} labels.")
    log_p = p.clamp_min(1e-12).log()
    noise_model = fit_noise_model(log_p, given)
    low, high = noise_model.interval
    about: dict[str, Any] = {
        "noise": {"rate": noise_model.rate, "low": low, "high": high, "rows": len(p)},
        "transition": noise_model.transition.tolist(),
    }
    posterior, conservative = (
        label_posterior(log_p, given, one) for one in (noise_model, conservative_model(noise_model, log_p, given))
    )
    ids = ids or default_ids(len(p))
    return Findings.of_posterior(
        ids, names, given, posterior, conservative=conservative, threshold=threshold, metadata=about
    )


def _named(
    labels: ArrayLike | Sequence[object], classes: Sequence[str] | None, columns: int
) -> tuple[torch.Tensor, tuple[str, ...]]:
    if classes is not None:
        given, names = encode_labels(labels, classes)
    else:
        given, names = encode_labels(labels)
        if len(names) < columns and all(name.isdigit() for name in names):  # a class that no row is labelled with
            given, names = encode_class_numbers(labels, [str(k) for k in range(columns)])
    if len(names) != columns:
        raise ValueError(
            f"pred_probs has {columns} columns, but the labels have {len(names)} classes: name them all, classes=[...]."
        )
    return given, names
