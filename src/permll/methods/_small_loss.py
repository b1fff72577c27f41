"""Base classes of Decoupling, Co-teaching and JoCoR: two networks that select the samples of a step."""

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.noise_rate import conservative_noise_rate
from permll.functional.schedules import Schedule, small_loss_drop_rate
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, in_epochs, setting
from permll.methods._noise_tracking import update_noise_rate
from permll.methods._state import SampleBuffer


class TwoNetworks(Method):
    """Two independent networks, and the fraction of samples that an epoch selected."""

    batch_coupling = "logits"
    network_names = ("net0", "net1")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the counts of samples."""
        super().on_fit_start(info)
        self.visits = nn.Buffer(torch.zeros(2, dtype=torch.int64))  # selected and total, in this epoch

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples."""
        if number == 0:
            self.visits.zero_()
        return super().train_pass(epoch, number, predict_logits)

    def metrics(self) -> dict[str, float]:
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
    """Drops the largest losses of each batch; the dropped fraction F rises from 0 to the noise rate.

    Unless the noise rate is given, it is estimated after every epoch from both networks' predictions for held-out
    samples, by ``conservative_noise_rate``. Low estimates correct themselves: the more wrong labels are dropped, the
    better the networks and the estimate become. Without held-out samples, the estimate uses training samples in the
    first ``ramp`` epochs, before the networks memorize their labels.

    Args:
        noise_rate: τ, the noise rate, if it is known. Default an estimate from both networks' predictions for held-out
            samples; without these, for training samples in the first ``ramp`` epochs.
        ramp: T_k, epochs over which F rises, or a fraction of all epochs if below 1; at least three. The authors' 10 of
            200.
        exponent: c, exponent of the rise.
        schedule: ``"paper"``, τ min(e^c / T_k, 1) after e epochs, or ``"code"``, linear to τ^c, then τ.
    """

    noise_rate: float | None = setting(None, "[0, 1)")
    ramp: float = setting(0.05, "(0, inf)")
    exponent: float = setting(1.0, "(0, inf)")
    schedule: Schedule = "paper"

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the estimate, and sums of predictions if it needs them."""
        super().on_fit_start(info)
        # After fewer than three epochs the networks may be too weak to estimate the noise rate.
        self._ramp = max(in_epochs(self.ramp, info.epochs), 3 if self.ramp < 1 else 1)
        self._uses_training_samples = self.noise_rate is None and info.held_out is None
        self.rate = nn.Buffer(torch.tensor(self.noise_rate or 0.0))
        self.drop = nn.Buffer(torch.zeros(()))
        self.is_collecting = nn.Buffer(torch.zeros((), dtype=torch.bool))
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

    def metrics(self) -> dict[str, float]:
        """Return the fraction of samples that were selected in this epoch, and the noise rate."""
        return {**super().metrics(), "noise_rate": self.rate.item()}

    def resolved_params(self) -> dict[str, float]:
        """Return the noise rate, given or estimated."""
        return {"noise_rate": round(self.rate.item(), 4)}

    def _logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits0, logits1 = super()._logits(batch)
        if self._uses_training_samples and self.is_collecting:
            mean = (logits0.detach().float().softmax(-1) + logits1.detach().float().softmax(-1)) / 2
            self.predictions.add(batch.index, mean)
        return logits0, logits1
