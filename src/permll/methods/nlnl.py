"""NLNL: learn what a sample is not, then trust the labels that the network came to believe (Kim et al., 2019)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in, uniform
from permll.functional.negative import complementary_labels, negative_learning_loss
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, StreamSpec, TrainPass, divide_epochs
from permll.methods._state import SampleBuffer


class PseudoLabelling(Method):
    """What NLNL and JNPL share: the memory p̄ of what each sample was predicted, and the two stages that end them.

    p̄ (c numbers a sample) is the mean softmax of the last epochs. Rows that an epoch trains on are remembered as the
    training pass saw them, the others as the network sees them at its end.

    - ``pseudo1``: a fresh network learns the given labels of the rows with p̄_y >= ``cut``, and fills the memory anew.
    - ``pseudo2``: another fresh network learns all rows with p̄ as targets.

    Both weigh a sample by how rare its label is, w_k = max count / count of k.

    Args:
        cut: what p̄_y must reach for a label to be trusted.
        average: epochs in the memory.
        complementary: complementary labels drawn for each visit of a sample, with replacement; default 1, and 1.1 c for
            more than ten classes.
    """

    batch_coupling = "logits"

    def __init__(self, cut: float, average: int, complementary: int | None) -> None:
        super().__init__()
        if not 0 < cut < 1:
            raise ValueError(f"cut must lie in (0, 1), got {cut}.")
        if average < 1 or (complementary is not None and complementary < 1):
            raise ValueError(f"average and complementary must be one or more, got {average} and {complementary}.")
        self.cut, self.average, self.complementary = cut, average, complementary
        self.memory: SampleBuffer
        self.selected: SampleBuffer
        self.register_buffer("remembered", torch.zeros((), dtype=torch.int64))  # epochs since the memory was emptied
        self.register_buffer("refusals", torch.zeros((), dtype=torch.int64))
        self.remembered: Tensor
        self.refusals: Tensor
        self.class_weights: Tensor

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the memory; every row is selected."""
        super().on_fit_start(info)
        self.draws = self.complementary or (1 if info.num_classes <= 10 else round(1.1 * info.num_classes))
        self.memory = SampleBuffer(info.labels, info.ids, (self.average, info.num_classes))
        self.selected = SampleBuffer(info.labels, info.ids, fill=True, dtype=torch.bool)
        self.register_buffer("class_weights", _rarity(info.labels, info.num_classes))

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Before ``pseudo1`` choose its rows and empty the memory; before ``pseudo2`` take the memory for labels."""
        labels = self.memory.labels
        if stage.name == "pseudo1":
            self._select(self.cut)
            self.remembered.zero_()
            self.class_weights.copy_(_rarity(labels[self.selected.values], len(self.class_weights)))
        elif stage.name == "pseudo2":
            self.selected.values.fill_(True)
            self.class_weights.copy_(_rarity(self.mean_prediction().argmax(-1), len(self.class_weights)))

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Complete the memory of this epoch; ``pseudo2`` leaves it as it is."""
        if self.stage_at(epoch) == "pseudo2":
            return
        outside = ~self.selected.values
        if outside.any():
            self.memory.values[outside, self._slot] = predict_logits().softmax(-1).to(self.memory.values)[outside]
        self.remembered += 1

    def positive_loss(self, batch: Batch) -> Tensor:
        """Return -w_y log p_y (B,), divided by the mean of w_y; remember p."""
        logits = self._remembered_logits(batch)
        weights = self.class_weights[batch.labels]
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none") * weights / weights.mean()

    def soft_loss(self, batch: Batch) -> Tensor:
        """Return -w_k Σ_j p̄_j log p_j (B,), k being the class that p̄ names."""
        logits = self.networks["net"](batch.x)
        targets = self.mean_prediction(batch.index).to(logits)
        losses = nn.functional.cross_entropy(logits, targets, reduction="none")
        return losses * self.class_weights[targets.argmax(-1)]

    def mean_prediction(self, index: Tensor | None = None) -> Tensor:
        """Return p̄, of all rows (N, c) or of those at ``index`` (B, c)."""
        values = self.memory.values if index is None else self.memory.read(index)
        return values[:, : min(int(self.remembered), self.average)].mean(1)

    def stage_at(self, epoch: int) -> str:
        """Return the name of the stage of an epoch."""
        assert self.info is not None
        names = [stage.name for stage in self.stages(self.info.epochs) for _ in range(stage.epochs)]
        return names[epoch]

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p̄ (N, c), or where nothing is remembered yet what the network predicts."""
        return self.mean_prediction() if self.remembered > 0 else super().corrected_labels(predict_logits)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of rows trained on, and how often all were taken because fewer than two were believed."""
        return {"selected": self.selected.values.double().mean().item(), "refusals": float(self.refusals)}

    def resolved_params(self) -> dict[str, Any]:
        """Return what follows from the number of classes."""
        return {"complementary": self.draws}

    def _select(self, least: float) -> None:
        """Select the rows with p̄_y >= ``least``; if there are fewer than two, all."""
        believed = self.mean_prediction().gather(1, self.memory.labels[:, None])[:, 0] >= least
        if int(believed.sum()) < 2:
            self.refusals += 1
            believed.fill_(True)
        self.selected.values.copy_(believed)

    def _selected_rows(self) -> dict[str, StreamSpec]:
        return {"batch": StreamSpec(rows=self.selected.values.nonzero()[:, 0].cpu())}

    def _remembered_logits(self, batch: Batch) -> Tensor:
        logits: Tensor = self.networks["net"](batch.x)
        self.memory.values[batch.index, self._slot] = logits.detach().to(self.memory.values).softmax(-1)
        return logits

    def _complementary_labels(self, batch: Batch) -> Tensor:
        chance = uniform(fold_in(batch.keys, 0), self.draws).to(batch.labels.device)
        return complementary_labels(batch.labels, chance, len(self.class_weights))

    @property
    def _slot(self) -> int:
        return int(self.remembered) % self.average


class NLNL(PseudoLabelling):
    """Negative learning, then on selected rows, then positive learning on fewer, then the two stages of pseudo labels.

    - ``NL``: -Σ log(1 - p_ȳ) over complementary labels ȳ, on all rows.
    - ``SelNL``: the same on rows with p̄_y >= 1/c, chosen anew every epoch.
    - ``SelPL``: cross-entropy on rows with p̄_y >= ``cut``, chosen anew every epoch.

    The three stages keep one learning rate throughout; the other two follow the recipe's schedule. For the stages that
    come after see ``PseudoLabelling``.

    Args:
        complementary: complementary labels drawn for each visit of a sample, with replacement; default as the authors
            have it, 1, and 110 for a hundred classes, where fewer teach nothing: 1.1 c for more than ten.
        cut: what p̄_y must reach for a label to be trusted.
        average: epochs in the memory p̄.
        nl: epochs of NL, below 1 as a share of all; the authors' 720 of 3120.
        sel_nl: epochs of SelNL likewise.
        sel_pl: epochs of SelPL likewise.
        pseudo1: epochs of pseudo1 likewise; the authors' 480. The rest is pseudo2.
        lr: the learning rate of NL, SelNL and SelPL; default the recipe's.
    """

    def __init__(
        self,
        *,
        complementary: int | None = None,
        cut: float = 0.5,
        average: int = 10,
        nl: float = 3 / 13,
        sel_nl: float = 3 / 13,
        sel_pl: float = 3 / 13,
        pseudo1: float = 2 / 13,
        lr: float | None = None,
    ) -> None:
        super().__init__(cut, average, complementary)
        self.shares, self.lr = (nl, sel_nl, sel_pl, pseudo1), lr

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return NL, SelNL, SelPL, pseudo1 and pseudo2."""
        *steady, pseudo1, pseudo2 = divide_epochs(epochs, *self.shares)
        optimizer = {} if self.lr is None else {"lr": self.lr}
        return (
            *(
                Stage(name, count, optimizer=optimizer, schedule={"kind": "constant"})
                for name, count in zip(("NL", "SelNL", "SelPL"), steady, strict=True)
            ),
            Stage("pseudo1", pseudo1, "fresh"),
            Stage("pseudo2", pseudo2, "fresh"),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over the rows that the stage selects."""
        if number > 0:
            return None
        stage = self.stage_at(epoch)
        if stage in ("SelNL", "SelPL"):
            self._select(self.cut if stage == "SelPL" else 1 / len(self.class_weights))
        losses = {"NL": "loss", "SelNL": "loss", "SelPL": "positive_loss", "pseudo1": "positive_loss"}
        return TrainPass(self._selected_rows(), losses.get(stage, "soft_loss"))

    def loss(self, batch: Batch) -> Tensor:
        """Return -w_y Σ log(1 - p_ȳ) (B,) over fresh complementary labels; remember p."""
        losses = negative_learning_loss(self._remembered_logits(batch), self._complementary_labels(batch))
        return losses * self.class_weights[batch.labels]


def _rarity(labels: Tensor, num_classes: int) -> Tensor:
    """Return max count / count (c,) for each class, 0 for one that never occurs."""
    counts = torch.bincount(labels, minlength=num_classes).float()
    return torch.where(counts > 0, counts.max() / counts, 0.0)
