"""Forward and backward correction: the loss goes through the matrix by which classes turn into labels (CVPR 2017)."""

import torch
from torch import Tensor

from permll.data.streams import Batch
from permll.functional.transition import (
    anchor_transition,
    backward_correction_loss,
    condition_number,
    forward_correction_loss,
    inverse_transition,
)
from permll.methods._base import FitInfo, PredictLogits, Stage, divide_epochs
from permll.methods._transition import TransitionMethod, read_transition

INVERTIBLE = 1e3  # the largest condition number that is inverted; what noise does in practice stays below 100


class Forward(TransitionMethod):
    """Train on the given labels, read T off the network, train another from scratch with -log (p T)_y.

    Args:
        T: rows of P(given label j | clean class i), if it is known; or the path of a .npy or .csv file. Then nothing
            is estimated, and all epochs train with it.
        estimate: the share of the epochs (from 1 on: how many) of the first network, which T is read off. The best of
            these epochs by validation loss is used, so validation rows are needed.
        quantile: of each class, the rows with a probability at or above this quantile are passed over as outliers when
            its anchor is chosen; 1 for none.
    """

    keeps_best = True

    def __init__(
        self, *, T: list[list[float]] | str | None = None, estimate: float = 0.5, quantile: float = 0.97
    ) -> None:
        super().__init__()
        if not 0 < quantile <= 1:
            raise ValueError(f"quantile must lie in (0, 1], got {quantile}.")
        self.given_T, self.estimate, self.quantile = T, estimate, quantile

    def on_fit_start(self, info: FitInfo) -> None:
        """Take T if it is given."""
        super().on_fit_start(info)
        if self.given_T is not None:
            self.set_transition(read_transition(self.given_T, info.num_classes))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the estimation and the training from scratch, or that alone."""
        if self.given_T is not None:
            return (Stage("correct", epochs),)
        first, second = divide_epochs(epochs, self.estimate)
        return (Stage("estimate", first), Stage("correct", second, "fresh"))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Read T off the best network of the first stage."""
        self.set_transition(self.estimated(predict_logits(best=True).softmax(-1)))

    def estimated(self, probabilities: Tensor) -> Tensor:
        """Return T (c, c) from what the first network says of all rows (N, c)."""
        return anchor_transition(probabilities, self.quantile)

    def loss(self, batch: Batch) -> Tensor:
        """Return the corrected loss (B,); before T is known, it is -log p_y."""
        return self.corrected_loss(self.networks["net"](batch.x), batch.labels)

    def corrected_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -log (p T)_y (B,)."""
        return forward_correction_loss(logits, labels, self.T.to(logits.device))

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return minus the corrected loss on validation rows."""
        logits = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
        return -self.corrected_loss(logits, labels).double().mean().item()


class Backward(Forward):
    """Train on the given labels, read T off the network, train another from scratch with -Σ_k T⁻¹[y, k] log p_k.

    Args:
        T: rows of P(given label j | clean class i), if it is known; or the path of a .npy or .csv file. Then nothing
            is estimated, and all epochs train with it.
        estimate: the share of the epochs (from 1 on: how many) of the first network, which T is read off. The best of
            these epochs by validation loss is used, so validation rows are needed.
        quantile: of each class, the rows with a probability at or above this quantile are passed over as outliers when
            its anchor is chosen; 1 for none.
    """

    inverse: Tensor

    def on_fit_start(self, info: FitInfo) -> None:
        """Make room for T⁻¹; a given T must have one."""
        self.register_buffer("inverse", torch.eye(info.num_classes))
        super().on_fit_start(info)
        if self.given_T is not None and condition_number(self.T) > INVERTIBLE:
            raise ValueError(
                "the transition matrix cannot be inverted: some classes turn into the same labels. Use forward instead."
            )

    def set_transition(self, T: Tensor) -> None:
        """Take T (c, c) for known, and invert it as far as it can be inverted."""
        super().set_transition(T)
        self.inverse.copy_(inverse_transition(T.cpu().double(), rtol=1 / INVERTIBLE))

    def corrected_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -Σ_k T⁻¹[y, k] log p_k (B,)."""
        return backward_correction_loss(logits, labels, self.inverse.to(logits.device))
