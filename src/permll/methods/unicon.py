"""UniCon: believes equally many labels of every class, and learns from the rest by contrast too (CVPR 2022)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.contrastive import nt_xent_loss
from permll.functional.selection import (
    Units,
    js_divergence_cutoff,
    label_js_divergence,
    uniform_selection_mask,
)
from permll.methods._base import FitInfo, PredictLogits
from permll.methods._features import head_of, logits_and_features
from permll.methods._mixmatch import Blends, Guess, MixMatch
from permll.methods._state import SampleBuffer

WIDEST = 4.0  # unlabelled batches have so many of the recipe's at most, however few rows are labelled


class UniCon(MixMatch):
    """Divides the rows by the divergence d of label and prediction, the same number of each class.

    Before each turn of a network, both look at all rows: d = JSD(mean prediction, given label). R is the share of rows
    whose d is below its mean, or where that is d_μ or more somewhat lower, d̄ - (d̄ - min d) / τ. Of every given label
    the R N / c rows with the least d are labelled, or all if there are not so many. w is 1 for d below 1/2, else 1 - d.

    Then a step as in ``MixMatch``, in the same folder: targets come from weak views, and strong views are blended. To
    it comes the contrastive loss of two strong views of the unlabelled rows, on a projection of the network's features.

    Args:
        lambda_u: λ_u, the weight of the squared error. It is a mean over classes, so that the authors' 30 would weigh
            more the fewer there are: default 30, and 3 c for fewer than ten classes.
        lambda_c: λ_c, the weight of the contrastive loss.
        contrast: its temperature.
        projection: width of the projection.
        d_mu: d_μ.
        tau: τ; larger: more rows where d̄ is high.
        units: of d: ``"bits"``, in which it lies in [0, 1] as in the paper, or ``"nats"`` as in the published code,
            where it never reaches d_μ.
        unlabelled: rows of an unlabelled batch, in labelled ones, times R. The authors advise 1 for much noise.
        warm_up: epochs of cross-entropy on the given labels, one at least; below 1 a share of all. The authors' 10 on
            CIFAR-10 and 30 on CIFAR-100, of 350.
        penalty: weight of the confidence penalty Σ p log p in the warm-up. The authors' 1 under asymmetric noise, else
            0.
        temperature: T of the targets.
        mixup: of the Beta distribution that blends are drawn from.
        ramp: epochs in which λ_u rises from 0, below 1 as a share of all; the authors' 16.
        guess: mode of the network in training while it guesses targets. ``"training"``, as the authors have it, lets
            weak views into the statistics of batch norms, which would otherwise be those of strong blends alone.
        blends: which blends are passed: ``"all"``, or those of ``"labeled"`` rows, as the authors do on Clothing1M.
        draws: rows that are divided for each turn, drawn anew and evenly over the given labels; default all.
    """

    blended_views = ("strong", "strong:2")
    divergence: SampleBuffer
    labeled: SampleBuffer
    share: Tensor

    def __init__(
        self,
        *,
        lambda_u: float | None = None,
        lambda_c: float = 0.025,
        contrast: float = 0.05,
        projection: int = 128,
        d_mu: float = 0.7,
        tau: float = 5.0,
        units: Units = "bits",
        unlabeled: float = 0.5,
        warm_up: float = 0.1,
        penalty: float = 1.0,
        temperature: float = 0.5,
        mixup: float = 4.0,
        ramp: float = 16 / 350,
        guess: Guess = "training",
        blends: Blends = "all",
        draws: int | None = None,
    ) -> None:
        super().__init__(warm_up, penalty, temperature, mixup, ramp, guess, blends, draws)
        if (lambda_u is not None and lambda_u < 0) or lambda_c < 0:
            raise ValueError(f"lambda_u and lambda_c must be 0 or more, got {lambda_u} and {lambda_c}.")
        if contrast <= 0 or unlabeled <= 0 or projection < 1:
            raise ValueError(
                f"contrast, unlabelled and projection must be positive, got {contrast}, {unlabeled} and {projection}."
            )
        if d_mu <= 0 or tau < 1:
            raise ValueError(f"d_mu must be positive and tau one or more, got {d_mu} and {tau}.")
        self.lambda_u, self.lambda_c, self.contrast, self.projection = lambda_u, lambda_c, contrast, projection
        self.d_mu, self.tau, self.units, self.unlabeled = d_mu, tau, units, unlabeled
        self.projections = nn.ModuleDict()

    def on_fit_start(self, info: FitInfo) -> None:
        """Make a projection for each network, and room for what is known of the rows."""
        super().on_fit_start(info)
        for name in self.network_names:
            width = head_of(self.networks[name]).in_features
            # Without a bias, which the batch norm would take away again.
            layers = nn.Linear(width, self.projection, bias=False), nn.BatchNorm1d(self.projection)
            self.projections[name] = nn.Sequential(*layers)
        self.divergence = SampleBuffer(info.labels, info.ids, fill=1.0)
        self.labeled = SampleBuffer(info.labels, info.ids, dtype=torch.bool)
        self.register_buffer("share", torch.ones(()))

    def divide(self, number: int, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return the rows of least divergence, equally many of each given label, and the others."""
        assert self.info is not None
        rows = self.drawn_rows()
        labels = self.info.labels.cpu()[rows]
        p = torch.stack([self.look(predict_logits, name, rows).softmax(-1) for name in self.network_names]).mean(0)
        divergence = label_js_divergence(p, labels, self.units)
        share = (divergence < js_divergence_cutoff(divergence, self.d_mu, self.tau)).double().mean().item()
        quota = int(share * len(rows) / self.info.num_classes)
        chosen = uniform_selection_mask(divergence, labels, max(quota, 1))
        self.share.fill_(share)
        self.divergence.write(rows, divergence)
        self.labeled.write(rows, chosen)
        return rows[chosen], rows[~chosen]

    def right(self, index: Tensor) -> Tensor:
        """Return w (B,): 1 for a divergence below 1/2, else what is missing to 1."""
        divergence = self.divergence.read(index)
        return torch.where(divergence < 0.5, 1.0, 1 - divergence)

    def trust(self) -> Tensor:
        """Return w (N,), with 0 for rows that are not labelled."""
        every = torch.arange(len(self.divergence))
        return self.right(every).where(self.labeled.values, 0.0)

    def unlabeled_factor(self) -> float:
        """Return the size of an unlabelled batch: the fewer rows are labelled, the larger."""
        return min(0.5 * self.unlabeled / max(float(self.share), 1e-3), WIDEST)

    def weight(self) -> float:
        """Return λ_u as given, or by the number of classes."""
        assert self.info is not None
        return min(30.0, 3.0 * self.info.num_classes) if self.lambda_u is None else self.lambda_u

    def moving(self) -> tuple[str, ...]:
        """Return the optimizer of the projections."""
        return ("own",)

    def learn(self, labeled: Batch, unlabeled: Batch | None = None) -> Tensor:
        """Return the loss of a step with MixMatch, and λ_c times the contrastive loss of the unlabelled rows."""
        loss = super().learn(labeled, unlabeled)
        if unlabeled is None or self.lambda_c == 0:
            return loss
        own, _ = self.in_turn()
        projection = self.projections[self.network_names[int(self.turn[0])]]
        _, features = logits_and_features(own, torch.cat([unlabeled.views[view] for view in self.blended_views]))
        first, second = projection(features.float()).chunk(2)
        return loss + self.lambda_c * nt_xent_loss(first, second, self.contrast).mean()

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return 1 - d (N,), with d in bits and as the networks see the rows now."""
        assert self.info is not None
        return 1 - label_js_divergence(self.predict_rows(predict_logits), self.info.labels.cpu())

    def resolved_params(self) -> dict[str, Any]:
        """Return λ_u, which may follow from the number of classes."""
        return {"lambda_u": self.weight()}

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that were kept, and R."""
        return {"kept": self.labeled.values.double().mean().item(), "R": self.share.item()}
