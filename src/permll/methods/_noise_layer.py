"""What noise layers share: first a baseline without the layer, then network and layer together."""

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from permll.data.streams import Batch
from permll.functional.noise_adaptation import log_transition_columns, noise_layer_loss
from permll.methods._base import Stage, divide_epochs
from permll.methods._transition import TransitionMethod


class NoiseLayer(TransitionMethod):
    """A network trained with -log p_y, then from its best weights with -log (p Θ)_y; p alone predicts.

    Best are the weights of the baseline with the lowest loss on noisy validation labels.

    Args:
        baseline: how long the network is trained without the layer: below 1 a share of all epochs, else epochs.
    """

    keeps_best = True

    def __init__(self, *, baseline: float) -> None:
        super().__init__()
        self.baseline = baseline

    @abstractmethod
    def log_theta(self) -> Tensor:
        """Return log Θ (c, c), as it is trained."""

    @property
    def transition(self) -> Tensor:
        """Θ (c, c) as it stands; in the baseline, the identity."""
        return self.log_theta().detach().exp() if self.known else self.T

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the baseline, and the training with the layer."""
        baseline, rest = divide_epochs(epochs, self.baseline)
        return Stage("baseline", baseline), Stage("adapt", rest, "best")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log (p Θ)_y (B,); in the baseline, -log p_y, and the layer gets no gradient."""
        logits = self.networks["net"](batch.x)
        if not self.known:
            return cross_entropy(logits, batch.labels, reduction="none")
        return noise_layer_loss(logits, log_transition_columns(self.log_theta(), batch.labels))

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return the mean of log p_y over validation rows."""
        given = probabilities.gather(1, labels[:, None])
        return given.clamp_min(torch.finfo(given.dtype).tiny).log().double().mean().item()
