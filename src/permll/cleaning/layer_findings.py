"""``layer_findings``: label issues of a training loop with a permutation layer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permll.cleaning.given_data import GivenData, read_given
from permll.cleaning.given_findings import Destination, Origin, finish_findings, score_labels
from permll.data.readers.options import check_keywords
from permll.findings import DEFAULT_THRESHOLD, Findings
from permll.functional.transition_fit import MIN_PROB
from permll.layer.base import CorrectionLayer
from permll.layer.module import PermutationLayer
from permll.layer.validation import check_finite
from permll.utils.messages import format_list

ORIGIN = Origin("layer", "a training loop with the permutation layer")


def layer_findings(
    layer: CorrectionLayer,
    data: Any,
    logits: Tensor | None = None,
    *,
    out: Path | str | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    images: Path | str | None = None,
    overwrite: bool = False,
    **reader: Any,
) -> Findings:
    """Return the findings of a layer's training, from the predictions of the network for its samples.

    With ``out``, they are saved in a folder for ``permll review`` and ``permll apply``. Since the layer keeps the
    network from memorizing labels, its predictions count as out of sample. Labels change without a review only if the
    layer held samples out.

    Args:
        layer: the layer, after the training.
        data: the N samples that the layer was built for, in the same order: whatever ``permll.data.load`` takes, or
            their inputs as arrays. If the layer has ids, they are those of the data, in any order, and the data may
            have more samples.
        logits: (N, c) logits of the network in evaluation mode, in the order of the layer. Default: the mean
            predictions that ``PermutationLayer`` keeps; the paper's layer keeps none.
        out: folder of the findings; "auto" is ``runs/NAME-layer``; None keeps nothing on disk.
        threshold: a label is an issue if it is correct with at most this probability.
        images: folder with a picture of each sample for report and review.
        overwrite: replace the findings in ``out``, unless they have review decisions.
        reader: how to read the data, see ``permll.data.readers.read``.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> logits = 5.0 * torch.nn.functional.one_hot(labels, 2)
        >>> labels[::10] = 1 - labels[::10]
        >>> layer_findings(PermutationLayer(labels, num_classes=2), torch.rand(100, 3), logits)
        Findings(100 labels, 10 issues)
    """
    options: Any = reader
    labels = layer.labels.tolist() if _are_inputs(data) else None
    given = read_given(data, labels, check_keywords(options, "findings"))
    log_p = _log_probs(layer, logits)
    if given.samples.num_classes < layer.num_classes and labels is not None:  # a class without a label
        names = tuple(map(str, range(layer.num_classes)))
        given = replace(given, samples=replace(given.samples, labels=layer.labels.cpu(), classes=names))
    given, rows = _match(layer, given)
    held_out = torch.zeros(len(layer), dtype=torch.bool)
    if isinstance(layer, PermutationLayer):
        held_out = (layer.loss_weight.values == 0).cpu()
    is_corrected = (layer.corrected_labels() != layer.labels).cpu()
    findings, estimate = score_labels(
        given.samples, log_p[rows], threshold, held_out=held_out[rows], is_corrected=is_corrected[rows]
    )
    return finish_findings(findings, estimate, given, ORIGIN, Destination(out, overwrite, images))


def _are_inputs(data: Any) -> bool:
    """Return whether data are arrays, tensors or lists, which have no labels."""
    return isinstance(data, Tensor | np.ndarray | list | tuple)


def _match(layer: CorrectionLayer, given: GivenData) -> tuple[GivenData, Tensor]:
    """Return the samples of the layer, and their rows in it."""
    samples = given.samples
    if samples.num_classes != layer.num_classes:
        raise ValueError(f"{given.where} has {samples.num_classes} classes, but the layer has {layer.num_classes}.")
    rows = given.match(len(layer), "the layer", None if layer.ids is None else list(map(str, layer.ids.values)))
    found = rows >= 0
    if int(found.sum()) < len(layer):
        raise ValueError(f"{given.where} has {int(found.sum()):,} of the layer's {len(layer):,} samples: pass all.")
    if not bool(found.all()):
        given, rows = replace(given, samples=samples.take(found), is_part=True), rows[found]
    different = (given.samples.labels != layer.labels.cpu()[rows]).nonzero()[:, 0].tolist()
    if different:
        ids = format_list([given.samples.ids[row] for row in different], "sample")
        raise ValueError(
            f"the layer has other labels than {given.where} for {ids}: pass the data that it was built for, in the "
            "same order, or build it with ids."
        )
    return given, rows


def _log_probs(layer: CorrectionLayer, logits: Tensor | None) -> Tensor:
    """Return log-probabilities (N, c) of the logits, or of the mean predictions of the layer."""
    if logits is None:
        if not isinstance(layer, PermutationLayer):
            raise ValueError("the layer of the paper keeps no predictions: pass logits=, those of the network.")
        return layer.mean_predictions().clamp_min(MIN_PROB).log().cpu()
    values = torch.as_tensor(logits)
    if values.shape != (len(layer), layer.num_classes):
        expected = (len(layer), layer.num_classes)
        raise ValueError(f"logits must have shape {expected}, one row per sample; got {tuple(values.shape)}.")
    check_finite(values)
    return values.detach().float().log_softmax(1).cpu()
