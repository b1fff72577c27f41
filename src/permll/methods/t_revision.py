"""T-Revision: importance weights from a transition matrix that is trained with the network (NeurIPS 2019)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, PredictLogits, Stage, divide_epochs, setting
from permll.methods._transition import TransitionMethod


class TRevision(TransitionMethod):
    """Estimates T; weights each loss by β = p_y / (p T)_y; then trains a slack D of T with the network.

    The last stage minimizes the mean of β CE with β = p_y / (p (T + D))_y, through which D gets its gradient.

    Args:
        estimate: epochs of the estimation of T, or a fraction of all epochs if below 1. The best of these epochs by
            noisy validation accuracy is used, so validation samples are needed.
        reweight: epochs with the estimated T, likewise; the rest trains D.
        quantile: samples of a class with a probability at or above this quantile are outliers, which are not chosen as
            its anchor; 1 for none.
        estimate_lr: learning rate of plain SGD for the estimation, as the authors do; default the recipe's optimizer.
        revision_lr: learning rate of Adam in the last stage.
        revision_decay: weight decay of the network in the last stage.
    """

    keeps_best = True

    estimate: float = 0.2
    reweight: float = 0.5
    quantile: float = setting(0.97, "(0, 1]")
    estimate_lr: float | None = None
    revision_lr: float = 5e-7
    revision_decay: float = 1e-4

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate T and D."""
        super().on_fit_start(info)
        self.D = nn.Parameter(torch.zeros(info.num_classes, info.num_classes))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return estimation, reweighting and revision; each starts from the best weights of the previous stage."""
        first, second, third = divide_epochs(epochs, self.estimate, self.reweight)
        plain = {"name": "sgd", "lr": self.estimate_lr, "momentum": 0.0, "nesterov": False}
        adam = {"name": "adam", "lr": self.revision_lr, "weight_decay": self.revision_decay}
        constant = {"kind": "constant"}
        net = ("net",)  # D is constant until the last stage
        return (
            Stage("estimate", first, "last", {} if self.estimate_lr is None else plain, constant, networks=net),
            Stage("reweight", second, "best", loss="reweighted_loss", networks=net),
            Stage("revise", third, "best", adam, constant, loss="revised_loss"),
        )

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Estimate T from the best network of the first stage."""
        if stage.name == "reweight":
            self.set_transition(PF.anchor_transition(predict_logits(best=True).softmax(-1), self.quantile))

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,): the first stage."""
        return nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")

    def reweighted_loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y (B,) with constant β: the second stage."""
        logits = self.networks["net"](batch.x)
        weights = PF.importance_weights(logits.detach(), batch.labels, self.T)
        return weights * nn.functional.cross_entropy(logits, batch.labels, reduction="none")

    def revised_loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y (B,) with differentiable β of T + D: the last stage."""
        logits = self.networks["net"](batch.x)
        weights = PF.importance_weights(logits, batch.labels, self.T + self.D)
        return weights * nn.functional.cross_entropy(logits, batch.labels, reduction="none")

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return the accuracy of argmax p (T + D) on noisy validation labels."""
        expected = (probabilities @ (self.T + self.D.detach()).to(probabilities)).argmax(-1)
        return (expected == labels).double().mean().item()

    @property
    def transition(self) -> Tensor:
        """T + D (c, c), negative entries set to zero."""
        return (self.T + self.D.detach()).clamp_min(0)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of T, and the largest absolute entry of D."""
        return {**super().metrics(), "T_slack": self.D.detach().abs().max().item()}
