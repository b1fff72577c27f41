"""Base classes of Decoupling, Co-teaching and JoCoR: two networks that select the samples of a step."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from permll.data.streams import Batch
from permll.functional.noise_rate import conservative_noise_rate
from permll.functional.schedules import Schedule, small_loss_drop_rate
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, in_epochs
from permll.methods._noise_tracking import update_noise_rate
from permll.methods._state import SampleBuffer
from permll.utils.validation import check_range


class TwoNetworks(Method):
    """Two independent networks, and the fraction of samples that an epoch selected."""

    batch_coupling = "logits"

    network_names = ("net0", "net1")

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("visits", torch.zeros(2, dtype=torch.int64))  # selected and total, in this epoch
        self.visits: Tensor

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples."""
        if number == 0:
            self.visits.zero_()
        return super().train_pass(epoch, number, predict_logits)

    def metrics(self) -> Mapping[str, float]:
        """Return the fraction of samples that were selected in this epoch."""
        selected, total = self.visits.tolist()
        return {"kept": selected / max(total, 1)}

    def _logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of both networks."""
        logits0, logits1 = (network(batch.x) for network in self.networks.values())
        return logits0, logits1

    def _count(self, *selections: Tensor) -> None:
        """Count the selected samples of a batch, for each network."""
        for selected in selections:
            self.visits[0] += selected.sum()
            self.visits[1] += len(selected)


class SmallLoss(TwoNetworks):
    """Drops the largest losses of each batch; the dropped fraction rises from 0 to the noise rate.

    Unless the noise rate is given, it is estimated after every epoch from both networks' predictions for held-out
    samples, by ``conservative_noise_rate``. Low estimates correct themselves: the more wrong labels are dropped, the
    better the networks and the estimate become. Without held-out samples, the estimate uses training samples in the
    first ``ramp`` epochs, before the networks memorize their labels.

    Args:
        noise_rate: τ, the noise rate, if it is known. Default an estimate.
        ramp: T_k, epochs over which the dropped fraction rises, or a fraction of all epochs if below 1; at least three.
        exponent: c, exponent of the rise.
        schedule: form of the rise, of Co-teaching's ``"paper"`` or ``"code"``; see ``small_loss_drop_rate``.
    """

    predictions: SampleBuffer
    rate: Tensor
    drop: Tensor
    is_collecting: Tensor

    def __init__(self, noise_rate: float | None, ramp: float, exponent: float, schedule: Schedule) -> None:
        super().__init__()
        check_range("[0, 1)", noise_rate=noise_rate)
        check_range("(0, inf)", ramp=ramp, exponent=exponent)
        self.noise_rate, self.ramp, self.exponent, self.schedule = noise_rate, ramp, exponent, schedule

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the estimate, and sums of predictions if it needs them."""
        super().on_fit_start(info)
        # After fewer than three epochs the networks may be too weak to estimate the noise rate.
        self._ramp = max(in_epochs(self.ramp, info.epochs), 3 if self.ramp < 1 else 1)
        self._uses_training_samples = self.noise_rate is None and info.held_out is None
        self.register_buffer("rate", torch.tensor(self.noise_rate or 0.0))
        self.register_buffer("drop", torch.zeros(()))
        self.register_buffer("is_collecting", torch.zeros((), dtype=torch.bool))
        if self._uses_training_samples:
            self.predictions = SampleBuffer(info.labels, info.ids, (info.num_classes,))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples; sets the fraction to drop."""
        if number == 0:
            self.drop.fill_(small_loss_drop_rate(epoch, self.rate.item(), self._ramp, self.exponent, self.schedule))
            self.is_collecting.fill_(self._uses_training_samples and epoch < self._ramp)
        return super().train_pass(epoch, number, predict_logits)

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Estimate the noise rate."""
        if self.noise_rate is not None:
            return
        if not update_noise_rate(self.rate, self, predict_logits, first=epoch == 0) and self.is_collecting:
            sums, labels = self.predictions.values, self.predictions.labels
            visited = sums.sum(1) > 0
            mean = sums[visited] / sums[visited].sum(1, keepdim=True)
            self.rate.fill_(conservative_noise_rate(mean.clamp_min(1e-12).log().cpu(), labels[visited].cpu()))
        # At a higher rate the labels would carry no information.
        self.rate.clamp_(max=1 - 1 / self.info.num_classes)

    def metrics(self) -> Mapping[str, float]:
        """Return the fraction of samples that were selected in this epoch, and the noise rate."""
        return {**super().metrics(), "noise_rate": self.rate.item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return the noise rate, given or estimated."""
        return {"noise_rate": round(self.rate.item(), 4)}

    def _logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits0, logits1 = super()._logits(batch)
        if self._uses_training_samples and self.is_collecting:
            mean = (logits0.detach().float().softmax(-1) + logits1.detach().float().softmax(-1)) / 2
            self.predictions.add(batch.index, mean)
        return logits0, logits1
