"""Bootstrapping: the target mixes the given label with the network's prediction (Reed et al., 2015)."""

from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import Method, setting


class _Bootstrap(Method):
    """Base class.

    Args:
        beta: β, weight of the given label.
        warm_up_epochs: initial epochs of cross-entropy.
    """

    batch_coupling = "none"

    beta: float = setting(0.95, "(0, 1]")
    warm_up_epochs: int = 0

    def loss_at(self, epoch: int) -> str:
        """Return the name of cross-entropy in the warm-up."""
        return "warm_up_loss" if epoch < self.warm_up_epochs else "loss"

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,)."""
        return nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")


class SoftBootstrap(_Bootstrap):
    """Cross-entropy with the target β e_y + (1 - β) p: -β log p_y + (1 - β) H(p).

    Args:
        detach_target: treat p in the target as a constant. Its gradient is then exactly zero, which leaves β times
            cross-entropy.
    """

    detach_target: bool = False

    def loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y + (1 - β) H(p) (B,)."""
        logits = self.networks["net"](batch.x)
        return PF.soft_bootstrap_loss(logits, batch.labels, self.beta, detach_target=self.detach_target)


class HardBootstrap(_Bootstrap):
    """Cross-entropy with the target β e_y + (1 - β) e_k, where k is the predicted class."""

    beta = 0.8

    def loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y - (1 - β) log p_k (B,)."""
        return PF.hard_bootstrap_loss(self.networks["net"](batch.x), batch.labels, self.beta)
