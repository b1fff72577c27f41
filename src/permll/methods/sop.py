"""SOP: every sample learns a sparse term that stands for the noise in its label (ICML 2022)."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from permll.data.streams import Batch
from permll.functional.prediction_memory import sop_corrected_labels, sop_cross_entropy, sop_noise, sop_squared_error
from permll.functional.refurbish import class_prior_divergence, kl_divergence
from permll.methods._base import FitInfo, Method, PredictLogits, StreamSpec, TrainPass
from permll.methods._state import SampleParameter, State, check_top_k, storage_kwargs

Learning = Literal["cross_entropy", "both"]


class SOP(Method):
    """Cross-entropy of p + s with the given label, where s = u² e_y - v² (1 - e_y) learns what is noise in it.

    s begins next to nothing, and grows by each visit in proportion to what it is: first where the network contradicts
    the label again and again. u learns by the cross-entropy, v by the squared error |e_k + s - e_y|² of the class k the
    network would choose; both move by their own plain steps and stay within [-1, 1]. Prediction is the network's alone.

    Args:
        lr_u: the step of u per visit, the paper's α_u / B; default 0.78125 / c, the authors' 10 / 128 for ten classes
            and 1 / 128 for a hundred, with which u begins to grow at one pace for any c.
        lr_v: the step of v per visit, the paper's α_v / B.
        init: what u and v begin with.
        u_by: what u learns by: ``"cross_entropy"``, as in the paper, or ``"both"``, as in the authors' later code: it
            then grows even where the network is so sure that the cross-entropy has come to its bound.
        consistency: λ_C, the weight of KL(p || p') with the strongly changed view; SOP+ has 0.9.
        balance: λ_B, the weight of the divergence of a batch's mean prediction from equal shares; SOP+ has 0.1.
        top_k: keep so many entries of a row of v, and one number for the others; for many classes. Default all.
        state: how v is kept: ``"float32"``, as ``"bfloat16"`` (half the room), or on ``"disk"``, in a temporary file.
    """

    u: SampleParameter
    v: SampleParameter
    rate_u: float

    def __init__(
        self,
        *,
        lr_u: float | None = None,
        lr_v: float = 10 / 128,
        init: float = 1e-8,
        u_by: Learning = "cross_entropy",
        consistency: float = 0.0,
        balance: float = 0.0,
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        if not 0 < init <= 1:
            raise ValueError(f"init must lie in (0, 1], for u and v never leave 0; got {init}.")
        for name, value in {"lr_u": lr_u, "lr_v": lr_v, "consistency": consistency, "balance": balance}.items():
            if value is not None and value < 0:
                raise ValueError(f"{name} must be 0 or more, got {value}.")
        self.lr_u, self.lr_v, self.init, self.u_by = lr_u, lr_v, init, u_by
        self.consistency, self.balance, self.top_k, self.state = consistency, balance, top_k, state
        self._index = torch.empty(0, dtype=torch.int64)  # of the batch under way

    def on_fit_start(self, info: FitInfo) -> None:
        """Make u and v."""
        super().on_fit_start(info)
        self.u = SampleParameter(info.labels, info.ids, fill=self.init)
        kept = storage_kwargs(self.top_k, self.state)
        self.v = SampleParameter(info.labels, info.ids, (info.num_classes,), fill=self.init, **kept)
        self.rate_u = 100 / 128 / info.num_classes if self.lr_u is None else self.lr_u

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, with a strong view beside the weak one if predictions are to agree."""
        views = ("weak", "strong") if self.consistency > 0 else ("weak",)
        return TrainPass({"batch": StreamSpec(views)}) if number == 0 else None

    def loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy with s, the squared error, and what SOP+ adds, (B,)."""
        logits, *other = self.networks["net"](torch.cat([*batch.views.values()])).chunk(len(batch.views))
        self._index, labels = batch.index, batch.labels
        u, v = self.u(batch.index), self.v(batch.index)
        losses = sop_cross_entropy(logits, sop_noise(u, v.detach(), labels), labels)
        by_error = u if self.u_by == "both" else u.detach()
        losses = losses + sop_squared_error(logits, sop_noise(by_error, v, labels), labels)
        for strong in other:
            losses = losses + self.consistency * kl_divergence(logits.detach(), strong)
        if self.balance > 0:
            even = torch.full_like(logits[0], 1 / logits.shape[1])
            losses = losses + self.balance * class_prior_divergence(logits, even)
        return losses

    def on_step_end(self) -> None:
        """Move u and v of the visited samples by their own gradients, of which the loop took the mean."""
        size = len(self._index)
        for rows, lr in ((self.u, self.rate_u), (self.v, self.lr_v)):
            rows.step(lr * size)
            rows.write(self._index, rows.read(self._index).clamp(-1, 1))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return e_y - s, as probabilities."""
        return self.v.table.map_rows(self._believed)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that s outweighs."""
        believed = self.v.table.map_rows(lambda v, at: self._believed(v, at).argmax(-1))
        return {"turned": (believed != self.u.labels).double().mean().item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return what follows from the number of classes."""
        return {"lr_u": self.rate_u}

    def _believed(self, v: Tensor, at: Tensor) -> Tensor:
        u, labels = self.u.read(at), self.u.labels[at]
        return sop_corrected_labels(sop_noise(u, v.to(u), labels), labels)
