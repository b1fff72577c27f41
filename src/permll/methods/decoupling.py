"""Decoupling: two networks train only on samples for which they disagree (NeurIPS 2017)."""

from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import in_epochs, setting
from permll.methods._small_loss import TwoNetworks


class Decoupling(TwoNetworks):
    """Cross-entropy of both networks, averaged over the samples for which they predict different classes.

    Wrong labels are not detected: they are used as long as the networks disagree, which becomes rarer.

    Args:
        warm_up: initial epochs on all samples, or a fraction of all epochs if below 1.
        min_fraction: fraction of disagreement in a batch below which the step shrinks, as in the authors' code, instead
            of a full step on a few samples.
    """

    warm_up: float = setting(0.0, "[0, inf)")
    min_fraction: float = setting(0.1, "[0, 1]")

    def loss_at(self, epoch: int) -> str:
        """Return the name of the loss without selection in the warm-up."""
        return "warm_up_loss" if epoch < in_epochs(self.warm_up, self.info.epochs) else "loss"

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the sum of both networks' -log p_y (B,)."""
        logits0, logits1 = self._logits(batch)
        self._count(logits0.new_ones(len(logits0)).bool())
        return _summed_cross_entropy(logits0, logits1, batch.labels)

    def loss(self, batch: Batch) -> Tensor:
        """Return the sum of both networks' -log p_y (B,) where they disagree, weighted as a mean; 0 elsewhere."""
        logits0, logits1 = self._logits(batch)
        selected = PF.disagreement_mask(logits0, logits1)
        self._count(selected)
        return PF.selection_weights(selected, self.min_fraction) * _summed_cross_entropy(logits0, logits1, batch.labels)


def _summed_cross_entropy(logits0: Tensor, logits1: Tensor, labels: Tensor) -> Tensor:
    loss0, loss1 = (nn.functional.cross_entropy(logits, labels, reduction="none") for logits in (logits0, logits1))
    return loss0 + loss1
