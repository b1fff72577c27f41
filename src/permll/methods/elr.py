"""ELR: a regularizer toward early predictions that prevents memorization of wrong labels (NeurIPS 2020)."""

from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, PredictLogits, setting
from permll.methods._state import ClassStateMethod, SampleBuffer, storage_kwargs


class ELR(ClassStateMethod):
    """Cross-entropy and a regularizer toward a moving average t of predictions: -log p_y + λ log(1 - <t, p>).

    At every visit t ← β t + (1 - β) p, with p of the training pass and before its loss. A sample that occurs twice in a
    batch is updated twice, in order, and each occurrence uses the t of its own update.

    Args:
        beta: β, momentum of t.
        lam: λ, weight of the regularizer.
    """

    batch_coupling = "logits"
    shardable = True

    beta: float = setting(0.7, "[0, 1)")
    lam: float = setting(3.0, "[0, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate t = 0."""
        super().on_fit_start(info)
        self.target = SampleBuffer(info.labels, info.ids, (info.num_classes,), **storage_kwargs(self.top_k, self.state))

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y + λ log(1 - <t, p>), (B,), with t after this visit."""
        logits = self.networks["net"](batch.x)
        target = update_target(self.target, batch.index, logits.detach(), self.beta)
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        return losses + self.lam * PF.elr_regularizer(target, logits)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return t normalized to sum 1; for samples never visited, the given label."""
        return self.target.map_rows(lambda t, labels: PF.normalize_rows(t, one_hot_like(labels, t)))

    def metrics(self) -> dict[str, float]:
        """Return the fraction of labels that t contradicts."""
        corrected = self.target.map_rows(lambda t, labels: (t.argmax(-1) != labels) & (t.sum(-1) > 0))
        return {"corrected": corrected.double().mean().item()}


def one_hot_like(labels: Tensor, like: Tensor) -> Tensor:
    """Return labels (n,) as one-hot (n, c), with the width, dtype and device of ``like`` (n, c)."""
    return nn.functional.one_hot(labels, like.shape[1]).to(like)


def update_target(memory: SampleBuffer, index: Tensor, logits: Tensor, beta: float) -> Tensor:
    """Update t of each visited sample; return it (B, c) as of each visit."""
    return memory.update(index, lambda t, positions: PF.elr_target(t, logits[positions], beta).to(t))
