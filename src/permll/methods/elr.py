"""ELR: what a network said early of a sample keeps it from learning a wrong label later (NeurIPS 2020)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.prediction_memory import elr_regularizer, elr_target, normalize_rows
from permll.methods._base import FitInfo, Method, PredictLogits
from permll.methods._state import SampleBuffer, State, check_top_k, storage_kwargs
from permll.utils.indexing import split_repeats


class ELR(Method):
    """Cross-entropy with a pull towards a memory t of earlier predictions: -log p_y + λ log(1 - <t, p>).

    At every visit t ← β t + (1 - β) p, from the pass that is trained on and before its loss. A sample that a batch
    holds twice is remembered twice, in the batch's order, and each visit is pulled to the memory of that moment.

    Args:
        beta: β, how much of the memory a visit leaves.
        lam: λ, the weight of the pull.
        top_k: keep so many entries of a memory, and one number for the others; for many classes. Default all.
        state: how t is kept: ``"float32"``, as ``"bfloat16"`` (half the room), or on ``"disk"``, in a temporary file.
    """

    target: SampleBuffer
    batch_coupling = "logits"
    shardable = True

    def __init__(
        self, *, beta: float = 0.7, lam: float = 3.0, top_k: int | None = None, state: State = "float32"
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        if not 0 <= beta < 1:
            raise ValueError(f"beta must lie in [0, 1), got {beta}.")
        if lam < 0:
            raise ValueError(f"lam must be 0 or more, got {lam}.")
        self.beta, self.lam, self.top_k, self.state = beta, lam, top_k, state

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the memory, which begins empty."""
        super().on_fit_start(info)
        self.target = SampleBuffer(info.labels, info.ids, (info.num_classes,), **storage_kwargs(self.top_k, self.state))

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y + λ log(1 - <t, p>), (B,), with t after this visit."""
        logits = self.networks["net"](batch.x)
        target = remember(self.target, batch.index, logits.detach(), self.beta)
        given = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        return given + self.lam * elr_regularizer(target, logits)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return t, each row divided by its sum; the given label of a sample that was never visited."""
        return self.target.map_rows(lambda t, labels: normalize_rows(t, one_hot(labels, t)))

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that the memory contradicts."""
        turned = self.target.map_rows(lambda t, labels: (t.argmax(-1) != labels) & (t.sum(-1) > 0))
        return {"turned": turned.double().mean().item()}


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """Return the one-hot form (n, c) of labels (n,), of the width and kind of ``like`` (n, c)."""
    return nn.functional.one_hot(labels, like.shape[1]).to(like)


def remember(memory: SampleBuffer, index: Tensor, logits: Tensor, beta: float) -> Tensor:
    """Let each sample's memory follow what was said of it; return it (B, c) as each visit left it."""
    target = torch.empty_like(logits, dtype=memory.table.dtype)
    for visits in split_repeats(index):
        samples = index[visits]
        target[visits] = elr_target(memory.read(samples), logits[visits], beta).to(target)
        memory.write(samples, target[visits])
    return target
