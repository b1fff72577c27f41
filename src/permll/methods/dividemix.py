"""DivideMix: each of two networks selects the labeled samples of the other (ICLR 2020)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.methods._base import FitInfo, PredictLogits, setting
from permll.methods._mixmatch import MixMatch
from permll.methods._noise_tracking import update_noise_rate
from permll.methods._state import SampleBuffer
from permll.utils.validation import check_range


class DivideMix(MixMatch):
    """Divides the samples by a mixture model of their losses, and trains on the two parts with MixMatch.

    After the warm-up, at the start of every epoch, both networks predict all samples. A mixture of two normal
    distributions is fitted to the losses of each network, scaled to [0, 1]; w is the posterior of the lower component.
    Then each network trains on the division of the *other* one: samples with w above the threshold are labeled, at
    least one in a hundred. If no sample is unlabeled, the network trains on labeled samples only. A failed fit keeps
    the previous w; without one, w = 1.

    For the MixMatch step and further settings see ``MixMatch`` in this package: targets w e_y + (1 - w) p or guesses of
    both networks, sharpened and mixed, cross-entropy and λ_u times a squared error.

    Args:
        lambda_u: λ_u. The authors choose it by the true noise rate; default the same table with ``noise_rate``.
        noise_rate: noise rate that determines λ_u, if it is known. Default an estimate from both networks' predictions
            for held-out samples; without these, the mean of 1 - w.
        threshold: lower bound of w for labeled samples; the authors' 0.5, and 0.6 at 90 % noise.
        history: epochs over which scaled losses are averaged; the authors' 1, and 5 at 90 % noise.
    """

    lambda_u: float | None = setting(None, "[0, inf)")
    noise_rate: float | None = setting(None, "[0, 1)")
    threshold: float = setting(0.5, "[0, 1)")
    history: int = 1

    def __post_init__(self) -> None:
        check_range("[1, inf)" if self.draws is None else "[1, 1]", history=self.history)

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate w of both networks, and their past losses."""
        super().on_fit_start(info)
        self.clean = SampleBuffer(info.labels, info.ids, (2,))
        self.drawn = SampleBuffer(info.labels, info.ids, (2,), fill=True, dtype=torch.bool)
        if self.history > 1:
            self.losses = SampleBuffer(info.labels, info.ids, (self.history, 2))
        self.divisions: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64))
        self.rate = nn.Buffer(torch.tensor(self.noise_rate or 0.0))

    def divide(self, number: int, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return the samples that the other network considers correct, and the rest."""
        if number == 0:
            self._co_divide(predict_logits)
        rows = self.drawn.values[:, 1 - number].nonzero()[:, 0]
        labeled = PF.trusted_label_mask(self.clean.values[rows, 1 - number], self.threshold, max(2, len(rows) // 100))
        return rows[labeled], rows[~labeled]

    def label_weights(self, index: Tensor) -> Tensor:
        """Return w (B,) by the peer network."""
        return self.clean.read(index)[:, 1 - int(self.current_pass[0])]

    def final_label_weights(self) -> Tensor:
        """Return the mean over both networks of w (N,), with 0 for w up to the threshold."""
        return self.clean.values.where(self.clean.values > self.threshold, 0.0).mean(1)

    def lambda_u_value(self) -> float:
        """Return λ_u as given, or by the noise rate."""
        if self.lambda_u is not None:
            return self.lambda_u
        return PF.dividemix_unlabeled_weight(float(self.rate), self.info.num_classes)

    def metrics(self) -> dict[str, float]:
        """Return the fraction of labeled samples, and the noise rate that determines λ_u."""
        kept = self.clean.values[self.drawn.values] > self.threshold
        return {"kept": kept.double().mean().item(), "noise_rate": self.rate.item()}

    def resolved_params(self) -> dict[str, float]:
        """Return λ_u, and the noise rate that determines it."""
        params = {"lambda_u": self.lambda_u_value()}
        return params | ({"noise_rate": self.rate.item()} if self.lambda_u is None else {})

    def _co_divide(self, predict_logits: PredictLogits) -> None:
        """Compute w of both networks, and the noise rate."""
        for number, name in enumerate(self.network_names):
            rows = self.draw_rows()
            labels = self.info.labels.cpu()[rows]
            logits = self.logits_of(predict_logits, name, rows)
            self.drawn.values[:, number] = False
            self.drawn.values[rows, number] = True
            losses = nn.functional.cross_entropy(logits, labels, reduction="none")
            scaled = self._average_losses(number, PF.min_max_scale(losses))
            clean = PF.gmm_clean_probability(scaled)
            if clean is None and (self.divisions == 0 or self.draws is not None):  # no previous fit of these samples
                clean = torch.ones_like(scaled)
            if clean is not None:
                self.clean.values[rows, number] = clean.to(self.clean.values)
        if self.noise_rate is None:
            is_needed, first = self.lambda_u is None, bool(self.divisions == 0)
            if not (is_needed and update_noise_rate(self.rate, self, predict_logits, first=first)):
                self.rate.copy_(1 - self.clean.values[self.drawn.values].mean())
        self.divisions += 1

    def _average_losses(self, number: int, scaled: Tensor) -> Tensor:
        """Return the mean of the scaled losses over the last ``history`` epochs."""
        if self.history == 1:
            return scaled
        self.losses.values[:, int(self.divisions) % self.history, number] = scaled.to(self.losses.values)
        num_recorded = min(int(self.divisions) + 1, self.history)
        return self.losses.values[:, :num_recorded, number].mean(1).cpu()
