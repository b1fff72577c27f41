"""PENCIL: every sample owns a label distribution that back-propagation moves along with the network (CVPR 2019)."""

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.refurbish import kl_divergence, pencil_loss
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, TrainPass, divide_epochs
from permll.methods._state import SampleParameter

Compatibility = Literal["softened", "plain"]


class Pencil(Method):
    """Plain training; then network and label logits ỹ move together; then the network learns the labels d = softmax(ỹ).

    Together they minimise KL(p || d) / c + α compatibility(d, y) + β H(p) / c, with plain steps of ỹ; the last stage
    has the first term alone. The learning rate is constant at first, and falls tenfold after each third of that stage.

    Args:
        first: how long plain training on the given labels lasts: so many epochs, or below 1 a share of all.
        second: how long the labels move, likewise.
        alpha: α, how hard the given labels hold on to d.
        beta: β, the weight of the entropy, which makes predictions certain.
        lr: the step of ỹ per visit, the paper's λ / B; default 0.46875 c, the authors' 600 / 128 for ten classes.
        init: K, the head start of the given label in ỹ.
        compatibility: ``"softened"``, -log softmax(d)_y as the authors compute it, or ``"plain"``, -log d_y as they
            write it: a label that the network contradicts with certainty can then only turn if α < 1 / c.
        final_lr: the network's learning rate at the beginning of the last stage; default the recipe's.
    """

    batch_coupling = "logits"

    label_logits: SampleParameter
    rate: float

    def __init__(
        self,
        *,
        first: float = 70 / 320,
        second: float = 130 / 320,
        alpha: float = 0.1,
        beta: float = 0.4,
        lr: float | None = None,
        init: float = 10.0,
        compatibility: Compatibility = "softened",
        final_lr: float | None = None,
    ) -> None:
        super().__init__()
        self.first, self.second, self.alpha, self.beta, self.init = first, second, alpha, beta, init
        self.lr, self.final_lr, self.softened = lr, final_lr, compatibility == "softened"
        self._visits = 0  # of the step under way

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the label logits: K for the given label, 0 for the others."""
        super().on_fit_start(info)
        self.label_logits = SampleParameter(info.labels, info.ids, (info.num_classes,))
        self.label_logits.values.scatter_(1, info.labels[:, None], self.init)
        self.rate = 600 / 128 / 10 * info.num_classes if self.lr is None else self.lr

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the three stages."""
        first, second, third = divide_epochs(epochs, self.first, self.second)
        return (
            Stage("given labels", first, schedule={"kind": "constant"}),
            Stage("moving labels", second, schedule={"kind": "constant"}),
            Stage(
                "final labels",
                third,
                optimizer={} if self.final_lr is None else {"lr": self.final_lr},
                schedule={"kind": "steps", "milestones": (1 / 3, 2 / 3), "gamma": 0.1},
            ),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, with the loss of the stage."""
        assert self.info is not None
        first, second, _ = divide_epochs(self.info.epochs, self.first, self.second)
        loss = "loss" if epoch < first else "moving_loss" if epoch < first + second else "final_loss"
        return TrainPass(loss=loss) if number == 0 else None

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,)."""
        return nn.functional.cross_entropy(self.networks["net"](batch.x), batch.labels, reduction="none")

    def moving_loss(self, batch: Batch) -> Tensor:
        """Return KL(p || d) / c + α compatibility(d, y) + β H(p) / c, (B,), whose gradient ỹ follows."""
        logits, label_logits = self.networks["net"](batch.x), self.label_logits(batch.index)
        self._visits = len(batch.index)
        return pencil_loss(logits, label_logits, batch.labels, self.alpha, self.beta, softened=self.softened)

    def final_loss(self, batch: Batch) -> Tensor:
        """Return KL(p || d) / c, (B,), with labels that rest."""
        logits = self.networks["net"](batch.x)
        return kl_divergence(logits, self.label_logits.read(batch.index)) / logits.shape[1]

    def on_step_end(self) -> None:
        """Move the visited label logits by their own gradients, of which the loop took the mean."""
        self.label_logits.step(self.rate * self._visits)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return d = softmax(ỹ)."""
        return self.label_logits.values.softmax(-1)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that turned."""
        turned = self.label_logits.values.argmax(-1) != self.label_logits.labels
        return {"turned": turned.double().mean().item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return what follows from the number of classes."""
        return {"lr": self.rate}
