"""PENCIL: a label distribution per sample, trained by back-propagation with the network (CVPR 2019)."""

from typing import Literal

from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, divide_epochs
from permll.methods._state import SampleParameter

Compatibility = Literal["softened", "plain"]


class Pencil(Method):
    """Standard training; then network and label logits ỹ together; then the network on d = softmax(ỹ).

    The second stage minimizes KL(p || d) / c + α compatibility(d, y) + β H(p) / c, with plain gradient steps of ỹ; the
    last stage has the first term only. The learning rate is constant in the first two stages, and falls tenfold after
    each third of the last.

    Args:
        first: epochs of cross-entropy on the given labels, or a fraction of all epochs if below 1.
        second: epochs in which the labels are trained, likewise.
        alpha: α, weight of the compatibility of d with the given labels.
        beta: β, weight of the entropy, which makes predictions confident.
        lr: step size of ỹ per visit, the paper's λ / B; default 0.46875 c, the authors' 600 / 128 for ten classes.
        init: K, initial logit of the given label.
        compatibility: ``"softened"``, -log softmax(d)_y as in the authors' code, or ``"plain"``, -log d_y as in the
            paper: a label that a confident network contradicts can then only be corrected if α < 1 / c.
        final_lr: initial learning rate of the last stage; default the recipe's.
    """

    batch_coupling = "logits"

    first: float = 70 / 320
    second: float = 130 / 320
    alpha: float = 0.1
    beta: float = 0.4
    lr: float | None = None
    init: float = 10.0
    compatibility: Compatibility = "softened"
    final_lr: float | None = None

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the label logits: K for the given label, 0 for the others."""
        super().on_fit_start(info)
        self.label_logits = SampleParameter(info.labels, info.ids, (info.num_classes,), at_label=self.init)
        self._batch_size = 0
        self.label_lr = 600 / 128 / 10 * info.num_classes if self.lr is None else self.lr

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the three stages."""
        first, second, third = divide_epochs(epochs, self.first, self.second)
        return (
            Stage("given labels", first, schedule={"kind": "constant"}),
            Stage("moving labels", second, schedule={"kind": "constant"}, loss="label_update_loss"),
            Stage(
                "final labels",
                third,
                optimizer={} if self.final_lr is None else {"lr": self.final_lr},
                schedule={"kind": "steps", "milestones": (1 / 3, 2 / 3), "gamma": 0.1},
                loss="final_loss",
            ),
        )

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,)."""
        return nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")

    def label_update_loss(self, batch: Batch) -> Tensor:
        """Return KL(p || d) / c + α compatibility(d, y) + β H(p) / c, (B,)."""
        logits, label_logits = self.networks["net"](batch.x), self.label_logits(batch.index)
        self._batch_size = len(batch.index)
        softened = self.compatibility == "softened"
        return PF.pencil_loss(logits, label_logits, batch.labels, self.alpha, self.beta, softened=softened)

    def final_loss(self, batch: Batch) -> Tensor:
        """Return KL(p || d) / c, (B,), with fixed labels."""
        logits = self.networks["net"](batch.x)
        return PF.kl_divergence(logits, self.label_logits.read(batch.index)) / logits.shape[1]

    def on_step_end(self) -> None:
        """Update the label logits of the batch; the batch size undoes the trainer's mean."""
        self.label_logits.step(self.label_lr * self._batch_size)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return d = softmax(ỹ)."""
        return self.label_logits.values.softmax(-1)

    def metrics(self) -> dict[str, float]:
        """Return the fraction of corrected labels."""
        corrected = self.label_logits.values.argmax(-1) != self.label_logits.labels
        return {"corrected": corrected.double().mean().item()}

    def resolved_params(self) -> dict[str, float]:
        """Return the step size, which may follow from the number of classes."""
        return {"lr": self.label_lr}
