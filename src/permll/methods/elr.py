"""ELR: what a network said early of a sample keeps it from learning a wrong label later (NeurIPS 2020)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.memory import elr_regulariser, elr_target, in_order, normalised
from permll.methods._base import FitInfo, Method, Scan
from permll.methods._state import SampleBuffer


class ELR(Method):
    """Cross-entropy with a pull towards a memory t of earlier predictions: -log p_y + λ log(1 - <t, p>).

    At every visit t ← β t + (1 - β) p, from the pass that is trained on and before its loss. A sample that a batch
    holds twice is remembered twice, in the batch's order, and each visit is pulled to the memory of that moment.

    Args:
        beta: β, how much of the memory a visit leaves.
        lam: λ, the weight of the pull.
    """

    target: SampleBuffer

    def __init__(self, *, beta: float = 0.7, lam: float = 3.0) -> None:
        super().__init__()
        if not 0 <= beta < 1:
            raise ValueError(f"beta must lie in [0, 1), got {beta}.")
        if lam < 0:
            raise ValueError(f"lam must be 0 or more, got {lam}.")
        self.beta, self.lam = beta, lam

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the memory, which begins empty."""
        super().on_fit_start(info)
        self.target = SampleBuffer(info.labels, info.ids, (info.num_classes,))

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y + λ log(1 - <t, p>), (B,), with t after this visit."""
        logits = self.networks["net"](batch.x)
        target = remember(self.target, batch.index, logits.detach(), self.beta)
        given = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        return given + self.lam * elr_regulariser(target, logits)

    def corrected_labels(self, scan: Scan) -> Tensor:
        """Return t, each row divided by its sum; the given label of a sample that was never visited."""
        given = nn.functional.one_hot(self.target.labels, self.target.values.shape[1])
        return normalised(self.target.values, given.to(self.target.values))

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that the memory contradicts."""
        target = self.target.values
        turned = (target.argmax(-1) != self.target.labels) & (target.sum(-1) > 0)
        return {"turned": turned.double().mean().item()}


def remember(memory: SampleBuffer, index: Tensor, logits: Tensor, beta: float) -> Tensor:
    """Let each sample's memory follow what was said of it; return it (B, c) as each visit left it."""
    target = torch.empty_like(logits, dtype=memory.values.dtype)
    for visits in in_order(index):
        samples = index[visits]
        target[visits] = elr_target(memory.read(samples), logits[visits], beta).to(target)
        memory.write(samples, target[visits])
    return target
