"""T-Revision: importance weights from a transition matrix that is revised with the network (NeurIPS 2019)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.transition import anchor_transition, importance_weights
from permll.methods._base import FitInfo, PredictLogits, Stage, TrainPass, divide_epochs
from permll.methods._transition import TransitionMethod


class TRevision(TransitionMethod):
    """Read T off a network; weigh each loss by β = p_y / (p T)_y; then learn a slack D of T along with the network.

    The last stage lowers the mean of β CE with β = p_y / (p (T + D))_y, through which D has its gradient.

    Args:
        estimate: the share of the epochs (from 1 on: how many) that T is estimated in. The best of these epochs by
            noisy validation accuracy is used, so validation rows are needed.
        reweight: the share of the epochs (from 1 on: how many) with T as it was estimated; the rest revises it.
        quantile: of each class, the rows with a probability at or above this quantile are passed over as outliers when
            its anchor is chosen; 1 for none.
        estimate_lr: estimate with plain SGD and this learning rate, as the authors do; default the recipe's optimizer.
        revision_lr: Adam's learning rate in the last stage.
        revision_decay: the weight decay of the network in the last stage.
    """

    keeps_best = True
    D: nn.Parameter

    def __init__(
        self,
        *,
        estimate: float = 0.2,
        reweight: float = 0.5,
        quantile: float = 0.97,
        estimate_lr: float | None = None,
        revision_lr: float = 5e-7,
        revision_decay: float = 1e-4,
    ) -> None:
        super().__init__()
        if not 0 < quantile <= 1:
            raise ValueError(f"quantile must lie in (0, 1], got {quantile}.")
        self.estimate, self.reweight, self.quantile = estimate, reweight, quantile
        self.estimate_lr, self.revision_lr, self.revision_decay = estimate_lr, revision_lr, revision_decay

    def on_fit_start(self, info: FitInfo) -> None:
        """Make room for T and its slack."""
        super().on_fit_start(info)
        self.D = nn.Parameter(torch.zeros(info.num_classes, info.num_classes))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return estimation, re-weighting and revision; each goes on from the best weights of the one before."""
        first, second, third = divide_epochs(epochs, self.estimate, self.reweight)
        plain = {"name": "sgd", "lr": self.estimate_lr, "momentum": 0.0, "nesterov": False}
        adam = {"name": "adam", "lr": self.revision_lr, "weight_decay": self.revision_decay}
        constant = {"kind": "constant"}
        return (
            Stage("estimate", first, optimizer={} if self.estimate_lr is None else plain, schedule=constant),
            Stage("reweight", second, "best"),
            Stage("revise", third, "best", optimizer=adam, schedule=constant),
        )

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Read T off the best network of the first stage."""
        if stage.name == "reweight":
            self.set_transition(anchor_transition(predict_logits(best=True).softmax(-1), self.quantile))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep with the loss of the stage; D rests until the last."""
        assert self.info is not None
        if number > 0:
            return None
        first, second, _ = (stage.epochs for stage in self.stages(self.info.epochs))
        if epoch < first + second:
            return TrainPass(loss="loss" if epoch < first else "reweighted_loss", networks=("net",))
        return TrainPass(loss="revised_loss")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,): the first stage."""
        return nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")

    def reweighted_loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y (B,), β a constant: the second stage."""
        logits = self.networks["net"](batch.x)
        weights = importance_weights(logits.detach(), batch.labels, self.T)
        return weights * nn.functional.cross_entropy(logits, batch.labels, reduction="none")

    def revised_loss(self, batch: Batch) -> Tensor:
        """Return -β log p_y (B,), β with T + D and a gradient of its own: the last stage."""
        logits = self.networks["net"](batch.x)
        weights = importance_weights(logits, batch.labels, self.T + self.D)
        return weights * nn.functional.cross_entropy(logits, batch.labels, reduction="none")

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return how often the label that p (T + D) expects is the given one, among validation rows."""
        expected = (probabilities @ (self.T + self.D.detach()).to(probabilities)).argmax(-1)
        return (expected == labels).double().mean().item()

    @property
    def transition(self) -> Tensor:
        """T + D (c, c), negative entries set to zero."""
        return (self.T + self.D.detach()).clamp_min(0)

    def metrics(self) -> Mapping[str, float]:
        """Return what all methods with T return, and the largest entry of D by size."""
        return {**super().metrics(), "T_slack": self.D.detach().abs().max().item()}
