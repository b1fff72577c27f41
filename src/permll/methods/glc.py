"""GLC, gold loss correction: rows with labels known to be right show how the others went wrong (NeurIPS 2018)."""

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.transition import forward_correction_loss, gold_transition
from permll.methods._base import FitInfo, PredictLogits, Stage, StreamSpec, TrainPass, divide_epochs
from permll.methods._transition import TransitionMethod
from permll.utils.messages import format_list

HOW = (
    "data.trusted says how many rows (or which share) keep their labels whatever noise comes, or names a file with the "
    "ids of rows that were checked"
)


class GLC(TransitionMethod):
    """Train on the doubtful rows, average what the network says of the trusted ones into T, train anew on both.

    In the second training the doubtful ("silver") rows have the loss -log (p T)_y, the trusted ("gold") ones -log p_y.

    Args:
        estimate: the share of the epochs (from 1 on: how many) of the first training.
    """

    trusted: Tensor

    def __init__(self, *, estimate: float = 0.5) -> None:
        super().__init__()
        self.estimate = estimate

    def on_fit_start(self, info: FitInfo) -> None:
        """Look at the trusted rows; without some of every class there is nothing to estimate from."""
        super().on_fit_start(info)
        if info.trusted is None or not info.trusted.any():
            raise ValueError(f"glc needs rows whose labels are known to be right, and there are none: {HOW}.")
        missing = (info.labels[info.trusted].bincount(minlength=info.num_classes) == 0).nonzero()[:, 0].tolist()
        if missing:
            which = format_list([f"number {i}" for i in missing], "class")
            raise ValueError(f"glc needs trusted rows of every class, and there are none of {which}: {HOW}.")
        if info.trusted.all():
            raise ValueError("all rows are trusted, so there is nothing to correct: train with ce instead of glc.")
        # Not saved: it comes with the data, whichever rows these are now.
        self.register_buffer("trusted", info.trusted.clone(), persistent=False)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the training on doubtful rows, and the one on all from the same initial weights."""
        first, second = divide_epochs(epochs, self.estimate)
        return (Stage("silver", first), Stage("gold", second, "initial"))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Average what the network says of the trusted rows of each class."""
        assert self.info is not None
        trusted = self.trusted.cpu()
        self.set_transition(gold_transition(predict_logits().softmax(-1)[trusted], self.info.labels[trusted]))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep, over the doubtful rows at first, then over all."""
        assert self.info is not None
        if number > 0:
            return None
        if epoch < self.stages(self.info.epochs)[0].epochs:
            return TrainPass({"batch": StreamSpec(rows=(~self.trusted).nonzero()[:, 0].cpu())})
        return TrainPass()

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,) of trusted rows and -log (p T)_y of the others; before T is known, it is the same."""
        logits = self.networks["net"](batch.x)
        gold = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        return gold.where(self.trusted[batch.index], forward_correction_loss(logits, batch.labels, self.T))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p(clean class | x, given label) ∝ p_i T[i, y], (N, c); trusted rows keep their label."""
        assert self.info is not None
        found = super().corrected_labels(predict_logits)
        given = nn.functional.one_hot(self.info.labels, self.info.num_classes).to(found)
        return torch.where(self.trusted.to(found.device)[:, None], given, found)
