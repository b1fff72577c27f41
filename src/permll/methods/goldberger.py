"""Noise adaptation layers: a softmax from true class to given label, learned with the network (ICLR 2017)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.noise_adaptation import (
    conditional_transition_columns,
    noise_layer_loss,
    noise_layer_posterior,
    top_k_per_row,
)
from permll.functional.transition import confusion_transition
from permll.methods._base import FitInfo, PredictLogits, Stage, divide_epochs
from permll.methods._features import head_of, logits_and_features
from permll.methods._noise_layer import NoiseLayer

CHUNK = 4096  # rows at a time, for what needs c columns of c for each
TINY = 1e-8  # the share that a label begins with that was never given, as in the authors' code


class SModel(NoiseLayer):
    """The simple model: Θ = softmax(W) row by row, the same for all samples.

    W begins as log(confusion + 1e-8): of the rows that the baseline predicts as i, which share is labelled j? Of a
    class that it never predicts, all.

    Args:
        baseline: how long the network is trained without the layer: below 1 a share of all epochs, else epochs.
    """

    def __init__(self, *, baseline: float = 0.75) -> None:
        super().__init__(baseline=baseline)

    def on_fit_start(self, info: FitInfo) -> None:
        """Make W."""
        super().on_fit_start(info)
        self.W = nn.Parameter(torch.zeros(info.num_classes, info.num_classes))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Begin with the confusion of the best baseline."""
        assert self.info is not None
        self.set_transition(
            confusion_transition(predict_logits(best=True).argmax(1), self.info.labels.cpu(), self.info.num_classes)
        )
        with torch.no_grad():
            self.W.copy_((self.T + TINY).log())

    def log_theta(self) -> Tensor:
        """Return log softmax(W)."""
        return self.W.log_softmax(1)


class CModel(SModel):
    """The complex model: Θ follows the features h that the network's head sees, Θ_i = softmax_j(<u_ij, h> + W_ij).

    After the baseline comes the simple model. The complex one goes on from its W, with u = 0. What is watched of Θ is
    its part without features, softmax(W).

    Args:
        baseline: how long the network is trained without the layer: below 1 a share of all epochs, else epochs.
        simple: how long it is trained with the simple model then.
        neighbors: how many labels a class can turn into in the complex model, itself included: those that the simple
            model found likeliest. For each of them u has as many numbers as there are features.
    """

    complex: Tensor
    targets: Tensor

    def __init__(self, *, baseline: float = 0.6, simple: float = 0.2, neighbors: int = 100) -> None:
        super().__init__(baseline=baseline)
        if neighbors < 1:
            raise ValueError(f"neighbors must be one or more, got {neighbors}.")
        self.simple, self.neighbors = simple, neighbors

    def on_fit_start(self, info: FitInfo) -> None:
        """Make W and u."""
        super().on_fit_start(info)
        classes, kept = info.num_classes, min(self.neighbors, info.num_classes)
        self.u = nn.Parameter(torch.zeros(head_of(self.networks["net"]).in_features, classes, kept))
        self.register_buffer("targets", torch.zeros(classes, kept, dtype=torch.int64))
        self.register_buffer("complex", torch.zeros((), dtype=torch.int64))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the baseline, the simple model, the complex one."""
        baseline, simple, rest = divide_epochs(epochs, self.baseline, self.simple)
        return Stage("baseline", baseline), Stage("simple", simple, "best"), Stage("complex", rest)

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Begin with the confusion of the best baseline, or go on from the simple model."""
        if stage.name == "simple":
            super().on_stage_start(stage, predict_logits)
        else:
            self.targets.copy_(top_k_per_row(self.W.detach(), self.targets.shape[1]))
            self.complex.fill_(1)

    def loss(self, batch: Batch) -> Tensor:
        """Return -log (p Θ)_y (B,); in the baseline, -log p_y."""
        if not self.complex:
            return super().loss(batch)
        logits, features = logits_and_features(self.networks["net"], batch.x)
        return noise_layer_loss(logits, self._columns(features, batch.labels))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p(true class i | x, given label) ∝ p_i Θ[i, y], (N, c); in the baseline, p."""
        if not self.complex:
            return super().corrected_labels(predict_logits)
        assert self.info is not None
        net = self.networks["net"]
        # Logits would not do: Θ needs the features too. A scan asks any network, so it asks for both in one row.
        self.networks["both"] = _Function(lambda x: torch.cat(logits_and_features(net, x), 1))
        try:
            both = predict_logits("both")
        finally:
            del self.networks["both"]
        logits, features = both.tensor_split([self.info.num_classes], 1)
        parts = (part.split(CHUNK) for part in (logits, features, self.info.labels))
        return torch.cat([self._posterior(*rows) for rows in zip(*parts, strict=True)])

    @torch.no_grad()
    def _posterior(self, logits: Tensor, features: Tensor, labels: Tensor) -> Tensor:
        device = self.W.device
        columns = self._columns(features.to(device), labels.to(device))
        return noise_layer_posterior(logits.to(device), columns).cpu()

    def _columns(self, features: Tensor, labels: Tensor) -> Tensor:
        b = self.W.gather(1, self.targets)
        return conditional_transition_columns(features.to(self.u.dtype), self.u, b, self.targets, labels)


class _Function(nn.Module):
    """A function in the place of a network."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)
