"""Dual-T: the transition matrix as a product of two that are easier to estimate, then forward correction."""

from torch import Tensor

from permll.functional.transition import dual_transition
from permll.methods.forward import Forward


class DualT(Forward):
    """Forward correction with T = A S: A by anchors, S by counting given labels among the rows of each prediction.

    Args:
        estimate: the share of the epochs (from 1 on: how many) of the first network, which T is read off. The best of
            these epochs by noisy validation accuracy is used, so validation rows are needed.
        quantile: of each class, the rows with a probability at or above this quantile are passed over as outliers when
            its anchor is chosen; 1 for none.
    """

    def __init__(self, *, estimate: float = 0.25, quantile: float = 0.97) -> None:
        super().__init__(estimate=estimate, quantile=quantile)

    def estimated(self, probabilities: Tensor) -> Tensor:
        """Return T = A S (c, c) from what the first network says of all rows (N, c)."""
        assert self.info is not None
        return dual_transition(probabilities, self.info.labels.to(probabilities.device), self.quantile)

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return how often the label that p T expects is the given one, among validation rows."""
        expected = (probabilities @ self.T.to(probabilities)).argmax(-1)
        return (expected == labels).double().mean().item()
