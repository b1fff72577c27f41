"""DivideMix: two networks, each of which tells the other which labels to forget (ICLR 2020)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from permll.functional.mixture import min_max_scale
from permll.functional.semi import dividemix_unlabeled_weight, gmm_clean_probability, trusted_label_mask
from permll.methods._base import FitInfo, PredictLogits
from permll.methods._mixmatch import Blends, Guess, MixMatch
from permll.methods._noise_tracking import follow_held_out
from permll.methods._state import SampleBuffer


class DivideMix(MixMatch):
    """Divides the rows by a mixture on the losses, and learns from the two parts with MixMatch.

    After the warm-up, at the beginning of every epoch and before either network moves, both look at all rows. To the
    losses of each, scaled to [0, 1], a mixture of two normal distributions is fitted; w is the probability of the lower
    one. Then each network has its turn, with the rows the *other* one divided: labelled are those with w above the
    threshold. If these are fewer than one in a hundred, the best are taken; where nothing remains unlabelled, a network
    learns from labelled rows alone. A fit that fails leaves the w before, and believes all labels where there is none.

    For what a step does see ``MixMatch`` in the same folder: targets w e_y + (1 - w) p or guessed by both networks,
    sharpened and blended, cross-entropy and λ_u times a squared error.

    Args:
        lambda_u: λ_u. The authors choose it by the true noise rate; default by the same table, by ``noise_rate``.
        noise_rate: the share of wrong labels that chooses λ_u; an oracle, where it is known. Default an estimate from
            what both networks say of held-out rows, and without such rows from the two mixtures, the mean of 1 - w.
        threshold: what w must exceed; the authors' 0.5, and 0.6 at a noise of 90 %.
        history: over how many epochs scaled losses are averaged; the authors' 1, and 5 at a noise of 90 %.
        warm_up: epochs of cross-entropy on the given labels, one at least; below 1 a share of all. The authors' 10 on
            CIFAR-10 and 30 on CIFAR-100, of 300.
        penalty: weight of the confidence penalty Σ p log p in the warm-up. The authors' 1 under asymmetric noise and on
            Clothing1M, else 0.
        temperature: T of the targets.
        mixup: of the Beta distribution that blends are drawn from.
        ramp: epochs in which λ_u rises from 0, below 1 as a share of all; the authors' 16.
        guess: mode of the network in training while it guesses targets; the authors' is ``"training"``, which lets
            unblended inputs into the statistics of batch norms.
        blends: which blends are passed: ``"all"``, or those of ``"labeled"`` rows, as the authors do on Clothing1M.
        draws: rows that each network divides in an epoch, drawn anew and evenly over the given labels; default all.
    """

    clean: SampleBuffer
    drawn: SampleBuffer
    losses: SampleBuffer
    divisions: Tensor
    rate: Tensor

    def __init__(
        self,
        *,
        lambda_u: float | None = None,
        noise_rate: float | None = None,
        threshold: float = 0.5,
        history: int = 1,
        warm_up: float = 0.1,
        penalty: float = 1.0,
        temperature: float = 0.5,
        mixup: float = 4.0,
        ramp: float = 16 / 300,
        guess: Guess = "evaluating",
        blends: Blends = "all",
        draws: int | None = None,
    ) -> None:
        super().__init__(warm_up, penalty, temperature, mixup, ramp, guess, blends, draws)
        if lambda_u is not None and lambda_u < 0:
            raise ValueError(f"lambda_u must be 0 or more, got {lambda_u}.")
        if noise_rate is not None and not 0 <= noise_rate < 1:
            raise ValueError(f"noise_rate must lie in [0, 1), got {noise_rate}.")
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must lie in [0, 1), got {threshold}.")
        if history < 1 or (history > 1 and draws is not None):
            raise ValueError(f"history must be one or more, and one where rows are drawn anew, got {history}.")
        self.lambda_u, self.noise_rate, self.threshold, self.history = lambda_u, noise_rate, threshold, history

    def on_fit_start(self, info: FitInfo) -> None:
        """Make room for both networks' w, and for the losses they follow from."""
        super().on_fit_start(info)
        self.clean = SampleBuffer(info.labels, info.ids, (2,))
        self.drawn = SampleBuffer(info.labels, info.ids, (2,), fill=True, dtype=torch.bool)
        if self.history > 1:
            self.losses = SampleBuffer(info.labels, info.ids, (self.history, 2))
        self.register_buffer("divisions", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rate", torch.tensor(self.noise_rate or 0.0))

    def divide(self, number: int, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return the rows that the other network holds for right, and those it does not."""
        if number == 0:
            self._co_divide(predict_logits)
        rows = self.drawn.values[:, 1 - number].nonzero()[:, 0]
        labeled = trusted_label_mask(self.clean.values[rows, 1 - number], self.threshold, max(2, len(rows) // 100))
        return rows[labeled], rows[~labeled]

    def right(self, index: Tensor) -> Tensor:
        """Return w (B,) by the network that is not in turn."""
        return self.clean.read(index)[:, 1 - int(self.turn[0])]

    def trust(self) -> Tensor:
        """Return the mean of both networks' w (N,), with 0 where it does not exceed the threshold."""
        return self.clean.values.where(self.clean.values > self.threshold, 0.0).mean(1)

    def weight(self) -> float:
        """Return λ_u as given, or by the noise rate."""
        assert self.info is not None
        return (
            dividemix_unlabeled_weight(float(self.rate), self.info.num_classes)
            if self.lambda_u is None
            else self.lambda_u
        )

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that were kept, and from which noise rate λ_u followed."""
        kept = self.clean.values[self.drawn.values] > self.threshold
        return {"kept": kept.double().mean().item(), "noise_rate": self.rate.item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return λ_u, and the noise rate that chose it."""
        return {"lambda_u": self.weight()} | ({"noise_rate": self.rate.item()} if self.lambda_u is None else {})

    def _co_divide(self, predict_logits: PredictLogits) -> None:
        """Let both networks look at their rows, and keep what they think of the labels."""
        assert self.info is not None
        for number, name in enumerate(self.network_names):
            rows = self.drawn_rows()
            labels = self.info.labels.cpu()[rows]
            logits = self.look(predict_logits, name, rows)
            self.drawn.values[:, number] = False
            self.drawn.values[rows, number] = True
            scaled = self._averaged(
                number, min_max_scale(nn.functional.cross_entropy(logits, labels, reduction="none"))
            )
            right = gmm_clean_probability(scaled)
            if right is None and (self.divisions == 0 or self.draws is not None):  # nothing is known of these rows
                right = torch.ones_like(scaled)
            if right is not None:
                self.clean.values[rows, number] = right.to(self.clean.values)
        if self.noise_rate is None:
            asks = self.lambda_u is None  # else nothing follows from the rate
            if not (asks and follow_held_out(self.rate, self, predict_logits, first=bool(self.divisions == 0))):
                self.rate.copy_(1 - self.clean.values[self.drawn.values].mean())
        self.divisions += 1

    def _averaged(self, number: int, scaled: Tensor) -> Tensor:
        """Return the mean of the scaled losses over the last epochs."""
        if self.history == 1:
            return scaled
        self.losses.values[:, int(self.divisions) % self.history, number] = scaled.to(self.losses.values)
        known = min(int(self.divisions) + 1, self.history)
        return self.losses.values[:, :known, number].mean(1).cpu()
