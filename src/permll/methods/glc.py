"""GLC, gold loss correction: transition matrix from samples with trusted labels (NeurIPS 2018)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, PredictLogits, Stage, StreamSpec, TrainPass, divide_epochs
from permll.methods._transition import TransitionMethod
from permll.utils.messages import format_list

HINT = (
    "set data.trusted to the number (or fraction) of samples that noise leaves unchanged, or to a file with the ids of "
    "verified samples"
)


class GLC(TransitionMethod):
    """Trains on untrusted samples, averages the predictions for trusted samples into T, then retrains on both.

    In the second training the untrusted ("silver") samples have the loss -log (p T)_y, the trusted ("gold") ones
    -log p_y.

    Args:
        estimate: epochs of the first training, or a fraction of all epochs if below 1.
    """

    estimate: float = 0.5

    def on_fit_start(self, info: FitInfo) -> None:
        """Check that there are trusted samples of every class, and untrusted samples."""
        super().on_fit_start(info)
        if info.trusted is None or not info.trusted.any():
            raise ValueError(f"glc needs trusted samples, and there are none: {HINT}.")
        missing = (info.labels[info.trusted].bincount(minlength=info.num_classes) == 0).nonzero()[:, 0].tolist()
        if missing:
            classes = format_list([f"number {i}" for i in missing], "class")
            raise ValueError(f"glc needs trusted samples of every class, and there are none of {classes}: {HINT}.")
        if info.trusted.all():
            raise ValueError("all samples are trusted, so there is nothing to correct: train with ce instead of glc.")
        # Not saved: it is part of the data.
        self.trusted = nn.Buffer(info.trusted.clone(), persistent=False)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the training on untrusted samples, and the one on all samples from the same initial weights."""
        first, second = divide_epochs(epochs, self.estimate)
        return (Stage("silver", first), Stage("gold", second, "initial"))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Estimate T from the predictions for trusted samples."""
        trusted = self.trusted.cpu()
        self.set_transition(PF.gold_transition(predict_logits().softmax(-1)[trusted], self.info.labels[trusted]))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass, over the untrusted samples in the first stage, then over all."""
        if number > 0:
            return None
        if self.stage_at(epoch) == "silver":
            return TrainPass({"batch": StreamSpec(rows=(~self.trusted).nonzero()[:, 0].cpu())})
        return TrainPass()

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,) of trusted samples and -log (p T)_y of the others; T is the identity at first."""
        logits = self.networks["net"](batch.x)
        gold = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        return gold.where(self.trusted[batch.index], PF.forward_correction_loss(logits, batch.labels, self.T))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p(clean class i | x, given label y) ∝ p_i T[i, y], (N, c); trusted samples keep their label."""
        corrected = super().corrected_labels(predict_logits)
        given = nn.functional.one_hot(self.info.labels, self.info.num_classes).to(corrected)
        return torch.where(self.trusted.to(corrected.device)[:, None], given, corrected)
