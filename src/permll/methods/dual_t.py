"""Dual-T: forward correction with a transition matrix that is estimated as a product of two (NeurIPS 2020)."""

from torch import Tensor

from permll import functional as PF
from permll.methods.forward import Forward


class DualT(Forward):
    """Forward correction with T = A S: A from anchor points, S from counts of given labels per predicted class.

    Further settings: ``Forward``, without T.

    Args:
        estimate: epochs of the first network, which estimates T, or a fraction of all epochs if below 1. Its best epoch
            by noisy validation accuracy is used, so validation samples are needed.
    """

    def __init__(self, *, estimate: float = 0.25, quantile: float = 0.97) -> None:
        super().__init__(estimate=estimate, quantile=quantile)

    def estimate_transition(self, probabilities: Tensor) -> Tensor:
        """Return T = A S (c, c) from the first network's predictions (N, c)."""
        return PF.dual_transition(probabilities, self.info.labels.to(probabilities.device), self.quantile)

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return the accuracy of argmax p T on noisy validation labels."""
        expected = (probabilities @ self.T.to(probabilities)).argmax(-1)
        return (expected == labels).double().mean().item()
