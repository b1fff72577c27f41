"""What Decoupling, Co-teaching and JoCoR share: two networks that choose together what a step learns from."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from permll.data.streams import Batch
from permll.functional.noise_rate import conservative_noise_rate
from permll.functional.schedules import Schedule, small_loss_drop_rate
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, in_epochs
from permll.methods._noise_tracking import follow_held_out
from permll.methods._state import SampleBuffer
from permll.utils.indexing import split_repeats


class TwoNetworks(Method):
    """Two networks with weights of their own, and how much of the data an epoch let them learn from."""

    batch_coupling = "logits"

    network_names = ("net0", "net1")

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("visits", torch.zeros(2, dtype=torch.int64))  # of the epoch: those chosen, and all
        self.visits: Tensor

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows."""
        if number == 0:
            self.visits.zero_()
        return super().train_pass(epoch, number, predict_logits)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of visits that the networks learned from in this epoch."""
        chosen, every = self.visits.tolist()
        return {"kept": chosen / max(every, 1)}

    def _logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return what both networks say, before either has moved."""
        one, other = (network(batch.x) for network in self.networks.values())
        return one, other

    def _count(self, *choices: Tensor) -> None:
        """Count the chosen samples of a batch, for each network."""
        for chosen in choices:
            self.visits[0] += chosen.sum()
            self.visits[1] += len(chosen)


class SmallLoss(TwoNetworks):
    """Leaves the largest losses of each batch out: none at first, and after some epochs as many as labels are wrong.

    How many that are, unless it is given, follows after every epoch from what both networks say of held-out rows, by
    ``conservative_noise_rate``. An estimate that is too low at first corrects itself: the more wrong labels are left out, the
    better the networks tell how many there are. Without held-out rows it follows from what the networks said of each
    training row when they came to it in the first ``ramp`` epochs, before they knew its label by heart.

    Args:
        noise_rate: τ, the share of wrong labels; an oracle, where it is known. Default an estimate.
        ramp: T_k, the epochs in which the share left out rises, below 1 as a share of all epochs, three at least.
        exponent: c, of its rise.
        schedule: its form: of Co-teaching's ``"paper"``, or of its ``"code"``; see ``small_loss_drop_rate``.
    """

    said: SampleBuffer
    rate: Tensor
    drop: Tensor
    listening: Tensor

    def __init__(self, noise_rate: float | None, ramp: float, exponent: float, schedule: Schedule) -> None:
        super().__init__()
        if noise_rate is not None and not 0 <= noise_rate < 1:
            raise ValueError(f"noise_rate must lie in [0, 1), got {noise_rate}.")
        if ramp <= 0 or exponent <= 0:
            raise ValueError(f"ramp and exponent must be positive, got {ramp} and {exponent}.")
        self.noise_rate, self.ramp, self.exponent, self.schedule = noise_rate, ramp, exponent, schedule

    def on_fit_start(self, info: FitInfo) -> None:
        """Begin with nothing left out."""
        super().on_fit_start(info)
        # In fewer than three epochs networks may know too little to tell how many labels are wrong.
        self._ramp = max(in_epochs(self.ramp, info.epochs), 3 if self.ramp < 1 else 1)
        self._listens = self.noise_rate is None and info.held_out is None
        self.register_buffer("rate", torch.tensor(self.noise_rate or 0.0))
        self.register_buffer("drop", torch.zeros(()))
        self.register_buffer("listening", torch.zeros((), dtype=torch.bool))
        if self._listens:
            self.said = SampleBuffer(info.labels, info.ids, (info.num_classes,))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, after deciding how much of its batches is left out."""
        if number == 0:
            self.drop.fill_(small_loss_drop_rate(epoch, self.rate.item(), self._ramp, self.exponent, self.schedule))
            self.listening.fill_(self._listens and epoch < self._ramp)
        return super().train_pass(epoch, number, predict_logits)

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Estimate the noise rate."""
        assert self.info is not None
        if self.noise_rate is not None:
            return
        if not follow_held_out(self.rate, self, predict_logits, first=epoch == 0) and self.listening:
            said, labels = self.said.values, self.said.labels
            visited = said.sum(1) > 0
            mean = said[visited] / said[visited].sum(1, keepdim=True)
            self.rate.fill_(conservative_noise_rate(mean.clamp_min(1e-12).log().cpu(), labels[visited].cpu()))
        # With as many wrong labels as chance would give, there would be nothing to learn.
        self.rate.clamp_(max=1 - 1 / self.info.num_classes)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of visits that the networks learned from in this epoch, and the noise rate."""
        return {**super().metrics(), "noise_rate": self.rate.item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return the noise rate that decides what is left out, given or estimated."""
        return {"noise_rate": round(self.rate.item(), 4)}

    def _logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        one, other = super()._logits(batch)
        if self._listens and self.listening:
            said = (one.detach().float().softmax(-1) + other.detach().float().softmax(-1)) / 2
            for visits in split_repeats(batch.index):
                samples = batch.index[visits]
                self.said.write(samples, self.said.read(samples) + said[visits])
        return one, other
