"""Forward and backward loss correction with an estimated transition matrix (CVPR 2017)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.functional.transition import condition_number
from permll.methods._base import FitInfo, PredictLogits, Stage, divide_epochs
from permll.methods._transition import TransitionMethod, read_transition
from permll.utils.validation import check_range

MAX_INVERTED_CONDITION = 1e3  # of a matrix that is inverted; matrices of real noise stay below 100


class Forward(TransitionMethod):
    """Forward correction: a first network estimates T, a second one is trained with -log (p T)_y.

    Args:
        T: rows of P(given label j | clean class i), if it is known, or the path of a .npy or .csv file. Then nothing is
            estimated, and all epochs train with it.
        estimate: epochs of the first network, which estimates T, or a fraction of all epochs if below 1. Its best epoch
            by validation loss is used, so validation samples are needed.
        quantile: samples of a class with a probability at or above this quantile are outliers, which are not chosen as
            its anchor; 1 for none.
    """

    keeps_best = True

    def __init__(
        self, *, T: list[list[float]] | str | None = None, estimate: float = 0.5, quantile: float = 0.97
    ) -> None:
        super().__init__()
        check_range("(0, 1]", quantile=quantile)
        self.given_T, self.estimate, self.quantile = T, estimate, quantile

    def on_fit_start(self, info: FitInfo) -> None:
        """Set T if it is given."""
        super().on_fit_start(info)
        if self.given_T is not None:
            self.set_transition(read_transition(self.given_T, info.num_classes))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the estimation, unless T is given, and the corrected training from scratch."""
        if self.given_T is not None:
            return (Stage("correct", epochs),)
        first, second = divide_epochs(epochs, self.estimate)
        return (Stage("estimate", first), Stage("correct", second, "fresh"))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Estimate T from the best network of the first stage."""
        self.set_transition(self.estimate_transition(predict_logits(best=True).softmax(-1)))

    def estimate_transition(self, probabilities: Tensor) -> Tensor:
        """Return T (c, c) from the first network's predictions (N, c)."""
        return PF.anchor_transition(probabilities, self.quantile)

    def loss(self, batch: Batch) -> Tensor:
        """Return the corrected loss (B,); before T is estimated, -log p_y."""
        return self.corrected_loss(self.networks["net"](batch.x), batch.labels)

    def corrected_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -log (p T)_y (B,)."""
        return PF.forward_correction_loss(logits, labels, self.T.to(logits.device))

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return minus the corrected loss on validation samples."""
        logits = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
        return -self.corrected_loss(logits, labels).double().mean().item()


class Backward(Forward):
    """Backward correction: a first network estimates T, a second one is trained with -Σ_k T⁻¹[y, k] log p_k.

    Settings: ``Forward``.
    """

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate T⁻¹; a given T must be invertible."""
        self.inverse = nn.Buffer(torch.eye(info.num_classes))
        super().on_fit_start(info)
        if self.given_T is not None and condition_number(self.T) > MAX_INVERTED_CONDITION:
            raise ValueError("the transition matrix is singular or nearly so: use forward instead of backward.")

    def set_transition(self, T: Tensor) -> None:
        """Set T (c, c) and its (pseudo-)inverse."""
        super().set_transition(T)
        self.inverse.copy_(PF.inverse_transition(T.cpu().double(), rtol=1 / MAX_INVERTED_CONDITION))

    def corrected_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -Σ_k T⁻¹[y, k] log p_k (B,)."""
        return PF.backward_correction_loss(logits, labels, self.inverse.to(logits.device))
