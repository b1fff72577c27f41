"""M-correction: a Beta mixture on the losses says how far each label is replaced by the prediction (ICML 2019)."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.data.transforms.mixing import mixup
from permll.functional.mixture import (
    BetaMixture,
    fit_beta_mixture,
    loss_percentile_range,
    mislabeled_posterior,
    scale_losses,
)
from permll.functional.mixup import bootstrapped_targets, guided_mixup_weight, mixup_blend, mixup_cross_entropy
from permll.functional.refurbish import class_prior_divergence
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, divide_epochs
from permll.methods._eval_mode import evaluating

Variant = Literal["M-DYR-H", "M-DYR-S", "MD-DYR-SH"]
COLDEST = 1e-3  # temperature at which soft targets are hard


class MCorrection(Method):
    """Mixup first, then mixup with targets (1 - w) e_y + w t, where w = γ(loss) says how probably y is wrong.

    γ is that of a mixture of two Beta distributions, fitted after each epoch to the losses of all samples in evaluation
    mode. w follows from the loss of the batch itself, in evaluation mode too; t from the network as it is trained.
    A fit that fails leaves the one before.

    Settings in epochs may be shares of all epochs instead, below 1.

    Args:
        variant: ``"M-DYR-H"``: t is the class that is predicted. ``"M-DYR-S"``: t = p. ``"MD-DYR-SH"``: inputs are
            blended in proportion to 1 - w, targets half and half; t goes from p to the predicted class.
        warm_up: epochs of mixup on the given labels.
        guided: epochs after them in which MD-DYR-SH blends inputs by 1 - w, with the given labels still.
        sharpening: epochs over which MD-DYR-SH lets the temperature of t fall from 1 to 0.001.
        mixup: of the Beta distribution that blends are drawn from.
        eta: η, the weight of KL(1/c || mean prediction of a batch), which keeps all classes in play.
    """

    mixture: Tensor
    temperature: Tensor

    def __init__(
        self,
        *,
        variant: Variant = "M-DYR-H",
        warm_up: float = 0.35,
        guided: float = 1 / 60,
        sharpening: float = 0.3,
        mixup: float = 32.0,
        eta: float = 1.0,
    ) -> None:
        super().__init__()
        if mixup <= 0:
            raise ValueError(f"mixup must be positive, got {mixup}.")
        if eta < 0:
            raise ValueError(f"eta must be 0 or more, got {eta}.")
        self.variant, self.warm_up, self.guided, self.sharpening = variant, warm_up, guided, sharpening
        self.mixup, self.eta = mixup, eta

    def on_fit_start(self, info: FitInfo) -> None:
        """Begin with a mixture without an upper hump: no label is wrong."""
        super().on_fit_start(info)
        # Rows a, b, π, and the range of the losses.
        self.register_buffer("mixture", torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
        self.register_buffer("temperature", torch.ones(()))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, with the loss of the epoch."""
        if number:
            return None
        assert self.info is not None
        warm_up, guided = self._lengths()
        if epoch < warm_up:
            return TrainPass()
        if epoch < warm_up + guided:
            return TrainPass(loss="guide")
        if self.variant == "MD-DYR-SH":
            steps = divide_epochs(self.info.epochs, self.sharpening)[0] - 1
            fallen = min((epoch - warm_up - guided) / max(steps, 1), 1.0)
            self.temperature.fill_(1 - (1 - COLDEST) * fallen)
        return TrainPass(loss="correct")

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of mixup on the given labels."""
        partner, share = self._draw(batch)
        logits = self.networks["net"](mixup_blend(batch.x, partner, share))
        return mixup_cross_entropy(logits, batch.labels, partner, share)

    def guide(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of mixup on the given labels, with inputs blended in proportion to 1 - w."""
        partner, share = self._draw(batch)
        logits = self.networks["net"](
            mixup_blend(batch.x, partner, guided_mixup_weight(1 - self._wrong(batch), partner))
        )
        return mixup_cross_entropy(logits, batch.labels, partner, share)

    def correct(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of mixup with targets (1 - w) e_y + w t, and η KL(1/c || mean prediction)."""
        network = self.networks["net"]
        with torch.no_grad():
            predicted = self._predicted(network(batch.x))
        wrong = self._wrong(batch)
        targets = bootstrapped_targets(batch.labels, predicted, wrong)
        partner, share = self._draw(batch)
        if self.variant == "MD-DYR-SH":
            logits = network(mixup_blend(batch.x, partner, guided_mixup_weight(1 - wrong, partner)))
            losses = mixup_cross_entropy(logits, targets, partner, 0.5)
        else:
            logits = network(mixup_blend(batch.x, partner, share))
            losses = mixup_cross_entropy(logits, targets, partner, share)
        uniform = logits.new_full((logits.shape[1],), 1 / logits.shape[1])
        return losses + self.eta * class_prior_divergence(logits, uniform)

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Fit the mixture to the losses of all samples, seen as in training; not while mixup goes on without it."""
        assert self.info is not None
        if epoch + 1 < self._lengths()[0]:
            return
        losses = nn.functional.cross_entropy(predict_logits(view="weak"), self.info.labels, reduction="none")
        low, high = loss_percentile_range(losses)
        mixture = fit_beta_mixture(scale_losses(losses[(losses >= low) & (losses <= high)], low, high))
        if mixture is not None:
            self.mixture.copy_(torch.stack([*mixture, torch.tensor([low, high], dtype=torch.float64)]))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return (1 - w) e_y + w t (N, c); without a mixture, in warm-up, what the network predicts."""
        assert self.info is not None
        if not self._fitted:
            return super().corrected_labels(predict_logits)
        logits = predict_logits()
        return bootstrapped_targets(
            self.info.labels, self._predicted(logits), self._posterior(logits, self.info.labels)
        )

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return 1 - w (N,), how probably each label is right; without a mixture, in warm-up, p_y."""
        assert self.info is not None
        return (
            1 - self._posterior(predict_logits(), self.info.labels)
            if self._fitted
            else super().label_quality(predict_logits)
        )

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that the mixture holds for wrong."""
        return {"wrong": self.mixture[2, 1].item()}

    @property
    def _fitted(self) -> bool:
        return bool(self.mixture[2, 1] > 0)

    def _lengths(self) -> tuple[int, int]:
        """Return the epochs of the warm-up, and of guided mixup."""
        assert self.info is not None
        if self.variant == "MD-DYR-SH":
            warm_up, guided, _ = divide_epochs(self.info.epochs, self.warm_up, self.guided)
            return warm_up, guided
        return divide_epochs(self.info.epochs, self.warm_up)[0], 0

    def _draw(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return whom each sample is blended with, and its share."""
        partner, share = mixup(batch.keys, self.mixup)
        return partner.to(batch.x.device), share.to(batch.x.device)

    def _predicted(self, logits: Tensor) -> Tensor:
        """Return t: the predicted class, or probabilities."""
        if self.variant == "M-DYR-H":
            return nn.functional.one_hot(logits.argmax(-1), logits.shape[1]).to(logits)
        return (logits / self.temperature.to(logits)).softmax(-1)

    @torch.no_grad()
    def _wrong(self, batch: Batch) -> Tensor:
        """Return w (B,)."""
        with evaluating(self.networks["net"]) as network:
            return self._posterior(network(batch.x), batch.labels)

    def _posterior(self, logits: Tensor, labels: Tensor) -> Tensor:
        a, b, weight, (low, high) = self.mixture.to(logits.device)
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        return mislabeled_posterior(scale_losses(losses, low, high), BetaMixture(a, b, weight)).clamp(1e-4, 1 - 1e-4)
