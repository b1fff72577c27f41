"""PermLL+: the permutation layer that measures memorization and noise on held-out samples; for unknown noise."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from permll.data.streams import Batch
from permll.layer.module import MIN_HELD_OUT, PermutationLayer
from permll.methods._base import FitInfo, PredictLogits, setting
from permll.methods._state import ClassStateMethod, storage_kwargs
from permll.utils.indexing import subsample_rows

NUM_MONITORED = 1000  # training samples whose predictions are compared with those of held-out samples


class PermLLPlus(ClassStateMethod):
    """The loss through a ``PermutationLayer``, which explains the equations.

    Noise and memorization are measured on the validation data. Without them the layer holds out training samples.

    Args:
        held_out: fraction of the training samples to hold out if there are no validation data.
    """

    batch_coupling = "logits"
    layer: PermutationLayer

    held_out: float = setting(0.05, "[0, 1)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Create the layer."""
        super().on_fit_start(info)
        self._has_validation = info.held_out is not None and len(info.held_out) >= MIN_HELD_OUT
        self._monitored = subsample_rows(len(info.labels), NUM_MONITORED)
        self.layer = PermutationLayer(
            info.labels,
            info.num_classes,
            held_out=0.0 if self._has_validation else self.held_out,
            ids=info.ids,
            **storage_kwargs(self.top_k, self.state),
        )

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) through the layer."""
        return self.layer(self.networks["net"](batch.x), batch.index, reduction="none")

    def on_step_end(self) -> None:
        """Update the visited samples."""
        self.layer.step()

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Measure noise and memorization on the validation data."""
        if self._has_validation:
            held_out_labels = self.info.held_out
            assert held_out_labels is not None
            self.layer.update_estimates(
                predict_logits(held_out=True), held_out_labels, predict_logits(rows=self._monitored), self._monitored
            )

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the class probabilities (N, c) of the layer."""
        return self.layer.class_probs()

    def metrics(self) -> Mapping[str, float]:
        """Return the fraction of corrected labels, and the estimated fraction of correct ones."""
        corrected = self.layer.corrected_labels() != self.layer.labels
        return {"corrected": corrected.double().mean().item(), "right": self.layer.label_accuracy}

    def resolved_params(self) -> dict[str, Any]:
        """Return the fraction of training samples that were held out."""
        return {"held_out": 0.0 if self._has_validation else self.held_out}
