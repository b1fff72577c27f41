"""SOP: a trained sparse term per sample models the noise of its label (ICML 2022)."""

from typing import Literal

import torch
from torch import Tensor

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, PredictLogits, StreamSpec, TrainPass, setting
from permll.methods._state import ClassStateMethod, SampleParameter, storage_kwargs

ULoss = Literal["cross_entropy", "both"]


class SOP(ClassStateMethod):
    """Cross-entropy of p + s with the given label, where s = u² e_y - v² (1 - e_y) models the label noise.

    s is almost 0 at first, and grows at each visit in proportion to its size, fastest where the network repeatedly
    contradicts the label. u is trained with the cross-entropy, v with the squared error |e_k + s - e_y|² of the
    predicted class k; both take plain gradient steps and are clamped to [-1, 1]. The network alone predicts.

    Args:
        lr_u: step size of u per visit, the paper's α_u / B; default 0.78125 / c, the authors' 10 / 128 for ten classes
            and 1 / 128 for a hundred, so that the initial growth of u does not depend on c.
        lr_v: step size of v per visit, the paper's α_v / B.
        init: initial value of u and v.
        u_loss: loss of u: ``"cross_entropy"``, as in the paper, or ``"both"``, as in the authors' later code: u then
            grows even where the cross-entropy is saturated.
        consistency: λ_C, weight of KL(p || p') with the strong view; SOP+ has 0.9.
        balance: λ_B, weight of KL(1/c || mean prediction of the batch); SOP+ has 0.1.
    """

    lr_u: float | None = setting(None, "[0, inf)")
    lr_v: float = setting(10 / 128, "[0, inf)")
    init: float = setting(1e-8, "(0, 1]")  # u and v would stay at 0
    u_loss: ULoss = "cross_entropy"
    consistency: float = setting(0.0, "[0, inf)")
    balance: float = setting(0.0, "[0, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate u and v."""
        super().on_fit_start(info)
        self._index = torch.empty(0, dtype=torch.int64)  # of the current batch
        self.u = SampleParameter(info.labels, info.ids, fill=self.init)
        storage = storage_kwargs(self.top_k, self.state)
        self.v = SampleParameter(info.labels, info.ids, (info.num_classes,), fill=self.init, **storage)
        self.resolved_lr_u = 100 / 128 / info.num_classes if self.lr_u is None else self.lr_u

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, with a strong view for the consistency."""
        views = ("weak", "strong") if self.consistency > 0 else ("weak",)
        return TrainPass({"batch": StreamSpec(views)}) if number == 0 else None

    def loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy with s, the squared error, and the terms of SOP+, (B,)."""
        logits, *other = self.networks["net"](torch.cat([*batch.views.values()])).chunk(len(batch.views))
        self._index, labels = batch.index, batch.labels
        u, v = self.u(batch.index), self.v(batch.index)
        losses = PF.sop_cross_entropy(logits, PF.sop_noise(u, v.detach(), labels), labels)
        error_u = u if self.u_loss == "both" else u.detach()
        losses = losses + PF.sop_squared_error(logits, PF.sop_noise(error_u, v, labels), labels)
        for strong in other:
            losses = losses + self.consistency * PF.kl_divergence(logits.detach(), strong)
        if self.balance > 0:
            uniform = torch.full_like(logits[0], 1 / logits.shape[1])
            losses = losses + self.balance * PF.class_prior_divergence(logits, uniform)
        return losses

    def on_step_end(self) -> None:
        """Update u and v of the batch; the batch size undoes the trainer's mean."""
        batch_size = len(self._index)
        for rows, lr in ((self.u, self.resolved_lr_u), (self.v, self.lr_v)):
            rows.step(lr * batch_size)
            rows.write(self._index, rows.read(self._index).clamp(-1, 1))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return e_y - s, as probabilities."""
        return self.v.table.map_rows(self._denoised_labels)

    def metrics(self) -> dict[str, float]:
        """Return the fraction of corrected labels."""
        labels = self.v.table.map_rows(lambda v, rows: self._denoised_labels(v, rows).argmax(-1))
        return {"corrected": (labels != self.u.labels).double().mean().item()}

    def resolved_params(self) -> dict[str, float]:
        """Return the step size of u, which may follow from the number of classes."""
        return {"lr_u": self.resolved_lr_u}

    def _denoised_labels(self, v: Tensor, rows: Tensor) -> Tensor:
        u, labels = self.u.read(rows), self.u.labels[rows]
        return PF.sop_corrected_labels(PF.sop_noise(u, v.to(u), labels), labels)
