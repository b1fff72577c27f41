"""Noise adaptation layers: a softmax from true class to given label, trained with the network (ICLR 2017)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, PredictLogits, Stage, divide_epochs, setting
from permll.methods._features import find_head, logits_and_features
from permll.methods._noise_layer import NoiseLayer

CHUNK_SIZE = 4096  # samples per chunk; each needs a (c, c) matrix
MIN_CONFUSION = 1e-8  # initial probability of a label that never occurred, as in the authors' code


class SModel(NoiseLayer):
    """The simple model: Θ = softmax(W) by row, the same for all samples.

    W is initialized with log(confusion + 1e-8), the fraction of label j among the samples that the baseline predicts as
    class i. A class that is never predicted gets an identity row.

    Args:
        baseline: epochs without the layer, or a fraction of all epochs if below 1.
    """

    baseline: float = 0.75

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate W."""
        super().on_fit_start(info)
        self.W = nn.Parameter(torch.zeros(info.num_classes, info.num_classes))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Initialize W with the confusion of the best baseline."""
        self.set_transition(
            PF.confusion_transition(predict_logits(best=True).argmax(1), self.info.labels.cpu(), self.info.num_classes)
        )
        with torch.no_grad():
            self.W.copy_((self.T + MIN_CONFUSION).log())

    def log_theta(self) -> Tensor:
        """Return log softmax(W)."""
        return self.W.log_softmax(1)


class CModel(SModel):
    """The complex model: Θ depends on the penultimate features h, Θ_i = softmax_j(<u_ij, h> + W_ij).

    After the baseline comes the simple model; the complex one continues from its W, with u = 0. Metrics report the part
    of Θ without features, softmax(W).

    Args:
        simple: epochs with the simple model, or a fraction of all epochs if below 1.
        neighbors: labels that a class can become in the complex model, itself included: the most probable ones in the
            simple model. Each needs as many weights as there are features.
    """

    baseline = 0.6
    simple: float = 0.2
    neighbors: int = setting(100, "[1, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate W and u."""
        super().on_fit_start(info)
        classes, neighbors = info.num_classes, min(self.neighbors, info.num_classes)
        self.u = nn.Parameter(torch.zeros(find_head(self.networks["net"]).in_features, classes, neighbors))
        self.targets = nn.Buffer(torch.zeros(classes, neighbors, dtype=torch.int64))
        self.is_complex = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the baseline, the simple model and the complex model."""
        baseline, simple, rest = divide_epochs(epochs, self.baseline, self.simple)
        return Stage("baseline", baseline), Stage("simple", simple, "best"), Stage("complex", rest)

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Initialize the simple model with the confusion of the best baseline, or the complex one with the simple."""
        if stage.name == "simple":
            super().on_stage_start(stage, predict_logits)
        else:
            self.targets.copy_(PF.top_k_per_row(self.W.detach(), self.targets.shape[1]))
            self.is_complex.fill_(1)

    def loss(self, batch: Batch) -> Tensor:
        """Return -log (p Θ)_y (B,); in the baseline, -log p_y."""
        if not self.is_complex:
            return super().loss(batch)
        logits, features = logits_and_features(self.networks["net"], batch.x)
        return PF.noise_layer_loss(logits, self._columns(features, batch.labels))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p(true class i | x, given label y) ∝ p_i Θ[i, y], (N, c); in the baseline, p."""
        if not self.is_complex:
            return super().corrected_labels(predict_logits)
        net = self.networks["net"]
        # Θ needs the features too: a temporary network returns logits and features in one row.
        self.networks["both"] = _FunctionModule(lambda x: torch.cat(logits_and_features(net, x), 1))
        try:
            both = predict_logits("both")
        finally:
            del self.networks["both"]
        logits, features = both.tensor_split([self.info.num_classes], 1)
        parts = (part.split(CHUNK_SIZE) for part in (logits, features, self.info.labels))
        return torch.cat([self._posterior(*chunk) for chunk in zip(*parts, strict=True)])

    @torch.no_grad()
    def _posterior(self, logits: Tensor, features: Tensor, labels: Tensor) -> Tensor:
        device = self.W.device
        columns = self._columns(features.to(device), labels.to(device))
        return PF.noise_layer_posterior(logits.to(device), columns).cpu()

    def _columns(self, features: Tensor, labels: Tensor) -> Tensor:
        b = self.W.gather(1, self.targets)
        return PF.conditional_transition_columns(features.to(self.u.dtype), self.u, b, self.targets, labels)


class _FunctionModule(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)
