"""Joint optimisation: labels become what the network has said of late, then a fresh one learns them (CVPR 2018)."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.prediction_memory import normalize_rows
from permll.functional.refurbish import class_prior_divergence, softmax_entropy
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, TrainPass, divide_epochs
from permll.methods._state import SampleBuffer
from permll.utils.indexing import split_repeats

Prior = Literal["even", "given"]


class JointOptimization(Method):
    """Network and labels s in turn, at a high and constant learning rate; then a fresh network learns the final labels.

    The loss is -Σ_k s_k log p_k + α KL(prior || mean of p over the batch) + β H(p). The second network has the first
    term alone, and a learning rate that falls tenfold after each third of its epochs. s is the given label at first,
    then after every epoch the mean of what the network said in the last ones, while it was trained. A sample that an
    epoch does not visit keeps what was said of it before; of one that it visits twice, the last word counts.

    Args:
        first: how long the labels are the given ones: so many epochs, or below 1 a share of all.
        second: how long they follow the network, likewise.
        alpha: α, the weight of the classes' shares, without which all labels could become one.
        beta: β, the weight of the entropy, without which labels could stay undecided.
        window: the mean is that of so many epochs.
        prior: the shares of the classes: ``"even"``, or as in the ``"given"`` labels.
        final_lr: the learning rate the second network begins with; default the recipe's.
    """

    batch_coupling = "logits"

    labels: SampleBuffer
    said: SampleBuffer
    shares: Tensor
    epoch: Tensor

    def __init__(
        self,
        *,
        first: float = 70 / 320,
        second: float = 130 / 320,
        alpha: float = 1.2,
        beta: float = 0.8,
        window: int = 10,
        prior: Prior = "even",
        final_lr: float | None = None,
    ) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window must be one epoch or more, got {window}.")
        self.first, self.second, self.alpha, self.beta = first, second, alpha, beta
        self.window, self.prior, self.final_lr = window, prior, final_lr
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the labels, and room for what will be said in as many epochs as count."""
        super().on_fit_start(info)
        classes = info.num_classes
        self.labels = SampleBuffer(info.labels, info.ids, (classes,))
        self.labels.values.scatter_(1, info.labels[:, None], 1.0)
        self.said = SampleBuffer(info.labels, info.ids, (self.window, classes))
        given = info.labels.bincount(minlength=classes) / len(info.labels)
        shares = given if self.prior == "given" else torch.full((classes,), 1 / classes)
        self.register_buffer("shares", shares, persistent=False)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the two steps of the paper."""
        first, second, third = divide_epochs(epochs, self.first, self.second)
        return (
            Stage("labels and network", first + second, schedule={"kind": "constant"}),
            Stage(
                "final labels",
                third,
                weights="fresh",
                optimizer={} if self.final_lr is None else {"lr": self.final_lr},
                schedule={"kind": "steps", "milestones": (1 / 3, 2 / 3), "gamma": 0.1},
            ),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, with the loss of the stage."""
        self.epoch.fill_(epoch)
        first, second, _ = self._epochs()
        return TrainPass(loss="loss" if epoch < first + second else "final_loss") if number == 0 else None

    def loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k s_k log p_k + α KL(prior || mean p) + β H(p), (B,), and note what the network says."""
        logits = self.networks["net"](batch.x)
        self._note(batch.index, logits.detach().softmax(-1))
        forgotten = class_prior_divergence(logits, self.shares)
        return self._misfit(batch.index, logits) + self.alpha * forgotten + self.beta * softmax_entropy(logits)

    def final_loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k s_k log p_k (B,)."""
        return self._misfit(batch.index, self.networks["net"](batch.x))

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Give every sample that was visited the mean of what was said of it, in the first step, once it is time."""
        first, second, _ = self._epochs()
        if first <= epoch + 1 <= first + second:
            self.labels.values.copy_(normalize_rows(self.said.values.sum(1), self.labels.values))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return s."""
        return self.labels.values.clone()

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that turned."""
        return {"turned": (self.labels.values.argmax(-1) != self.labels.labels).double().mean().item()}

    def _misfit(self, index: Tensor, logits: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits, self.labels.read(index), reduction="none")

    def _note(self, index: Tensor, p: Tensor) -> None:
        place = int(self.epoch) % self.window
        for visits in split_repeats(index):
            rows = self.said.read(index[visits])
            rows[:, place] = p[visits]
            self.said.write(index[visits], rows)

    def _epochs(self) -> list[int]:
        assert self.info is not None
        return divide_epochs(self.info.epochs, self.first, self.second)
