"""Decoupling: two networks learn only from samples on which they disagree (NeurIPS 2017)."""

from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.selection import disagreement_mask, selection_weights
from permll.methods._base import FitInfo, PredictLogits, TrainPass, in_epochs
from permll.methods._small_loss import TwoNetworks


class Decoupling(TwoNetworks):
    """Each network's cross-entropy, the mean over the samples for which the two would choose different classes.

    No label is judged: wrong ones teach as long as the networks disagree, which they do less and less.

    Args:
        warm_up: epochs in which both learn from all samples first, below 1 as a share of all epochs.
        least: a batch with a smaller share of disagreement than this takes a smaller step, as in the authors' code,
            instead of a whole one on a few samples.
    """

    def __init__(self, *, warm_up: float = 0.0, least: float = 0.1) -> None:
        super().__init__()
        if warm_up < 0:
            raise ValueError(f"warm_up must be 0 or more, got {warm_up}.")
        if not 0 <= least <= 1:
            raise ValueError(f"least must lie in [0, 1], got {least}.")
        self.warm_up, self.least = warm_up, least

    def on_fit_start(self, info: FitInfo) -> None:
        """Find the epochs of the warm-up."""
        super().on_fit_start(info)
        self._warm_up = in_epochs(self.warm_up, info.epochs)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, on which the networks learn from all or from some."""
        train_pass = super().train_pass(epoch, number, predict_logits)
        return TrainPass(loss="learn_all") if train_pass is not None and epoch < self._warm_up else train_pass

    def learn_all(self, batch: Batch) -> Tensor:
        """Return -log p_y of both networks (B,)."""
        one, other = self._logits(batch)
        self._count(one.new_ones(len(one)).bool())
        return _sum_of_losses(one, other, batch.labels)

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y of both networks (B,) where they disagree, weighted as their mean; 0 where they agree."""
        one, other = self._logits(batch)
        chosen = disagreement_mask(one, other)
        self._count(chosen)
        return selection_weights(chosen, self.least) * _sum_of_losses(one, other, batch.labels)


def _sum_of_losses(one: Tensor, other: Tensor, labels: Tensor) -> Tensor:
    return sum(
        (nn.functional.cross_entropy(logits, labels, reduction="none") for logits in (one, other)), one.new_zeros(())
    )
