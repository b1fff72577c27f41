"""Co-teaching and Co-teaching+: each network trains on the other's small-loss samples (NeurIPS 2018, ICML 2019)."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import in_epochs, setting
from permll.methods._small_loss import SmallLoss


class CoTeaching(SmallLoss):
    """Cross-entropy of each network, averaged over the samples of a batch with the other network's smallest losses.

    Each network selects a fraction 1 - F of a batch; F rises from 0 to the noise rate. The two networks make different
    errors, so a wrong label that one has memorized may still have a large loss in the other. Settings: ``SmallLoss``.
    """

    def loss(self, batch: Batch) -> Tensor:
        """Return the sum of both networks' losses (B,), each weighted by the other's selection."""
        return self._exchange(*self._logits(batch), batch.labels)

    def _exchange(
        self, logits0: Tensor, logits1: Tensor, labels: Tensor, among: Tensor | None = None, min_fraction: float = 0.0
    ) -> Tensor:
        losses = [cross_entropy(logits, labels, reduction="none") for logits in (logits0, logits1)]
        with torch.no_grad():
            selected = [PF.small_loss_mask(loss, self.drop, among) for loss in losses]
        self._count(*selected)
        weights0, weights1 = (PF.selection_weights(mask, min_fraction) for mask in selected)
        return weights1 * losses[0] + weights0 * losses[1]


class CoTeachingPlus(CoTeaching):
    """Co-teaching on the samples for which the two networks predict different classes, so that they stay different.

    It starts with Co-teaching. A batch without disagreement has a zero gradient. Further settings: ``SmallLoss``.

    Args:
        warm_up: epochs of Co-teaching, or a fraction of all epochs if below 1; the authors' 20 of 200 on CIFAR-10.
        min_fraction: selected fraction of a batch below which the step shrinks, as in Decoupling; with 0, as in the
            paper, a single selected sample has the weight of a batch.
        double_softmax: use probabilities as logits after the warm-up, a bug of the authors' code: losses of ten classes
            then lie between 1.46 and 2.46.
    """

    warm_up: float = setting(0.1, "[0, inf)")
    min_fraction: float = setting(0.1, "[0, 1]")
    double_softmax: bool = False

    def loss_at(self, epoch: int) -> str:
        """Return the name of Co-teaching's loss in the warm-up."""
        return "loss" if epoch < in_epochs(self.warm_up, self.info.epochs) else "disagreement_loss"

    def disagreement_loss(self, batch: Batch) -> Tensor:
        """Return Co-teaching's loss (B,) on the samples for which the networks disagree; 0 without any."""
        logits0, logits1 = self._logits(batch)
        candidates = PF.disagreement_mask(logits0, logits1)
        if self.double_softmax:
            logits0, logits1 = logits0.softmax(-1), logits1.softmax(-1)
        return self._exchange(logits0, logits1, batch.labels, candidates, self.min_fraction)
