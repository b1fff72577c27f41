"""Base class of the noise-layer methods: a baseline without the layer, then network and layer together."""

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import Stage, divide_epochs
from permll.methods._transition import TransitionMethod


class NoiseLayer(TransitionMethod):
    """Training with -log p_y, then from the best weights with -log (p Θ)_y; p alone predicts.

    The best weights have the lowest loss on noisy validation labels.
    """

    keeps_best = True

    baseline: float  # epochs without the layer, or a fraction of all epochs if below 1

    @abstractmethod
    def log_theta(self) -> Tensor:
        """Return log Θ (c, c), differentiable."""

    @property
    def transition(self) -> Tensor:
        """The current Θ (c, c); in the baseline, the identity."""
        return self.log_theta().detach().exp() if self.is_estimated else self.T

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the baseline and the training with the layer."""
        baseline, rest = divide_epochs(epochs, self.baseline)
        return Stage("baseline", baseline), Stage("adapt", rest, "best")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log (p Θ)_y (B,); in the baseline, -log p_y without a gradient for the layer."""
        logits = self.networks["net"](batch.x)
        if not self.is_estimated:
            return cross_entropy(logits, batch.labels, reduction="none")
        return PF.noise_layer_loss(logits, PF.log_transition_columns(self.log_theta(), batch.labels))

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return the mean of log p_y over validation samples."""
        label_probs = probabilities.gather(1, labels[:, None])
        return label_probs.clamp_min(torch.finfo(label_probs.dtype).tiny).log().double().mean().item()
