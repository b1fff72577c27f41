"""A linear noise layer after the softmax, projected to stochastic matrices (ICLR workshop 2015)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, PredictLogits, Stage, setting
from permll.methods._noise_layer import NoiseLayer


class Sukhbaatar(NoiseLayer):
    """-log (p Q)_y with a linear layer Q, which is projected to the stochastic matrices after every step.

    Q is the identity at first, while the network is trained alone. Then Q is trained with weight decay, which drives it
    away from the identity, so that Q rather than the network absorbs the noise.

    Args:
        freeze: epochs with constant Q, or a fraction of all epochs if below 1.
        decay: λ of the penalty λ/2 mean_i ‖Q_i‖². The mean over rows makes λ independent of c.
        lr_factor: learning rate of Q relative to the network's, for optimizers that do not rescale gradients.
        min_entry: lower bound of the entries of Q, as a multiple of 1/c, so that every label stays possible.
    """

    freeze: float = 0.75
    decay: float = setting(0.3, "[0, inf)")
    lr_factor: float = setting(0.1, "(0, inf)")
    min_entry: float = setting(0.01, "(0, 1)")

    def __post_init__(self) -> None:
        self.baseline = self.freeze

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate Q."""
        super().on_fit_start(info)
        self.Q = nn.Parameter(self._project(torch.eye(info.num_classes)))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Start the training of Q."""
        self.set_transition(self.Q.detach())

    def loss(self, batch: Batch) -> Tensor:
        """Return -log (p Q)_y + λ/2 mean_i ‖Q_i‖² (B,); while Q is frozen, -log p_y."""
        loss = super().loss(batch)
        return loss + self.decay / 2 * self._scaled_layer().square().sum(1).mean() if self.is_estimated else loss

    @torch.no_grad()
    def on_step_end(self) -> None:
        """Project Q."""
        if self.is_estimated:
            self.Q.copy_(self._project(self.Q))

    def log_theta(self) -> Tensor:
        """Return log Q."""
        return self._scaled_layer().log()

    def _project(self, matrix: Tensor) -> Tensor:
        return PF.project_to_stochastic(matrix, self.min_entry / len(matrix))

    def _scaled_layer(self) -> Tensor:
        """Return Q, with its gradient multiplied by ``lr_factor``."""
        return self.Q.detach() + self.lr_factor * (self.Q - self.Q.detach())
