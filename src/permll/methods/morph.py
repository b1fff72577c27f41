"""MORPH: training on everything turns by itself into training on what was memorised (KDD 2021)."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.morph import NO_PREDICTION, is_memorized, noise_rate_from_loss_areas, update_prediction_history
from permll.functional.schedules import sigmoid_rampup
from permll.functional.selection import selection_weights
from permll.methods._base import FitInfo, Method, PredictLogits, StreamSpec, TrainPass, in_epochs
from permll.methods._state import SampleBuffer
from permll.utils.indexing import split_repeats


class MORPH(Method):
    """Cross-entropy on all samples first, then on a safe set that grows and is cleaned as training goes on.

    A sample is memorised if its label is what the network predicted most often in its last q visits. Right labels are
    memorised first. So the first phase ends when as many samples are memorised as labels are right, (1 - τ) N: at this
    point as many wrong labels are memorised as right ones are not. Those memorised are the safe set. From then on
    cross-entropy learns from the safe samples of a batch alone, and J = |p(x) - p(x')|² asks for the same prediction
    of two views of every sample; each visit takes a sample into the safe set, or out of it.

    τ follows from the sum of each sample's losses over all epochs so far, the area under its loss curve: two normal
    distributions are fitted to these areas, and τ is the share of the upper one.

    Args:
        history: q, the visits that decide what is memorised, below 1 as a share of all epochs; the authors' 10 of 120.
            The first phase lasts so many epochs at least.
        weight: of J, when it has risen.
        ramp: the epochs in which it rises after the first phase, below 1 as a share of all epochs; the paper does not
            say.
        against: the view that J compares the weak one with: ``"weak"`` for another draw of it, or ``"strong"``.
    """

    histories: SampleBuffer
    areas: SampleBuffer
    safe: SampleBuffer
    rate: Tensor
    begin: Tensor
    consistency: Tensor

    def __init__(
        self,
        *,
        history: float = 1 / 12,
        weight: float = 5.0,
        ramp: float = 0.25,
        against: Literal["weak", "strong"] = "weak",
    ) -> None:
        super().__init__()
        if history <= 0:
            raise ValueError(f"history must be positive, got {history}.")
        if weight < 0 or ramp < 0:
            raise ValueError(f"weight and ramp must be 0 or more, got {weight} and {ramp}.")
        self.history, self.weight, self.ramp, self.against = history, weight, ramp, against

    def on_fit_start(self, info: FitInfo) -> None:
        """Make empty histories; every sample is safe."""
        super().on_fit_start(info)
        self._visits = min(max(in_epochs(self.history, info.epochs), 1), info.epochs)
        self._ramp = in_epochs(self.ramp, info.epochs)
        self.histories = SampleBuffer(info.labels, info.ids, (self._visits,), fill=NO_PREDICTION, dtype=torch.int32)
        self.areas = SampleBuffer(info.labels, info.ids)
        self.safe = SampleBuffer(info.labels, info.ids, fill=True, dtype=torch.bool)
        self.register_buffer("rate", torch.zeros(()))
        self.register_buffer("begin", torch.tensor(info.epochs))  # of the second phase: not known yet
        self.register_buffer("consistency", torch.zeros(()))  # the present weight of J

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows: on their labels, or on those of the safe set and two views of all."""
        if number > 0:
            return None
        begin = int(self.begin)
        if epoch < begin:
            return TrainPass()
        if self.weight == 0:
            return TrainPass(loss="evolve")
        self.consistency.fill_(self.weight * sigmoid_rampup((epoch - begin) / self._ramp if self._ramp else 1.0))
        return TrainPass({"batch": StreamSpec(("weak", "weak:2" if self.against == "weak" else "strong"))}, "evolve")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,), and remember losses and predictions."""
        logits = self.networks["net"](batch.x)
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        for visits in split_repeats(batch.index):
            samples = batch.index[visits]
            self.areas.write(samples, self.areas.read(samples) + losses.detach()[visits])
        self._remember(batch.index, logits)
        return losses

    def evolve(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,) of safe samples, weighted as their mean, and J of all; remember predictions."""
        logits, *other = self.networks["net"](torch.cat([*batch.views.values()])).chunk(len(batch.views))
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        losses = selection_weights(self.safe.read(batch.index)) * losses
        for view in other:
            losses = losses + self.consistency * (logits.softmax(-1) - view.softmax(-1)).square().sum(-1)
        self._remember(batch.index, logits)
        self.safe.write(batch.index, is_memorized(self.histories.read(batch.index), batch.labels))
        return losses

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Estimate the noise rate in the first phase, and end it if as many samples are memorised as labels right."""
        assert self.info is not None
        if epoch >= int(self.begin):
            return
        found = noise_rate_from_loss_areas(self.areas.values)
        if found is not None:
            self.rate.fill_(found)
        known = is_memorized(self.histories.values, self.histories.labels)
        if epoch + 1 >= self._visits and int(known.sum()) >= (1 - self.rate.item()) * len(known):
            self.safe.values.copy_(known)
            self.begin.fill_(epoch + 1)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the share (N, c) of each label among the predictions of the history and the present one."""
        present = super().corrected_labels(predict_logits)
        past = self.histories.values.to(present.device)
        votes = torch.zeros_like(present)
        for visit in past.T:
            votes.scatter_add_(1, visit.clamp_min(0)[:, None].long(), (visit != NO_PREDICTION)[:, None].to(votes))
        return (votes + present) / (votes.sum(1, keepdim=True) + 1)

    def metrics(self) -> Mapping[str, float]:
        """Return the noise rate as it is estimated, the share of memorised samples, and that of the safe set."""
        known = is_memorized(self.histories.values, self.histories.labels)
        return {
            "noise_rate": self.rate.item(),
            "memorised": known.double().mean().item(),
            "safe": self.safe.values.double().mean().item(),
        }

    def resolved_params(self) -> dict[str, Any]:
        """Return the noise rate that ended the first phase, and the epochs of that phase: all, if it never ended."""
        return {"noise_rate": round(self.rate.item(), 4), "first_phase": int(self.begin)}

    def _remember(self, index: Tensor, logits: Tensor) -> None:
        predicted = logits.detach().argmax(-1)
        for visits in split_repeats(index):
            samples = index[visits]
            self.histories.write(samples, update_prediction_history(self.histories.read(samples), predicted[visits]))
