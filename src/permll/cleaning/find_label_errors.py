"""``find_label_errors``: label issues from out-of-sample predicted probabilities."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from permll.cleaning.class_names import are_integers
from permll.cleaning.given_data import GivenData, read_given
from permll.cleaning.given_findings import Destination, Origin, finish_findings, score_labels
from permll.cleaning.pred_probs import PredProbs, read_pred_probs
from permll.data.labels import encode_class_numbers, encode_labels
from permll.data.readers.options import check_keywords
from permll.data.readers.raw_data import RowNumbers
from permll.findings import DEFAULT_THRESHOLD, Findings
from permll.functional.label_errors import find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.functional.posterior import CHUNK_ROWS
from permll.functional.transition_fit import MIN_PROB
from permll.utils.messages import format_list

TOP_CLASSES = 5  # whose probabilities are kept for each sample
ORIGIN = Origin("pred_probs", "predicted probabilities")


def find_label_errors(
    labels: ArrayLike | Sequence[object] | None,
    pred_probs: ArrayLike | Path | str,
    *,
    data: Any = None,
    out: Path | str | None = None,
    features: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    images: Path | str | None = None,
    overwrite: bool = False,
    root: str | None = None,
    **reader: Any,
) -> Findings:
    """Find wrong labels from the probabilities of a classifier that was not trained on these labels.

    Such are the probabilities of ``sklearn.model_selection.cross_val_predict(..., method="predict_proba")``. With
    ``data`` and ``out``, the findings are saved in a folder for ``permll review`` and ``permll apply``.

    Args:
        labels: N given labels: integers from 0 to c - 1, or class names. None for the labels in ``data``.
        pred_probs: (N, c), one column for each class, in sorted order or in that of ``classes``; a data frame with
            class names as columns; or a file: .npy, .npz, .csv, .tsv or .parquet. A column ``id`` of a data frame or a
            table holds sample ids, otherwise the rows have the order of the samples.
        data: whatever ``permll.data.load`` takes: a path, a data frame, arrays. Labels of a file or a folder are those
            in it.
        out: folder of the findings, if there are data; "auto" is ``runs/NAME-pred-probs``; None keeps nothing on disk.
        features: (N, d) vectors of the samples, such as embeddings; the labels of the nearest ones then count, too.
        classes: c class names, in the order of the columns.
        ids: N sample ids; default those of the data, or the row numbers.
        threshold: a label is an issue if it is correct with at most this probability and another class is more
            probable.
        images: folder with a picture of each sample for report and review, in the sorted order of their paths, or named
            by the sample ids.
        overwrite: replace the findings in ``out``, unless they have review decisions.
        root: folder of the built-in data sets.
        reader: how to read the data (``label="species"``, ``text=...``), see ``permll.data.readers.read``.

    Examples:
        >>> import numpy as np
        >>> labels = np.tile([0, 1], 50)
        >>> probabilities = np.eye(2)[labels] * 0.98 + 0.01
        >>> labels[::10] = 1 - labels[::10]
        >>> find_label_errors(labels, probabilities)
        Findings(100 labels, 10 issues)
        >>> found = find_label_errors(labels, probabilities, data=np.random.rand(100, 3))
        >>> len(found), int(found.is_issue.sum())
        (100, 10)
    """
    probs = read_pred_probs(pred_probs)
    shape = np.shape(probs.values)
    if len(shape) != 2 or shape[1] < 2:
        raise ValueError(f"{probs.name} must have shape (N, c) with c >= 2, got {shape}.")
    if data is None:
        more = {"out": out, "images": images, "root": root, **reader}
        if given_more := [f"{name}=" for name, value in more.items() if value is not None]:
            raise ValueError(f"{format_list(given_more, 'argument')} need data: pass the samples as data=.")
        if labels is None:
            raise ValueError("there are no labels: pass them, or data= that have some.")
        return _find_without_data(labels, probs, features, classes, ids, threshold)
    options: Any = {**reader, "classes": classes, "ids": ids}
    given = read_given(data, labels, check_keywords(options, "find_label_errors"), root)
    given, log_p = _match(probs, given)
    x = None if features is None else _features(features, len(np.asarray(features)))
    if x is not None:
        x = x[given.match(len(x), "features")]
        log_p = add_votes(log_p, neighbor_votes(x, given.samples.labels, log_p.shape[1]), given.samples.labels)
    findings, estimate = score_labels(given.samples, log_p, threshold, features=x)
    return finish_findings(findings, estimate, given, ORIGIN, Destination(out, overwrite, images))


def _find_without_data(
    labels: ArrayLike | Sequence[object],
    probs: PredProbs,
    features: ArrayLike | None,
    classes: Sequence[str] | None,
    ids: Sequence[str] | None,
    threshold: float,
) -> Findings:
    shape = np.shape(probs.values)
    given, names = _encode(labels, classes or probs.classes, shape[1])
    if len(given) != shape[0]:
        raise ValueError(
            f"{probs.name} has {shape[0]} rows, but there are {len(given)} labels: pass one label per row."
        )
    log_p = _log_probs(probs.values, probs.name)
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
        ids or probs.ids or RowNumbers(len(given)),
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


def _match(probs: PredProbs, given: GivenData) -> tuple[GivenData, torch.Tensor]:
    """Return the samples with the classes of the probabilities, and their log-probabilities (N, c)."""
    rows = given.match(len(probs.values), probs.name, probs.ids, probs.row_index)
    if bool((rows < 0).any()):
        missing = [given.samples.ids[row] for row in (rows < 0).nonzero()[:, 0].tolist()]
        raise ValueError(f"{probs.name} has no row for {format_list(missing, 'sample')} of {given.where}: add them.")
    columns, classes = _columns(probs, given)
    is_ordered = columns == list(range(len(classes))) and torch.equal(rows, torch.arange(len(probs.values)))
    values = probs.values if is_ordered else np.asarray(probs.values)[rows.numpy()][:, columns]
    labels, _ = encode_labels([given.samples.classes[k] for k in given.samples.labels.tolist()], classes)
    samples = replace(given.samples, labels=labels, classes=classes)
    return replace(given, samples=samples), _log_probs(values, probs.name)


def _columns(probs: PredProbs, given: GivenData) -> tuple[list[int], tuple[str, ...]]:
    """Return the columns in the order of the classes, and the classes: those of the data, then others."""
    classes, count = given.samples.classes, np.shape(probs.values)[1]
    if probs.classes is not None:
        missing = [name for name in classes if name not in probs.classes]
        if missing:
            raise ValueError(
                f"{probs.name} has no column for {format_list(missing, 'class')} of {given.where}: add it."
            )
        classes = (*classes, *(name for name in probs.classes if name not in classes))
        return [probs.classes.index(name) for name in classes], classes
    if len(classes) < count and all(name.isdigit() and int(name) < count for name in classes):
        return list(range(count)), tuple(map(str, range(count)))  # columns are class numbers
    if len(classes) != count:
        raise ValueError(
            f"{probs.name} has {count} columns, but {given.where} has {format_list(classes, 'class')}: pass one column "
            "per class in this order, or a table with class names as columns."
        )
    if given.has_own_order and list(classes) != sorted(classes) and not are_integers(classes):
        raise ValueError(
            f"{given.where} has classes in an order of its own ({', '.join(classes)}), and {probs.name} has no names "
            "of columns: pass a table with class names as columns, or classes=."
        )
    return list(range(count)), classes


def _log_probs(pred_probs: Any, name: str) -> torch.Tensor:
    """Return log-probabilities (N, c) in float32, block by block, so that an array on disk is not loaded as a whole."""
    probs: Any = pred_probs.detach().cpu() if isinstance(pred_probs, torch.Tensor) else pred_probs
    probs = probs if isinstance(probs, torch.Tensor | np.ndarray) else np.asarray(probs)
    log_p = torch.empty(tuple(probs.shape), dtype=torch.float32)
    for block in torch.arange(len(log_p)).split(CHUNK_ROWS):
        rows = slice(int(block[0]), int(block[-1]) + 1)
        p = log_p[rows].copy_(torch.tensor(np.asarray(probs[rows])))
        if not bool(p.isfinite().all()) or bool((p < 0).any()) or not bool(((p.sum(1) - 1).abs() < 1e-3).all()):
            raise ValueError(f"{name} must not be negative and each row must sum to 1; apply softmax to logits first.")
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
