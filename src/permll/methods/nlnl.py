"""NLNL: negative learning, then selection of samples whose labels the network predicts (Kim et al., 2019)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in, uniform
from permll.methods._base import FitInfo, Method, PredictLogits, Stage, StreamSpec, TrainPass, divide_epochs, setting
from permll.methods._state import SampleBuffer


class PseudoLabeling(Method):
    """Base class of NLNL and JNPL: the mean prediction p̄ of each sample, and the final two pseudo-label stages.

    p̄ is the mean softmax over the last epochs: of the training pass for samples that the epoch trained on, and at the
    end of the epoch for the others.

    - ``pseudo1``: a new network is trained on the given labels of the samples with p̄_y >= ``threshold``; p̄ restarts.
    - ``pseudo2``: another new network is trained on all samples with p̄ as targets.

    Both weight a sample by the inverse frequency of its label, w_k = max count / count of k.

    Args:
        complementary: complementary labels drawn per visit of a sample, with replacement; default NLNL's 1, and 1.1 c
            for more than ten classes (the authors' 110 for a hundred), where fewer are not sufficient.
        threshold: lower bound of p̄_y for trusted labels.
        average: epochs over which p̄ is averaged.
    """

    batch_coupling = "logits"

    complementary: int | None = setting(None, "[1, inf)")
    threshold: float = setting(0.5, "(0, 1)")
    average: int = setting(10, "[1, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate the predictions; every sample is selected."""
        super().on_fit_start(info)
        self.num_recorded: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64))  # epochs in p̄ since its restart
        self.refusals: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64))
        self.num_complementary = self.complementary or (1 if info.num_classes <= 10 else round(1.1 * info.num_classes))
        self.predictions = SampleBuffer(info.labels, info.ids, (self.average, info.num_classes))
        self.selected = SampleBuffer(info.labels, info.ids, fill=True, dtype=torch.bool)
        self.class_weights = nn.Buffer(_inverse_frequency(info.labels, info.num_classes))

    def _pseudo_stages(self, pseudo1: int, pseudo2: int) -> tuple[Stage, Stage]:
        first = Stage("pseudo1", pseudo1, "fresh", loss="positive_loss")
        return first, Stage("pseudo2", pseudo2, "fresh", loss="soft_loss")

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Select the samples of ``pseudo1`` and restart p̄; before ``pseudo2``, select all."""
        labels = self.predictions.labels
        if stage.name == "pseudo1":
            self._select(self.threshold)
            self.num_recorded.zero_()
            self.class_weights.copy_(_inverse_frequency(labels[self.selected.values], len(self.class_weights)))
        elif stage.name == "pseudo2":
            self.selected.values.fill_(True)
            self.class_weights.copy_(_inverse_frequency(self.mean_prediction().argmax(-1), len(self.class_weights)))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over the selected samples, with the loss of the stage."""
        if number > 0:
            return None
        selected = StreamSpec(rows=self.selected.values.nonzero()[:, 0].cpu())
        return TrainPass({"batch": selected}, self.loss_at(epoch))

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Record predictions for samples that were not trained on; ``pseudo2`` leaves p̄ unchanged."""
        if self.stage_at(epoch) == "pseudo2":
            return
        unselected, slots = ~self.selected.values, self.predictions.values
        if unselected.any():
            slots[unselected, self._slot] = predict_logits().softmax(-1).to(slots)[unselected]
        self.num_recorded += 1

    def positive_loss(self, batch: Batch) -> Tensor:
        """Return -w_y log p_y (B,), divided by the mean of w_y; updates p̄."""
        logits = self._record_logits(batch)
        weights = self.class_weights[batch.labels]
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none") * weights / weights.mean()

    def soft_loss(self, batch: Batch) -> Tensor:
        """Return -w_k Σ_j p̄_j log p_j (B,), where k = argmax p̄."""
        logits = self.networks["net"](batch.x)
        targets = self.mean_prediction(batch.index).to(logits)
        losses = nn.functional.cross_entropy(logits, targets, reduction="none")
        return losses * self.class_weights[targets.argmax(-1)]

    def mean_prediction(self, index: Tensor | None = None) -> Tensor:
        """Return p̄ of all samples (N, c), or of those at ``index`` (B, c)."""
        values = self.predictions.values if index is None else self.predictions.read(index)
        return values[:, : min(int(self.num_recorded), self.average)].mean(1)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return p̄ (N, c); before the first epoch has ended, the network's predictions."""
        return self.mean_prediction() if self.num_recorded > 0 else super().corrected_labels(predict_logits)

    def metrics(self) -> dict[str, float]:
        """Return the fraction of selected samples, and the number of selections skipped for fewer than two samples."""
        return {"selected": self.selected.values.double().mean().item(), "refusals": float(self.refusals)}

    def resolved_params(self) -> dict[str, float]:
        """Return the number of complementary labels, which may follow from the number of classes."""
        return {"complementary": self.num_complementary}

    def _select(self, threshold: float) -> None:
        """Select the samples with p̄_y >= ``threshold``; all, if there are fewer than two."""
        is_trusted = self.mean_prediction().gather(1, self.predictions.labels[:, None])[:, 0] >= threshold
        if int(is_trusted.sum()) < 2:
            self.refusals += 1
            is_trusted.fill_(True)
        self.selected.values.copy_(is_trusted)

    def _record_logits(self, batch: Batch) -> Tensor:
        logits: Tensor = self.networks["net"](batch.x)
        slots = self.predictions.values
        slots[batch.index, self._slot] = logits.detach().to(slots).softmax(-1)
        return logits

    def _complementary_labels(self, batch: Batch) -> Tensor:
        random = uniform(fold_in(batch.keys, 0), self.num_complementary).to(batch.labels.device)
        return PF.complementary_labels(batch.labels, random, len(self.class_weights))

    @property
    def _slot(self) -> int:
        return int(self.num_recorded) % self.average


class NLNL(PseudoLabeling):
    """Negative learning, selective negative learning, selective positive learning, then the two pseudo-label stages.

    - ``NL``: -Σ log(1 - p_ȳ) over complementary labels ȳ, on all samples.
    - ``SelNL``: the same on samples with p̄_y >= 1/c, selected every epoch.
    - ``SelPL``: cross-entropy on samples with p̄_y >= ``threshold``, selected every epoch.

    These three stages have a constant learning rate; the pseudo-label stages follow the recipe's schedule. For these
    and for further settings see ``PseudoLabeling``.

    Args:
        nl: epochs of NL, or a fraction of all epochs if below 1; the authors' 720 of 3120.
        sel_nl: epochs of SelNL, likewise.
        sel_pl: epochs of SelPL, likewise.
        pseudo1: epochs of pseudo1, likewise; the authors' 480. The rest is pseudo2.
        lr: learning rate of NL, SelNL and SelPL; default the recipe's.
    """

    nl: float = 3 / 13
    sel_nl: float = 3 / 13
    sel_pl: float = 3 / 13
    pseudo1: float = 2 / 13
    lr: float | None = None

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return NL, SelNL, SelPL, pseudo1 and pseudo2."""
        lengths = divide_epochs(epochs, self.nl, self.sel_nl, self.sel_pl, self.pseudo1)
        optimizer = {} if self.lr is None else {"lr": self.lr}
        constant = {"kind": "constant"}
        return (
            Stage("NL", lengths[0], "last", optimizer, constant),
            Stage("SelNL", lengths[1], "last", optimizer, constant),
            Stage("SelPL", lengths[2], "last", optimizer, constant, loss="positive_loss"),
            *self._pseudo_stages(*lengths[3:]),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over the selected samples; SelNL and SelPL select them first."""
        stage = self.stage_at(epoch)
        if number == 0 and stage in ("SelNL", "SelPL"):
            self._select(self.threshold if stage == "SelPL" else 1 / len(self.class_weights))
        return super().train_pass(epoch, number, predict_logits)

    def loss(self, batch: Batch) -> Tensor:
        """Return -w_y Σ log(1 - p_ȳ) (B,) over random complementary labels; updates p̄."""
        losses = PF.negative_learning_loss(self._record_logits(batch), self._complementary_labels(batch))
        return losses * self.class_weights[batch.labels]


def _inverse_frequency(labels: Tensor, num_classes: int) -> Tensor:
    """Return max count / count (c,) of each class, 0 for classes that do not occur."""
    counts = torch.bincount(labels, minlength=num_classes).float()
    return torch.where(counts > 0, counts.max() / counts, 0.0)
