"""MORPH: self-transition from training on all samples to training on memorized ones (KDD 2021)."""

from typing import Literal

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.functional.morph import NO_PREDICTION
from permll.methods._base import FitInfo, Method, PredictLogits, StreamSpec, TrainPass, in_epochs, setting
from permll.methods._state import SampleBuffer


class MORPH(Method):
    """Cross-entropy on all samples, then on a safe set that is updated at every visit.

    A sample is memorized if its label is the most frequent prediction in its last q visits. Correct labels are
    memorized first. The first phase therefore ends when the number of memorized samples reaches that of correct labels,
    (1 - τ) N: then as many wrong labels are memorized as correct ones are not. The memorized samples form the safe set.
    In the second phase cross-entropy uses the safe samples of a batch, and J = |p(x) - p(x')|² asks for equal
    predictions of two views of every sample; each visit adds a sample to the safe set or removes it.

    τ is estimated from the sum of each sample's losses over all epochs so far, the area under its loss curve: two
    normal distributions are fitted to these areas, and τ is the weight of the upper one.

    Args:
        history: q, visits that determine whether a sample is memorized, or a fraction of all epochs if below 1; the
            authors' 10 of 120. The first phase lasts at least this long.
        weight: final weight of J.
        ramp: epochs over which the weight of J rises in the second phase, or a fraction of all epochs if below 1; not
            specified in the paper.
        consistency_view: second view in J: ``"weak"`` for another draw of the weak view, or ``"strong"``.
    """

    history: float = setting(1 / 12, "(0, inf)")
    weight: float = setting(5.0, "[0, inf)")
    ramp: float = setting(0.25, "[0, inf)")
    consistency_view: Literal["weak", "strong"] = "weak"

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate empty histories; every sample is safe."""
        super().on_fit_start(info)
        self._history_size = min(max(in_epochs(self.history, info.epochs), 1), info.epochs)
        self._ramp = in_epochs(self.ramp, info.epochs)
        self.histories = SampleBuffer(
            info.labels, info.ids, (self._history_size,), fill=NO_PREDICTION, dtype=torch.int32
        )
        self.areas = SampleBuffer(info.labels, info.ids)
        self.safe = SampleBuffer(info.labels, info.ids, fill=True, dtype=torch.bool)
        self.rate = nn.Buffer(torch.zeros(()))
        self.second_phase = nn.Buffer(torch.tensor(info.epochs))  # its first epoch, once it is known
        self.consistency = nn.Buffer(torch.zeros(()))  # current weight of J

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, with the loss of the phase and a second view for J."""
        if number > 0:
            return None
        start = int(self.second_phase)
        if epoch < start:
            return TrainPass()
        if self.weight == 0:
            return TrainPass(loss="safe_loss")
        self.consistency.fill_(self.weight * PF.sigmoid_rampup((epoch - start) / self._ramp if self._ramp else 1.0))
        second_view = "weak:2" if self.consistency_view == "weak" else "strong"
        return TrainPass({"batch": StreamSpec(("weak", second_view))}, "safe_loss")

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,); records losses and predictions."""
        logits = self.networks["net"](batch.x)
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        self.areas.add(batch.index, losses)
        self._record(batch.index, logits)
        return losses

    def safe_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,) of safe samples, weighted as a mean, plus J of all; records predictions."""
        logits, *other = self.networks["net"](torch.cat([*batch.views.values()])).chunk(len(batch.views))
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        losses = PF.selection_weights(self.safe.read(batch.index)) * losses
        for view in other:
            losses = losses + self.consistency * (logits.softmax(-1) - view.softmax(-1)).square().sum(-1)
        self._record(batch.index, logits)
        self.safe.write(batch.index, PF.is_memorized(self.histories.read(batch.index), batch.labels))
        return losses

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Estimate the noise rate in the first phase; end it if as many samples are memorized as labels are correct."""
        if epoch >= int(self.second_phase):
            return
        rate = PF.noise_rate_from_loss_areas(self.areas.values)
        if rate is not None:
            self.rate.fill_(rate)
        memorized_mask = PF.is_memorized(self.histories.values, self.histories.labels)
        num_correct = (1 - self.rate.item()) * len(memorized_mask)
        if epoch + 1 >= self._history_size and int(memorized_mask.sum()) >= num_correct:
            self.safe.values.copy_(memorized_mask)
            self.second_phase.fill_(epoch + 1)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the frequency (N, c) of each class among the past predictions and the current probabilities."""
        probabilities = super().corrected_labels(predict_logits)
        history = self.histories.values.to(probabilities.device)
        votes = torch.zeros_like(probabilities)
        for visit in history.T:
            votes.scatter_add_(1, visit.clamp_min(0)[:, None].long(), (visit != NO_PREDICTION)[:, None].to(votes))
        return (votes + probabilities) / (votes.sum(1, keepdim=True) + 1)

    def metrics(self) -> dict[str, float]:
        """Return the estimated noise rate, and the fractions of memorized and of safe samples."""
        memorized_mask = PF.is_memorized(self.histories.values, self.histories.labels)
        return {
            "noise_rate": self.rate.item(),
            "memorised": memorized_mask.double().mean().item(),
            "safe": self.safe.values.double().mean().item(),
        }

    def resolved_params(self) -> dict[str, float]:
        """Return the noise rate that ended the first phase, and the length of that phase in epochs."""
        return {"noise_rate": round(self.rate.item(), 4), "first_phase": int(self.second_phase)}

    def _record(self, index: Tensor, logits: Tensor) -> None:
        predicted = logits.detach().argmax(-1)
        self.histories.update(
            index, lambda history, positions: PF.update_prediction_history(history, predicted[positions])
        )
