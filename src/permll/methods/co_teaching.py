"""Co-teaching: each network learns from samples whose losses the other one finds small (NeurIPS 2018, ICML 2019)."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from permll.data.streams import Batch
from permll.functional.schedules import Schedule
from permll.functional.selection import disagreement_mask, selection_weights, small_loss_mask
from permll.methods._base import FitInfo, PredictLogits, TrainPass, in_epochs
from permll.methods._small_loss import SmallLoss


class CoTeaching(SmallLoss):
    """Cross-entropy of each network, the mean over the samples of a batch with the other's smallest losses.

    Of a batch, each network keeps a share 1 - F; F rises from 0 to the noise rate. Two networks err in different ways:
    a wrong label that one has begun to believe, the other may still refuse.

    Args:
        noise_rate: τ, the share of wrong labels; an oracle, where it is known. Default an estimate from what both
            networks say of held-out rows, and without such rows of training rows in the first ``ramp`` epochs.
        ramp: T_k, the epochs in which F rises, below 1 as a share of all epochs, three at least; the authors' 10 of
            200.
        exponent: c, of its rise.
        schedule: ``"paper"``, τ min(e^c / T_k, 1) after e epochs, or ``"code"``, in equal steps to τ^c, and then τ.
    """

    def __init__(
        self,
        *,
        noise_rate: float | None = None,
        ramp: float = 0.05,
        exponent: float = 1.0,
        schedule: Schedule = "paper",
    ) -> None:
        super().__init__(noise_rate, ramp, exponent, schedule)

    def loss(self, batch: Batch) -> Tensor:
        """Return the sum of both networks' losses (B,), each weighted by what the other chose."""
        return self._exchanged(*self._logits(batch), batch.labels)

    def _exchanged(
        self, one: Tensor, other: Tensor, labels: Tensor, among: Tensor | None = None, least: float = 0.0
    ) -> Tensor:
        losses = [cross_entropy(logits, labels, reduction="none") for logits in (one, other)]
        with torch.no_grad():
            chosen = [small_loss_mask(own, self.drop, among) for own in losses]
        self._count(*chosen)
        first, second = (selection_weights(mask, least) for mask in chosen)
        return second * losses[0] + first * losses[1]


class CoTeachingPlus(CoTeaching):
    """Co-teaching among the samples on which the networks disagree, so that they stay different.

    It begins as Co-teaching does. A batch on which the networks agree has no gradient.

    Args:
        noise_rate: τ, the share of wrong labels; an oracle, where it is known. Default an estimate from what both
            networks say of held-out rows, and without such rows of training rows in the first ``ramp`` epochs.
        ramp: T_k, the epochs in which F rises, below 1 as a share of all epochs, three at least; the authors' 10 of
            200.
        exponent: c, of its rise.
        schedule: ``"paper"``, τ min(e^c / T_k, 1) after e epochs, or ``"code"``, in equal steps to τ^c, and then τ.
        warm_up: epochs of Co-teaching, below 1 as a share of all epochs; the authors' 20 of 200 on CIFAR-10.
        least: a batch of which less than this share is exchanged takes a smaller step, as in Decoupling; with 0, as in
            the paper, a single sample counts as much as a batch.
        double_softmax: take probabilities for logits once the networks must disagree, as the authors' code does by
            mistake: losses of ten classes then lie between 1.46 and 2.46.
    """

    def __init__(
        self,
        *,
        noise_rate: float | None = None,
        ramp: float = 0.05,
        exponent: float = 1.0,
        schedule: Schedule = "paper",
        warm_up: float = 0.1,
        least: float = 0.1,
        double_softmax: bool = False,
    ) -> None:
        super().__init__(noise_rate=noise_rate, ramp=ramp, exponent=exponent, schedule=schedule)
        if warm_up < 0:
            raise ValueError(f"warm_up must be 0 or more, got {warm_up}.")
        if not 0 <= least <= 1:
            raise ValueError(f"least must lie in [0, 1], got {least}.")
        self.warm_up, self.least, self.double_softmax = warm_up, least, double_softmax

    def on_fit_start(self, info: FitInfo) -> None:
        """Find the epochs of Co-teaching."""
        super().on_fit_start(info)
        self._warm_up = in_epochs(self.warm_up, info.epochs)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, as Co-teaching's or among those in dispute."""
        train_pass = super().train_pass(epoch, number, predict_logits)
        return TrainPass(loss="dispute") if train_pass is not None and epoch >= self._warm_up else train_pass

    def dispute(self, batch: Batch) -> Tensor:
        """Return Co-teaching's loss (B,) among the samples on which the networks disagree; 0 without any."""
        one, other = self._logits(batch)
        among = disagreement_mask(one, other)
        if self.double_softmax:
            one, other = one.softmax(-1), other.softmax(-1)
        return self._exchanged(one, other, batch.labels, among, self.least)
