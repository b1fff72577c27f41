"""Bootstrapping: the target mixes the given label with the network's prediction (Reed et al., 2015)."""

from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.robust_losses import hard_bootstrap_loss, soft_bootstrap_loss
from permll.methods._base import Method, PredictLogits, TrainPass
from permll.utils.validation import check_range


class _Bootstrap(Method):
    batch_coupling = "none"

    def __init__(self, beta: float, warm_up_epochs: int) -> None:
        super().__init__()
        check_range("(0, 1]", beta=beta)
        self.beta, self.warm_up_epochs = beta, warm_up_epochs

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, with cross-entropy in the warm-up."""
        if number > 0:
            return None
        return TrainPass(loss="warm_up_loss" if epoch < self.warm_up_epochs else "loss")

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,)."""
        return nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")


class SoftBootstrap(_Bootstrap):
    """Cross-entropy with the target β e_y + (1 - β) p: -β log p_y + (1 - β) H(p).

    Args:
        beta: β, weight of the given label.
        detach_target: treat p in the target as a constant. Its gradient is then exactly zero, which leaves β times
            cross-entropy.
        warm_up_epochs: initial epochs of cross-entropy.
    """

    def __init__(self, *, beta: float = 0.95, detach_target: bool = False, warm_up_epochs: int = 0) -> None:
        super().__init__(beta, warm_up_epochs)
        self.detach_target = detach_target

    def loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y + (1 - β) H(p) (B,)."""
        logits = self.networks["net"](batch.x)
        return soft_bootstrap_loss(logits, batch.labels, self.beta, detach_target=self.detach_target)


class HardBootstrap(_Bootstrap):
    """Cross-entropy with the target β e_y + (1 - β) e_k, where k is the predicted class.

    Args:
        beta: β, weight of the given label.
        warm_up_epochs: initial epochs of cross-entropy.
    """

    def __init__(self, *, beta: float = 0.8, warm_up_epochs: int = 0) -> None:
        super().__init__(beta, warm_up_epochs)

    def loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y - (1 - β) log p_k (B,)."""
        return hard_bootstrap_loss(self.networks["net"](batch.x), batch.labels, self.beta)
