"""A linear noise layer after the softmax, kept stochastic by projection (ICLR workshop 2015)."""

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.noise_adaptation import project_to_stochastic
from permll.methods._base import FitInfo, PredictLogits, Stage
from permll.methods._noise_layer import NoiseLayer


class Sukhbaatar(NoiseLayer):
    """-log (p Q)_y with a linear layer Q, which is projected to the stochastic matrices after every step.

    Q is the identity as long as the network is trained alone. Then it learns, and decays: that drives it away from the
    identity, so that Q rather than the network takes up the noise.

    Args:
        freeze: how long Q rests: below 1 a share of all epochs, else epochs.
        decay: λ of the penalty λ/2 mean_i ‖Q_i‖². It is a mean over rows, so that λ means the same for any c.
        pace: the step of Q in steps of the network, for an optimizer that does not rescale gradients.
        least: the least that an entry of Q may be, as a share of 1/c: no label becomes impossible.
    """

    def __init__(self, *, freeze: float = 0.75, decay: float = 0.3, pace: float = 0.1, least: float = 0.01) -> None:
        super().__init__(baseline=freeze)
        if decay < 0 or pace <= 0 or not 0 < least < 1:
            raise ValueError(f"decay >= 0, pace > 0 and 0 < least < 1 must hold, got {decay}, {pace} and {least}.")
        self.decay, self.pace, self.least = decay, pace, least

    def on_fit_start(self, info: FitInfo) -> None:
        """Make Q."""
        super().on_fit_start(info)
        self.Q = nn.Parameter(self._projected(torch.eye(info.num_classes)))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Let Q learn."""
        self.set_transition(self.Q.detach())

    def loss(self, batch: Batch) -> Tensor:
        """Return -log (p Q)_y + λ/2 mean_i ‖Q_i‖² (B,); as long as Q rests, -log p_y."""
        loss = super().loss(batch)
        return loss + self.decay / 2 * self._paced().square().sum(1).mean() if self.known else loss

    @torch.no_grad()
    def on_step_end(self) -> None:
        """Project Q."""
        if self.known:
            self.Q.copy_(self._projected(self.Q))

    def log_theta(self) -> Tensor:
        """Return log Q."""
        return self._paced().log()

    def _projected(self, matrix: Tensor) -> Tensor:
        return project_to_stochastic(matrix, self.least / len(matrix))

    def _paced(self) -> Tensor:
        """Return Q, with its gradient times ``pace``."""
        return self.Q.detach() + self.pace * (self.Q - self.Q.detach())
