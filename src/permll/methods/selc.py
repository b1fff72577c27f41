"""SELC: labels become a moving average of predictions, from the turning point of training on (IJCAI 2022)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.data.transforms.mixing import mixup
from permll.methods._base import BatchCoupling, FitInfo, PredictLogits, Stage, divide_epochs, in_epochs, setting
from permll.methods._state import ClassStateMethod, SampleBuffer, storage_kwargs


class SELC(ClassStateMethod):
    """Cross-entropy on the given labels, then on a moving average t of predictions: t ← α t + (1 - α) p.

    t is initialized with the given label, which after n visits has the weight α^n. Each visit updates t before its loss
    -Σ_k t_k log p_k.

    Correction must start before the network memorizes wrong labels. A rehearsal finds this turning point T_e:
    cross-entropy at a constant learning rate for some epochs, with a mixture of two normal distributions fitted to the
    losses of each. T_e is the epoch after which the means of the components are farthest apart. Training then restarts
    from the initial weights, and correction starts a few epochs before T_e. No clean labels are needed.

    Lengths are in epochs, or fractions of all epochs if below 1.

    Args:
        alpha: α, momentum of t.
        turning_point: length of cross-entropy before the correction; default as found by the rehearsal.
        rehearsal: length of the rehearsal.
        start_before: length by which the correction starts before T_e.
    """

    batch_coupling: ClassVar[BatchCoupling] = "logits"
    shardable = True

    alpha: float = setting(0.9, "[0, 1)")
    turning_point: float | None = setting(None, "[0, inf)")
    rehearsal: float = 0.25
    start_before: float = setting(0.05, "[0, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate t, initialized with the given labels, and the losses of the rehearsal."""
        super().on_fit_start(info)
        storage = storage_kwargs(self.top_k, self.state)
        self.target = SampleBuffer(info.labels, info.ids, (info.num_classes,), at_label=1.0, **storage)
        self.losses = SampleBuffer(info.labels, info.ids)
        rehearsal, *_ = self._lengths(info.epochs)
        self.distances = nn.Buffer(torch.zeros(rehearsal))
        self.start = nn.Buffer(torch.tensor(info.epochs))  # first epoch of the correction, once it is known
        if self.turning_point is not None:
            self._start_after(in_epochs(self.turning_point, info.epochs))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the rehearsal, if there is one, and a training from the initial weights."""
        rehearsal, correction, *_ = self._lengths(epochs)
        if rehearsal == 0:
            return (Stage("correct", correction),)
        # Constant, because the recipe's schedule over these few epochs would lower the learning rate too early.
        rehearse = Stage("rehearse", rehearsal, schedule={"kind": "constant"})
        return rehearse, Stage("correct", correction, "initial")

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Set the start of the correction after the rehearsal."""
        if stage.name == "correct":
            self._start_after(self._turning_point - in_epochs(self.start_before, self.info.epochs))

    def loss_at(self, epoch: int) -> str:
        """Return the name of the loss on the given labels or on t."""
        return "corrected_loss" if epoch >= int(self.start) else "loss"

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,); records it."""
        losses = nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")
        self.losses.write(batch.index, losses)
        return losses

    def corrected_loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k t_k log p_k (B,), with t after this visit."""
        logits = self.networks["net"](batch.x)
        return nn.functional.cross_entropy(logits, self._update_target(batch.index, logits.detach()), reduction="none")

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Fit the mixture in the rehearsal, and record the distance of its means."""
        if epoch < len(self.distances):
            losses = self.losses.values.cpu()
            mixture = PF.fit_gaussian_mixture(PF.scale_losses(losses, *PF.loss_percentile_range(losses)))
            self.distances[epoch] = 0.0 if mixture is None else mixture.mean.diff().item()

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return t (N, c)."""
        return self.target.values

    def metrics(self) -> dict[str, float]:
        """Return the fraction of corrected labels."""
        corrected = self.target.argmax() != self.target.labels
        return {"corrected": corrected.double().mean().item()}

    def resolved_params(self) -> dict[str, int]:
        """Return T_e as found by the rehearsal, and the epochs of cross-entropy before the correction."""
        rehearsal = len(self.distances)
        return ({"turning_point": self._turning_point} if rehearsal else {}) | {"start": int(self.start) - rehearsal}

    @property
    def _turning_point(self) -> int:
        return int(self.distances.argmax()) + 1

    def _lengths(self, epochs: int) -> list[int]:
        """Return the epochs of the rehearsal, and of the stages that follow it."""
        return divide_epochs(epochs, self.rehearsal) if self.turning_point is None else [0, epochs]

    def _start_after(self, epochs: int) -> None:
        """Start the correction after this many epochs of its stage: at least one, and not all of them."""
        rehearsal, correction, *_ = self._lengths(self.info.epochs)
        self.start.fill_(rehearsal + max(1, min(epochs, correction - 1)))

    def _update_target(self, index: Tensor, logits: Tensor) -> Tensor:
        """Update t of each visited sample, repeated ones in order; return it (B, c) as of each visit."""
        p = logits.softmax(-1)
        return self.target.update(
            index, lambda t, positions: (self.alpha * t + (1 - self.alpha) * p[positions]).to(logits)
        )


class SELCPlus(SELC):
    """SELC, then a new network trained on the corrected labels argmax t with mixup. Further settings: ``SELC``.

    Args:
        correction: length of SELC after the rehearsal; the remaining epochs train the new network.
        mixup: parameter of the Beta distribution of mixup.
    """

    batch_coupling = "inputs"
    shardable = False

    rehearsal = 0.15
    start_before = 0.025
    correction: float = 0.45
    mixup: float = setting(0.9, "(0, inf)")

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the stages of SELC, and one with new weights."""
        return (*super().stages(epochs), Stage("retrain", self._lengths(epochs)[-1], "fresh"))

    def loss_at(self, epoch: int) -> str:
        """Return the name of the loss as in SELC, or with the corrected labels."""
        return "retrain_loss" if self.stage_at(epoch) == "retrain" else super().loss_at(epoch)

    def retrain_loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy (B,) of mixup with the corrected labels."""
        partner, weight = (part.to(batch.x.device) for part in mixup(batch.keys, self.mixup))
        logits = self.networks["net"](PF.mixup_blend(batch.x, partner, weight))
        return PF.mixup_cross_entropy(logits, self.target.read(batch.index).argmax(-1), partner, weight)

    def _lengths(self, epochs: int) -> list[int]:
        if self.turning_point is None:
            return divide_epochs(epochs, self.rehearsal, self.correction)
        return [0, *divide_epochs(epochs, self.correction)]
