"""Joint optimization: labels become averages of recent predictions, then a new network trains on them (CVPR 2018)."""

from typing import Literal

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, TrainPass, divide_epochs, setting
from permll.methods._state import SampleBuffer

Prior = Literal["uniform", "given"]


class JointOptimization(Method):
    """Alternating updates of network and labels s at a high constant learning rate, then training on the final labels.

    The loss is -Σ_k s_k log p_k + α KL(prior || mean of p over the batch) + β H(p). The second network uses the first
    term only, with a learning rate that falls tenfold after each third of its epochs. s is the given label at first,
    then after every epoch the mean prediction over the last epochs, in training mode. A sample that an epoch does not
    visit keeps its earlier predictions; for one that it visits twice, the last prediction counts.

    Args:
        first: epochs with the given labels, or a fraction of all epochs if below 1.
        second: epochs in which the labels are updated, likewise.
        alpha: α, weight of the class prior, which prevents a single class for all labels.
        beta: β, weight of the entropy, which prevents undecided labels.
        window: epochs over which predictions are averaged.
        prior: class prior: ``"uniform"``, or the frequencies of the ``"given"`` labels.
        final_lr: initial learning rate of the second network; default the recipe's.
    """

    batch_coupling = "logits"

    first: float = 70 / 320
    second: float = 130 / 320
    alpha: float = 1.2
    beta: float = 0.8
    window: int = setting(10, "[1, inf)")
    prior: Prior = "uniform"
    final_lr: float | None = None

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the labels and the predictions of the last epochs."""
        super().on_fit_start(info)
        classes = info.num_classes
        self.epoch = nn.Buffer(torch.zeros((), dtype=torch.int64))
        self.labels = SampleBuffer(info.labels, info.ids, (classes,), at_label=1.0)
        self.predictions = SampleBuffer(info.labels, info.ids, (self.window, classes))
        given = info.labels.bincount(minlength=classes) / len(info.labels)
        class_prior = given if self.prior == "given" else torch.full((classes,), 1 / classes)
        self.class_prior = nn.Buffer(class_prior, persistent=False)

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
                loss="final_loss",
            ),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, with the loss of the stage."""
        self.epoch.fill_(epoch)
        return super().train_pass(epoch, number, predict_logits)

    def loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k s_k log p_k + α KL(prior || mean p) + β H(p), (B,); records p."""
        logits = self.networks["net"](batch.x)
        self._record(batch.index, logits.detach().softmax(-1))
        divergence = PF.class_prior_divergence(logits, self.class_prior)
        losses = self._cross_entropy(batch.index, logits) + self.alpha * divergence
        return losses + self.beta * PF.softmax_entropy(logits)

    def final_loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k s_k log p_k (B,)."""
        return self._cross_entropy(batch.index, self.networks["net"](batch.x))

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Set the labels of visited samples to their mean prediction, in the second part of the first stage."""
        first, second, _ = divide_epochs(self.info.epochs, self.first, self.second)
        if first <= epoch + 1 <= first + second:
            self.labels.values.copy_(PF.normalize_rows(self.predictions.values.sum(1), self.labels.values))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return s."""
        return self.labels.values.clone()

    def metrics(self) -> dict[str, float]:
        """Return the fraction of corrected labels."""
        return {"corrected": (self.labels.values.argmax(-1) != self.labels.labels).double().mean().item()}

    def _cross_entropy(self, index: Tensor, logits: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits, self.labels.read(index), reduction="none")

    def _record(self, index: Tensor, p: Tensor) -> None:
        slot = int(self.epoch) % self.window

        def replace_slot(rows: Tensor, positions: Tensor | slice) -> Tensor:
            rows[:, slot] = p[positions]
            return rows

        self.predictions.update(index, replace_slot)
