"""Decoupling: two networks train only on samples for which they disagree (NeurIPS 2017)."""

from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.selection import disagreement_mask, selection_weights
from permll.methods._base import FitInfo, PredictLogits, TrainPass, in_epochs
from permll.methods._small_loss import TwoNetworks
from permll.utils.validation import check_range


class Decoupling(TwoNetworks):
    """Cross-entropy of both networks, averaged over the samples for which they predict different classes.

    Wrong labels are not detected: they are used as long as the networks disagree, which becomes rarer.

    Args:
        warm_up: initial epochs on all samples, or a fraction of all epochs if below 1.
        min_fraction: fraction of disagreement in a batch below which the step shrinks, as in the authors' code, instead
            of a full step on a few samples.
    """

    def __init__(self, *, warm_up: float = 0.0, min_fraction: float = 0.1) -> None:
        super().__init__()
        check_range("[0, inf)", warm_up=warm_up)
        check_range("[0, 1]", min_fraction=min_fraction)
        self.warm_up, self.min_fraction = warm_up, min_fraction

    def on_fit_start(self, info: FitInfo) -> None:
        """Convert the warm-up to epochs."""
        super().on_fit_start(info)
        self._warm_up = in_epochs(self.warm_up, info.epochs)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, without selection in the warm-up."""
        train_pass = super().train_pass(epoch, number, predict_logits)
        return TrainPass(loss="warm_up_loss") if train_pass and epoch < self._warm_up else train_pass

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the sum of both networks' -log p_y (B,)."""
        logits0, logits1 = self._logits(batch)
        self._count(logits0.new_ones(len(logits0)).bool())
        return _summed_cross_entropy(logits0, logits1, batch.labels)

    def loss(self, batch: Batch) -> Tensor:
        """Return the sum of both networks' -log p_y (B,) where they disagree, weighted as a mean; 0 elsewhere."""
        logits0, logits1 = self._logits(batch)
        selected = disagreement_mask(logits0, logits1)
        self._count(selected)
        return selection_weights(selected, self.min_fraction) * _summed_cross_entropy(logits0, logits1, batch.labels)


def _summed_cross_entropy(logits0: Tensor, logits1: Tensor, labels: Tensor) -> Tensor:
    loss0, loss1 = (nn.functional.cross_entropy(logits, labels, reduction="none") for logits in (logits0, logits1))
    return loss0 + loss1
