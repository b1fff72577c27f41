"""M-correction: a Beta mixture of the losses weights label against prediction (ICML 2019)."""

from typing import Literal

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.data.transforms.mixing import mixup
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, divide_epochs, setting
from permll.methods._eval_mode import eval_mode

Variant = Literal["M-DYR-H", "M-DYR-S", "MD-DYR-SH"]
MIN_TEMPERATURE = 1e-3  # soft targets are effectively hard


class MCorrection(Method):
    """Mixup, then mixup with targets (1 - w) e_y + w t, where w = γ(loss) is the probability that y is wrong.

    γ is the posterior of a mixture of two Beta distributions, fitted after each epoch to the losses of all samples in
    evaluation mode. w is computed from the loss of the current batch in evaluation mode, t in training mode. A failed
    fit keeps the previous one.

    Lengths are in epochs, or fractions of all epochs if below 1.

    Args:
        variant: ``"M-DYR-H"``: t is the predicted class. ``"M-DYR-S"``: t = p. ``"MD-DYR-SH"``: inputs are mixed in
            proportion to 1 - w, targets half and half; t changes from p to the predicted class.
        warm_up: length of mixup on the given labels.
        guided: subsequent length in which MD-DYR-SH mixes inputs by 1 - w, still with the given labels.
        sharpening: length over which MD-DYR-SH lowers the temperature of t from 1 to 0.001.
        mixup: parameter of the Beta distribution of mixup.
        eta: η, weight of KL(1/c || mean prediction of a batch), which prevents the loss of classes.
    """

    variant: Variant = "M-DYR-H"
    warm_up: float = 0.35
    guided: float = 1 / 60
    sharpening: float = 0.3
    mixup: float = setting(32.0, "(0, inf)")
    eta: float = setting(1.0, "[0, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate a mixture without an upper component: every label is correct."""
        super().on_fit_start(info)
        # Rows: a, b, component weights, range of the losses.
        self.mixture = nn.Buffer(torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
        self.temperature = nn.Buffer(torch.ones(()))

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, with the loss of the epoch."""
        if number:
            return None
        warm_up, guided = self._lengths()
        if epoch < warm_up:
            return TrainPass()
        if epoch < warm_up + guided:
            return TrainPass(loss="guided_loss")
        if self.variant == "MD-DYR-SH":
            steps = divide_epochs(self.info.epochs, self.sharpening)[0] - 1
            progress = min((epoch - warm_up - guided) / max(steps, 1), 1.0)
            self.temperature.fill_(1 - (1 - MIN_TEMPERATURE) * progress)
        return TrainPass(loss="corrected_loss")

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of mixup on the given labels."""
        partner, weight = self._draw_mixup(batch)
        logits = self.networks["net"](PF.mixup_blend(batch.x, partner, weight))
        return PF.mixup_cross_entropy(logits, batch.labels, partner, weight)

    def guided_loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of mixup on the given labels, with inputs mixed in proportion to 1 - w."""
        partner, weight = self._draw_mixup(batch)
        logits = self.networks["net"](
            PF.mixup_blend(batch.x, partner, PF.guided_mixup_weight(1 - self._wrong_probs(batch), partner))
        )
        return PF.mixup_cross_entropy(logits, batch.labels, partner, weight)

    def corrected_loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of mixup with targets (1 - w) e_y + w t, and η KL(1/c || mean prediction)."""
        network = self.networks["net"]
        with torch.no_grad():
            predicted = self._predicted_targets(network(batch.x))
        wrong = self._wrong_probs(batch)
        targets = PF.bootstrapped_targets(batch.labels, predicted, wrong)
        partner, weight = self._draw_mixup(batch)
        if self.variant == "MD-DYR-SH":
            logits = network(PF.mixup_blend(batch.x, partner, PF.guided_mixup_weight(1 - wrong, partner)))
            losses = PF.mixup_cross_entropy(logits, targets, partner, 0.5)
        else:
            logits = network(PF.mixup_blend(batch.x, partner, weight))
            losses = PF.mixup_cross_entropy(logits, targets, partner, weight)
        uniform = logits.new_full((logits.shape[1],), 1 / logits.shape[1])
        return losses + self.eta * PF.class_prior_divergence(logits, uniform)

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Fit the mixture to the losses of all samples, in the weak view; from the last epoch of the warm-up on."""
        if epoch + 1 < self._lengths()[0]:
            return
        losses = nn.functional.cross_entropy(predict_logits(view="weak"), self.info.labels, reduction="none")
        low, high = PF.loss_percentile_range(losses)
        mixture = PF.fit_beta_mixture(PF.scale_losses(losses[(losses >= low) & (losses <= high)], low, high))
        if mixture is not None:
            self.mixture.copy_(torch.stack([*mixture, torch.tensor([low, high], dtype=torch.float64)]))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return (1 - w) e_y + w t (N, c); before the first fit, the network's predictions."""
        if not self._is_fitted:
            return super().corrected_labels(predict_logits)
        logits, labels = predict_logits(), self.info.labels
        return PF.bootstrapped_targets(labels, self._predicted_targets(logits), self._posterior(logits, labels))

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return 1 - w (N,), the probability that each label is correct; before the first fit, p_y."""
        if not self._is_fitted:
            return super().label_quality(predict_logits)
        return 1 - self._posterior(predict_logits(), self.info.labels)

    def metrics(self) -> dict[str, float]:
        """Return the weight of the upper component, an estimate of the noise rate."""
        return {"wrong": self.mixture[2, 1].item()}

    @property
    def _is_fitted(self) -> bool:
        return bool(self.mixture[2, 1] > 0)

    def _lengths(self) -> tuple[int, int]:
        """Return the epochs of the warm-up and of guided mixup."""
        if self.variant == "MD-DYR-SH":
            warm_up, guided, _ = divide_epochs(self.info.epochs, self.warm_up, self.guided)
            return warm_up, guided
        return divide_epochs(self.info.epochs, self.warm_up)[0], 0

    def _draw_mixup(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the mixup partner of each sample, and its own weight."""
        partner, weight = mixup(batch.keys, self.mixup)
        return partner.to(batch.x.device), weight.to(batch.x.device)

    def _predicted_targets(self, logits: Tensor) -> Tensor:
        """Return t: the predicted class, or probabilities."""
        if self.variant == "M-DYR-H":
            return nn.functional.one_hot(logits.argmax(-1), logits.shape[1]).to(logits)
        return (logits / self.temperature.to(logits)).softmax(-1)

    @torch.no_grad()
    def _wrong_probs(self, batch: Batch) -> Tensor:
        """Return w (B,)."""
        with eval_mode(self.networks["net"]) as network:
            return self._posterior(network(batch.x), batch.labels)

    def _posterior(self, logits: Tensor, labels: Tensor) -> Tensor:
        a, b, weight, (low, high) = self.mixture.to(logits.device)
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        wrong = PF.mislabeled_posterior(PF.scale_losses(losses, low, high), PF.BetaMixture(a, b, weight))
        return wrong.clamp(1e-4, 1 - 1e-4)
