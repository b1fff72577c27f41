"""Generalised cross-entropy, plain and truncated (Zhang and Sabuncu, 2018)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from permll.data.streams import Batch
from permll.functional.robust import gce, truncated_gce, truncated_gce_mask
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass
from permll.methods._state import SampleBuffer


class GeneralizedCrossEntropy(Method):
    """L_q = (1 - p_y^q) / q, between cross-entropy (q = 0) and the mean absolute error (q = 1).

    Args:
        q: how far a label that the network disbelieves is ignored.
    """

    batch_coupling = "none"

    def __init__(self, *, q: float = 0.7) -> None:
        super().__init__()
        if not 0 <= q <= 1:
            raise ValueError(f"q must lie in [0, 1], got {q}.")
        self.q = q

    def loss(self, batch: Batch) -> Tensor:
        """Return L_q (B,)."""
        return gce(self.networks["net"](batch.x), batch.labels, self.q)


class TruncatedGCE(GeneralizedCrossEntropy):
    """L_q on the samples whose labels the best network so far believes, p_y > k; the others are pruned.

    Who is pruned is decided anew from time to time, in evaluation mode, by the weights that did best on the noisy
    validation data (without any: by the present ones). Training goes on with the present weights.

    Args:
        q: how far a label that the network disbelieves is ignored.
        k: labels with p_y of at most k are pruned.
        prune_from: the first epoch that is pruned, below 1 as a share of all epochs; the authors' 40 of 120.
        prune_every: epochs between two decisions, below 1 as a share of all epochs; the authors' 10 of 120.
    """

    keeps_best = True

    def __init__(
        self, *, q: float = 0.7, k: float = 0.5, prune_from: float = 1 / 3, prune_every: float = 1 / 12
    ) -> None:
        super().__init__(q=q)
        if not 0 < k < 1:
            raise ValueError(f"k must lie in (0, 1), got {k}.")
        if prune_from < 0 or prune_every <= 0:
            raise ValueError(
                f"pruning begins at an epoch and comes again after some, got {prune_from} and {prune_every}."
            )
        self.k, self.prune_from, self.prune_every = k, prune_from, prune_every
        self.kept: SampleBuffer
        self.register_buffer("refusals", torch.zeros((), dtype=torch.int64))
        self.refusals: Tensor

    def on_fit_start(self, info: FitInfo) -> None:
        """Keep every sample."""
        super().on_fit_start(info)
        self.kept = SampleBuffer(info.labels, info.ids, fill=True, dtype=torch.bool)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, after pruning where it is due."""
        if number == 0 and self._prunes_at(epoch):
            self._prune(predict_logits(best=True))
        return super().train_pass(epoch, number, predict_logits)

    def loss(self, batch: Batch) -> Tensor:
        """Return L_q (B,) of those kept, and L_q(k) of those pruned, which has no gradient."""
        kept = self.kept.read(batch.index)
        return truncated_gce(self.networks["net"](batch.x), batch.labels, kept, self.q, self.k)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of samples kept, and how often pruning was refused because it would have left none."""
        return {"kept": self.kept.values.double().mean().item(), "refusals": float(self.refusals)}

    def _prunes_at(self, epoch: int) -> bool:
        assert self.info is not None
        first, every = (
            round(share * self.info.epochs) if share < 1 else round(share)
            for share in (self.prune_from, self.prune_every)
        )
        return epoch >= first and (epoch - first) % max(every, 1) == 0

    def _prune(self, logits: Tensor) -> None:
        kept = truncated_gce_mask(logits, self.kept.labels.to(logits.device), self.k)
        if kept.any():
            self.kept.values.copy_(kept)
        else:
            self.refusals += 1
