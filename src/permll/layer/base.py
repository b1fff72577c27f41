"""``CorrectionLayer``: what the permutation layers have in common: checks, reading α, settings in the state dict."""

import json
import warnings
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.distributed.exchange import SharedProcessGroup, gather_batches
from permll.layer import compiled, equations
from permll.layer.autograd import MAX_PENDING, BatchLoss, RecordedLoss, Reduction, Visit, is_recorded, reduce_loss
from permll.layer.sample_state import SampleState
from permll.layer.table import RowTable
from permll.layer.validation import (
    Index,
    Labels,
    RowIds,
    check_batch,
    check_finite,
    check_given_labels,
    check_index,
    looks_like_labels,
    looks_like_probabilities,
    select_rows,
)

REDUCTIONS = get_args(Reduction)
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
CHECKED_BATCHES = 4  # first batches in which index is compared with class labels


def check_dtype(dtype: torch.dtype) -> None:
    """Raise unless α can be stored in ``dtype``."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(str, DTYPES))}; got {dtype!r}.")


class CorrectionLayer(SampleState):
    """A classification loss with parameters per training sample that correct the sample's label.

    Subclasses define the loss, the update of the parameters and the verdict on the labels.

    Args:
        labels: (N,) given labels.
        num_classes: c.
        ids: sample ids.
        table: the parameters, one row per sample.
        name: key of the table in the state dict.
        settings: settings that a saved state must share.
        process_group: processes whose batches ``step`` exchanges.
    """

    loss: equations.LossName = "ce"

    def __init__(
        self,
        labels: Tensor,
        num_classes: int,
        ids: RowIds | None,
        table: RowTable,
        name: str,
        settings: Mapping[str, Any],
        process_group: Any = None,
    ) -> None:
        super().__init__(labels, ids, table, name)
        self.num_classes = num_classes
        self._settings = dict(settings)
        self._processes = SharedProcessGroup(process_group)
        self._pending: list[Visit] = []
        self._checked_logits = False
        self._unchecked_batches = CHECKED_BATCHES
        self._number = compiled.register(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copied or unpickled layer."""
        super().__setstate__(state)
        self._number = compiled.register(self)

    @property
    def _stored_entries(self) -> int:
        """Return the number of entries of a sample in updates; 0 for all classes."""
        return 0

    def forward(
        self, logits: Tensor, index: Index, reduction: Reduction = "mean", *, labels: Labels | None = None
    ) -> Tensor:
        """Return the loss of the samples at ``index`` (B,) from their ``logits`` (B, c); see the class.

        Args:
            logits: raw scores of the network.
            index: position of each sample in the labels that the layer was built with.
            reduction: ``"mean"``, ``"sum"`` or ``"none"``.
            labels: (B,) given labels of the batch, only to check ``index``: an error if they are not the layer's.
        """
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be mean, sum or none; got {reduction!r}.")
        if torch.compiler.is_compiling():
            return reduce_loss(compiled.batch_losses(self, logits, index, labels), reduction)
        index, logits = self._check(logits, index, labels)
        if not self.training:
            return reduce_loss(self._plain_loss(logits, index), reduction)
        positions = self._local_index(index).clone()  # the caller may overwrite its index
        loss = self._corrected_loss(logits.detach(), positions, index)
        record = partial(self._record, positions, loss.updates)
        return RecordedLoss.apply(logits, loss.losses, loss.grad_logits, record, reduction)

    def _check(self, logits: Tensor, index: Index, labels: Labels | None) -> tuple[Tensor, Tensor]:
        """Return positions (B,) and logits in at least the dtype of the rows; raise if the batch does not fit."""
        index = check_index(index, self.ids)
        check_batch(logits, index, self.num_classes)
        if not self._checked_logits:
            self._checked_logits = True
            if looks_like_probabilities(logits.detach()):
                _warn("the first logits look like probabilities: pass the network's raw scores, without softmax.")
        if self._unchecked_batches and self.training:
            self._unchecked_batches -= 1
            if looks_like_labels(index, self.num_classes, len(self)):
                self._unchecked_batches = 0
                _warn(
                    "index looks like class labels: pass each sample's position in the training set; "
                    "permll.IndexedDataset adds it to the samples of a data set."
                )
        if labels is not None:
            check_given_labels(labels, self._labels(index), index)
        if logits.dtype is not self._row_dtype:
            logits = logits.to(torch.promote_types(logits.dtype, self._row_dtype))  # at least float32, like the rows
        return index, logits

    def _plain_loss(self, logits: Tensor, index: Tensor) -> Tensor:
        """Return the loss (B,) against the given labels."""
        self._check_finite(logits, index)
        return equations.plain_loss(logits, self._labels(index).to(logits.device), self.loss)

    def _corrected_loss(self, logits: Tensor, positions: Tensor, index: Tensor) -> BatchLoss:
        """Return losses, gradients and updates from detached logits; raise if one is not finite."""
        raise NotImplementedError

    def _check_finite(self, logits: Tensor, index: Tensor) -> None:
        # On an accelerator reading the result would synchronize the device. There NaN and +inf show in the loss, and
        # the rows of these samples are not updated.
        if logits.is_cpu:
            check_finite(logits.detach(), index)

    def step(self) -> None:
        """Update the parameters of the samples that went through ``backward`` since the last step.

        With several processes this is a collective call: each one updates the samples of all.
        """
        if torch.compiler.is_compiling():
            compiled.step(self)
            return
        visits = self._exchange() if self._is_distributed() else self._pending.copy()
        self._pending.clear()
        self._update(visits)

    def _update(self, visits: list[Visit]) -> None:
        """Update the parameters of the samples of some batches."""
        raise NotImplementedError

    def _is_distributed(self) -> bool:
        """Return whether other processes have batches. The processes of ``permll train`` exchange theirs themselves."""
        return self.placement.group.is_single and not self._processes.is_single

    def _exchange(self) -> list[Visit]:
        """Return the batches of all processes as one, the same on every process."""
        tensors: list[Tensor] = []
        if self._pending:
            rows = [(visit.positions, is_recorded(visit), *visit.updates) for visit in self._pending]
            tensors = [torch.cat(parts) for parts in zip(*rows, strict=True)]
        gathered = gather_batches(tensors, self._processes.group)
        if not gathered:
            return []
        all_positions, mask, *all_updates = gathered
        return [Visit(all_positions.to(self._row_device), tuple(all_updates), None if mask.all() else mask)]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discard the visits recorded since the last step, for a step that is skipped."""
        self._pending.clear()
        super().zero_grad(set_to_none)

    def weights(self, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return a = softmax(α), the weight of each class, for all samples or those at ``index``."""
        return self._alpha(index).softmax(-1)

    def matrix(self, i: int | str) -> Float[Tensor, "classes classes"]:
        """Return the c x c layer P̄ = Σ_k a_k P(y, k) of sample ``i``, for inspection."""
        index = check_index(i, self.ids)
        (alpha,), (label,) = self._alpha(index), self._labels(index)
        return equations.layer_matrix(alpha, int(label))

    def posterior(self, logits: Tensor, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return r = softmax(α + logits), the posterior of the true class given the input and the given label.

        ``logits`` belong to all N samples in order, or to those at ``index``. Compute them in evaluation mode.
        """
        alpha = self._alpha(index)
        self._check_logits(logits, len(alpha))
        return equations.posterior(alpha, logits.detach().to(alpha))

    def corrected_labels(self) -> Int[Tensor, " rows"]:
        """Return the most probable class of each sample, (N,)."""
        raise NotImplementedError

    def label_quality(self) -> Float[Tensor, " rows"]:
        """Return the quality of each given label, (N,) in [0, 1], low = suspect."""
        raise NotImplementedError

    def suspects(self, limit: int | None = None, **kwargs: Any) -> Int[Tensor, " rows"]:
        """Return the positions of all samples, or the first ``limit``, ordered by ``label_quality``, lowest first.

        Further arguments are those of ``label_quality``.
        """
        if limit is not None and not (isinstance(limit, int) and limit >= 0):
            raise ValueError(f"limit must be an integer >= 0, got {limit!r}.")
        return self.label_quality(**kwargs).argsort(stable=True)[:limit]

    def findings(self, data: Any, logits: Tensor | None = None, **options: Any) -> Any:
        """Return ``Findings`` for the samples; with ``out=``, in a folder for ``permll review`` and ``permll apply``.

        See ``permll.cleaning.layer_findings.layer_findings``.
        """
        # The layer imports nothing of the package that needs more than torch, unless findings are asked for.
        return import_module("permll.cleaning.layer_findings").layer_findings(self, data, logits, **options)

    def extra_repr(self) -> str:
        """Return size and settings."""
        settings = ", ".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in self._settings.items()
        )
        return f"{len(self.labels)} rows, num_classes={self.num_classes}, {settings}"

    def _record(self, positions: Tensor, updates: tuple[Tensor, ...], mask: Tensor | None) -> None:
        """Keep a batch until ``step``; called in ``backward``."""
        self._pending.append(Visit(positions, updates, mask))
        if len(self._pending) == MAX_PENDING:
            _warn(
                f"{MAX_PENDING} batches went through backward since the last layer.step(): call it after "
                "optimizer.step(), or call layer.zero_grad() to discard them."
            )

    def _alpha(self, index: Index | None) -> Tensor:
        raise NotImplementedError

    def _warn_if_pending(self) -> None:
        if self._pending:
            _warn(f"the gradients of {len(self._pending)} batches are not applied to α yet: call layer.step() first.")

    def _labels(self, index: Tensor) -> Tensor:
        return select_rows(self.labels, index.to(self.labels.device))

    def _check_logits(self, logits: Tensor, rows: int) -> None:
        if not isinstance(logits, Tensor):
            raise TypeError(f"logits must be a tensor, got {type(logits).__name__}.")
        if logits.shape != (rows, self.num_classes):
            raise ValueError(f"logits must have shape {(rows, self.num_classes)}, got {tuple(logits.shape)}.")
        check_finite(logits.detach())

    def _shape_error(self, shape: tuple[int, ...]) -> str:
        return f"the state has shape {shape}, but this layer has {self.num_classes} classes."

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # A tensor, since checkpoints hold tensors only.
        settings = json.dumps({"layer": type(self).__name__, **self._settings})
        destination[prefix + "settings"] = torch.frombuffer(bytearray(settings.encode()), dtype=torch.uint8)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        missing_keys, error_msgs = args[2], args[-1]
        rest = dict(state_dict)
        saved = rest.pop(prefix + "settings", None)
        if saved is None:
            missing_keys.append(prefix + "settings")
            if any(key.startswith(prefix) for key in rest):  # else the state of a model without the layer
                error_msgs.append("the state has no settings: it was not saved by this layer.")
            return
        settings = json.loads(saved.cpu().numpy().tobytes())
        own = {"layer": type(self).__name__, **self._settings}
        # Another layer has other settings; only its name matters then.
        names = ["layer"] if settings.get("layer") != own["layer"] else [*{**settings, **own}]
        different = [
            f"{name}={settings.get(name)!r} instead of {own.get(name)!r}"
            for name in names
            if settings.get(name) != own.get(name)
        ]
        if different:
            error_msgs.append(
                f"the state was saved with {', '.join(different)}: build the layer with the settings of the state."
            )
            return
        super()._load_from_state_dict(rest, prefix, *args)
        if not error_msgs:
            self._pending.clear()  # recorded visits belong to the rows that were replaced


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)
