"""Symmetric learning: cross-entropy plus reverse cross-entropy (Wang et al., 2019)."""

from torch import Tensor

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import Method, setting


class SymmetricLearning(Method):
    """α CE + β RCE, where the reverse cross-entropy -Σ_k p_k log e_y[k] with log 0 = A is -A (1 - p_y).

    Args:
        alpha: α, weight of cross-entropy, which converges but overfits.
        beta: β, weight of reverse cross-entropy, which is robust to wrong labels.
        A: value of log 0: -4 in the paper, log 1e-4 = -9.21 in its code, which acts like a larger β.
    """

    batch_coupling = "none"

    alpha: float = setting(0.1, "[0, inf)")
    beta: float = setting(1.0, "[0, inf)")
    A: float = setting(-4.0, "(-inf, 0)")

    def loss(self, batch: Batch) -> Tensor:
        """Return -α log p_y - β A (1 - p_y) (B,)."""
        return PF.symmetric_cross_entropy(self.networks["net"](batch.x), batch.labels, self.alpha, self.beta, self.A)
