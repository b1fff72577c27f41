"""Generalized cross-entropy, plain and truncated (Zhang and Sabuncu, 2018)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, in_epochs, setting
from permll.methods._state import SampleBuffer


class GeneralizedCrossEntropy(Method):
    """L_q = (1 - p_y^q) / q, between cross-entropy (q = 0) and the mean absolute error (q = 1).

    Args:
        q: exponent; the larger, the less weight have labels with a low predicted probability.
    """

    batch_coupling = "none"

    q: float = setting(0.7, "[0, 1]")

    def loss(self, batch: Batch) -> Tensor:
        """Return L_q (B,)."""
        return PF.gce(self.networks["net"](batch.x), batch.labels, self.q)


class TruncatedGCE(GeneralizedCrossEntropy):
    """L_q on samples with p_y > k; the others are pruned.

    Pruning is repeated at intervals. It uses evaluation mode and the best weights so far on noisy validation data
    (without validation data, the current weights). Training continues with the current weights.

    Args:
        k: threshold of p_y, at or below which samples are pruned.
        prune_from: first epoch with pruning, or a fraction of all epochs if below 1; the authors' 40 of 120.
        prune_every: epochs between prunings, or a fraction of all epochs if below 1; the authors' 10 of 120.
    """

    keeps_best = True

    k: float = setting(0.5, "(0, 1)")
    prune_from: float = setting(1 / 3, "[0, inf)")
    prune_every: float = setting(1 / 12, "(0, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the mask of kept samples."""
        super().on_fit_start(info)
        self.refusals: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64))
        self.kept = SampleBuffer(info.labels, info.ids, fill=True, dtype=torch.bool)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, after pruning if it is due."""
        if number == 0 and self._prunes_at(epoch):
            self._prune(predict_logits(best=True))
        return super().train_pass(epoch, number, predict_logits)

    def loss(self, batch: Batch) -> Tensor:
        """Return L_q (B,) of kept samples, and the constant L_q(k) of pruned ones."""
        kept = self.kept.read(batch.index)
        return PF.truncated_gce(self.networks["net"](batch.x), batch.labels, kept, self.q, self.k)

    def metrics(self) -> dict[str, float]:
        """Return the fraction of kept samples, and the number of prunings skipped because they would keep none."""
        return {"kept": self.kept.values.double().mean().item(), "refusals": float(self.refusals)}

    def _prunes_at(self, epoch: int) -> bool:
        first, every = (in_epochs(length, self.info.epochs) for length in (self.prune_from, self.prune_every))
        return epoch >= first and (epoch - first) % max(every, 1) == 0

    def _prune(self, logits: Tensor) -> None:
        kept = PF.truncated_gce_mask(logits, self.kept.labels.to(logits.device), self.k)
        if kept.any():
            self.kept.values.copy_(kept)
        else:
            self.refusals += 1
