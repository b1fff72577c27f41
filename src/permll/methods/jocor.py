"""JoCoR: two networks learn to agree, on samples whose joint loss is small (CVPR 2020)."""

from torch import Tensor

from permll.data.streams import Batch
from permll.functional.schedules import Schedule
from permll.functional.selection import jocor_loss, selection_weights, small_loss_mask
from permll.methods._small_loss import SmallLoss


class JoCoR(SmallLoss):
    """(1 - λ) (-log p_y - log q_y) + λ (KL(p ‖ q) + KL(q ‖ p)), the mean over the smallest of a batch.

    Networks that agree on a sample more probably have the right label there. Both learn from the same samples, whose
    share is 1 - F; F rises from 0 to the noise rate.

    Args:
        lam: λ, the weight of agreement; the authors' 0.9 for CIFAR-10 (0.65 with 80 % noise) and 0.85 for CIFAR-100.
        noise_rate: τ, the share of wrong labels; an oracle, where it is known. Default an estimate from what both
            networks say of held-out rows, and without such rows of training rows in the first ``ramp`` epochs.
        ramp: T_k, the epochs in which F rises, below 1 as a share of all epochs, three at least; the authors' 10 of
            200.
        exponent: c, of its rise.
        schedule: ``"paper"``, τ min(e^c / T_k, 1) after e epochs, or ``"code"``, in equal steps to τ^c, and then τ.
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
        if not 0 <= lam < 1:
            raise ValueError(f"lam must lie in [0, 1), or no label is learned; got {lam}.")
        self.lam = lam

    def loss(self, batch: Batch) -> Tensor:
        """Return the joint loss (B,) of the samples that are kept, weighted as their mean; 0 for the others."""
        losses = jocor_loss(*self._logits(batch), batch.labels, self.lam)
        chosen = small_loss_mask(losses.detach(), self.drop)
        self._count(chosen)
        return selection_weights(chosen) * losses
