"""JoCoR: two networks with a joint loss and co-regularization, on small-loss samples (CVPR 2020)."""

from torch import Tensor

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import setting
from permll.methods._small_loss import SmallLoss


class JoCoR(SmallLoss):
    """(1 - λ) (-log p_y - log q_y) + λ (KL(p ‖ q) + KL(q ‖ p)), averaged over the smallest losses of a batch.

    Labels of samples on which the networks agree are more likely correct. Both networks train on the same fraction
    1 - F of a batch; F rises from 0 to the noise rate. Further settings: ``SmallLoss``.

    Args:
        lam: λ, weight of the agreement; the authors' 0.9 for CIFAR-10 (0.65 with 80 % noise) and 0.85 for CIFAR-100.
    """

    lam: float = setting(0.9, "[0, 1)")

    def loss(self, batch: Batch) -> Tensor:
        """Return the joint loss (B,) of selected samples, weighted as a mean; 0 for the others."""
        losses = PF.jocor_loss(*self._logits(batch), batch.labels, self.lam)
        selected = PF.small_loss_mask(losses.detach(), self.drop)
        self._count(selected)
        return PF.selection_weights(selected) * losses
