"""UniCon: uniform selection of labeled samples over classes, and a contrastive loss on the rest (CVPR 2022)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.functional.selection import Units
from permll.methods._base import FitInfo, PredictLogits, setting
from permll.methods._features import find_head, logits_and_features
from permll.methods._mixmatch import MixMatch
from permll.methods._state import SampleBuffer

MAX_UNLABELED_FACTOR = 4.0  # of an unlabeled batch, in recipe batch sizes


class UniCon(MixMatch):
    """Divides the samples by the divergence d of label and prediction, with equal numbers of each given label.

    Before each pass both networks predict all samples: d = JSD(mean prediction, given label). R is the fraction of
    samples with d below its mean d̄; if d̄ >= d_μ, below d̄ - (d̄ - min d) / τ. Of every given label the R N / c samples
    with the smallest d are labeled, or all if there are fewer. w is 1 for d < 1/2, else 1 - d.

    For the MixMatch step and further settings see ``MixMatch`` in this package: targets come from weak views, and
    strong views are mixed. The contrastive loss of two strong views of the unlabeled samples is added, on a projection
    of the network's features.

    Args:
        lambda_u: λ_u, weight of the squared error. The error is a mean over classes, so a constant weight matters more
            for fewer classes: default the authors' 30, and 3 c for fewer than ten classes.
        lambda_c: λ_c, weight of the contrastive loss.
        contrast_temperature: temperature of the contrastive loss.
        projection: width of the projection.
        d_mu: d_μ.
        tau: τ; larger values select more samples where d̄ is high.
        units: unit of d: ``"bits"``, with d in [0, 1] as in the paper, or ``"nats"`` as in the published code, where d
            never reaches d_μ.
        unlabeled_ratio: size of an unlabeled batch relative to a labeled one, times R. The authors advise 1 for high
            noise rates.
    """

    mixed_views = ("strong", "strong:2")
    extra_trained = ("own",)  # the projections

    lambda_u: float | None = setting(None, "[0, inf)")
    lambda_c: float = setting(0.025, "[0, inf)")
    contrast_temperature: float = setting(0.05, "(0, inf)")
    projection: int = setting(128, "[1, inf)")
    d_mu: float = setting(0.7, "(0, inf)")
    tau: float = setting(5.0, "[1, inf)")
    units: Units = "bits"
    unlabeled_ratio: float = setting(0.5, "(0, inf)")
    ramp = 16 / 350
    guess = "training"  # otherwise batch norm statistics would come from strong mixtures only

    def on_fit_start(self, info: FitInfo) -> None:
        """Create a projection for each network, and allocate d and the selection."""
        super().on_fit_start(info)
        self.projections = nn.ModuleDict()
        for name in self.network_names:
            width = find_head(self.networks[name]).in_features
            # Without a bias, which batch norm would cancel.
            layers = nn.Linear(width, self.projection, bias=False), nn.BatchNorm1d(self.projection)
            self.projections[name] = nn.Sequential(*layers)
        self.divergence = SampleBuffer(info.labels, info.ids, fill=1.0)
        self.labeled = SampleBuffer(info.labels, info.ids, dtype=torch.bool)
        self.selected_fraction = nn.Buffer(torch.ones(()))

    def divide(self, number: int, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return the samples with the smallest divergence, equal numbers of each given label, and the others."""
        rows = self.draw_rows()
        labels = self.info.labels.cpu()[rows]
        logits = [self.logits_of(predict_logits, name, rows) for name in self.network_names]
        p = torch.stack([one.softmax(-1) for one in logits]).mean(0)
        divergence = PF.label_js_divergence(p, labels, self.units)
        fraction = (divergence < PF.js_divergence_cutoff(divergence, self.d_mu, self.tau)).double().mean().item()
        quota = int(fraction * len(rows) / self.info.num_classes)
        selected = PF.uniform_selection_mask(divergence, labels, max(quota, 1))
        self.selected_fraction.fill_(fraction)
        self.divergence.write(rows, divergence)
        self.labeled.write(rows, selected)
        return rows[selected], rows[~selected]

    def label_weights(self, index: Tensor) -> Tensor:
        """Return w (B,): 1 for d < 1/2, else 1 - d."""
        divergence = self.divergence.read(index)
        return torch.where(divergence < 0.5, 1.0, 1 - divergence)

    def final_label_weights(self) -> Tensor:
        """Return w (N,), with 0 for unlabeled samples."""
        rows = torch.arange(len(self.divergence))
        return self.label_weights(rows).where(self.labeled.values, 0.0)

    def unlabeled_factor(self) -> float:
        """Return the size of an unlabeled batch: the fewer samples are labeled, the larger."""
        return min(0.5 * self.unlabeled_ratio / max(float(self.selected_fraction), 1e-3), MAX_UNLABELED_FACTOR)

    def lambda_u_value(self) -> float:
        """Return λ_u as given, or by the number of classes."""
        return min(30.0, 3.0 * self.info.num_classes) if self.lambda_u is None else self.lambda_u

    def mixmatch_loss(self, labelled: Batch, unlabelled: Batch | None = None) -> Tensor:
        """Return the loss of a MixMatch step, plus λ_c times the contrastive loss of the unlabeled samples."""
        loss = super().mixmatch_loss(labelled, unlabelled)
        if unlabelled is None or self.lambda_c == 0:
            return loss
        network, _ = self.trained_and_peer()
        projection = self.projections[self.network_names[int(self.current_pass[0])]]
        _, features = logits_and_features(network, torch.cat([unlabelled.views[view] for view in self.mixed_views]))
        first, second = projection(features.float()).chunk(2)
        return loss + self.lambda_c * PF.nt_xent_loss(first, second, self.contrast_temperature).mean()

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return 1 - d (N,), with d in bits, of the current networks."""
        return 1 - PF.label_js_divergence(self.predict_probs(predict_logits), self.info.labels.cpu())

    def resolved_params(self) -> dict[str, float]:
        """Return λ_u, which may follow from the number of classes."""
        return {"lambda_u": self.lambda_u_value()}

    def metrics(self) -> dict[str, float]:
        """Return the fraction of labeled samples, and R."""
        return {"kept": self.labeled.values.double().mean().item(), "R": self.selected_fraction.item()}
