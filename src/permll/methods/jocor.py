"""JoCoR: two networks with a joint loss and co-regularization, on small-loss samples (CVPR 2020)."""

from torch import Tensor

from permll.data.streams import Batch
from permll.functional.schedules import Schedule
from permll.functional.selection import jocor_loss, selection_weights, small_loss_mask
from permll.methods._small_loss import SmallLoss
from permll.utils.validation import check_range


class JoCoR(SmallLoss):
    """(1 - λ) (-log p_y - log q_y) + λ (KL(p ‖ q) + KL(q ‖ p)), averaged over the smallest losses of a batch.

    Labels of samples on which the networks agree are more likely correct. Both networks train on the same fraction
    1 - F of a batch; F rises from 0 to the noise rate.

    Args:
        lam: λ, weight of the agreement; the authors' 0.9 for CIFAR-10 (0.65 with 80 % noise) and 0.85 for CIFAR-100.
        noise_rate: τ, the noise rate, if it is known. Default an estimate from both networks' predictions for held-out
            samples; without these, for training samples in the first ``ramp`` epochs.
        ramp: T_k, epochs over which F rises, or a fraction of all epochs if below 1; at least three. The authors' 10 of
            200.
        exponent: c, exponent of the rise.
        schedule: ``"paper"``, τ min(e^c / T_k, 1) after e epochs, or ``"code"``, linear to τ^c, then τ.
    """

    def __init__(
        self,
        *,
        lam: float = 0.9,
        noise_rate: float | None = None,
        ramp: float = 0.05,
        exponent: float = 1.0,
        schedule: Schedule = "paper",
    ) -> None:
        super().__init__(noise_rate, ramp, exponent, schedule)
        check_range("[0, 1)", lam=lam)
        self.lam = lam

    def loss(self, batch: Batch) -> Tensor:
        """Return the joint loss (B,) of selected samples, weighted as a mean; 0 for the others."""
        losses = jocor_loss(*self._logits(batch), batch.labels, self.lam)
        selected = small_loss_mask(losses.detach(), self.drop)
        self._count(selected)
        return selection_weights(selected) * losses
