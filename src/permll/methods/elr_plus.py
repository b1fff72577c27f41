"""ELR+: ELR with two networks, weight averaging and mixup (NeurIPS 2020)."""

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data.streams import Batch
from permll.data.transforms.mixing import mixup as draw_mix
from permll.methods._base import FitInfo, PredictLogits, StreamSpec, TrainPass, setting
from permll.methods._state import ClassStateMethod, SampleBuffer, storage_kwargs
from permll.methods.elr import one_hot_like, update_target


class ELRPlus(ClassStateMethod):
    """ELR of two networks on mixup samples, each with targets from the other's averaged weights.

    The loss is -Σ y log p + λ log(1 - <t, p>). Each network f has an exponential moving average (EMA) g of its weights,
    and targets t of every sample. A step of f1 mixes inputs and given labels of the batch; g2 predicts the unmixed
    inputs, t ← β t + (1 - β) g2(x), and the targets are mixed like the labels. Then g1 is updated. The networks
    alternate by pass, and share one set of labels.

    The EMA covers weights only. g predicts in training mode, with batch statistics, so its running statistics are not
    used. f1 and f2 predict, not their EMAs.

    Args:
        beta: β, momentum of t; the authors' 0.9 under asymmetric noise and on CIFAR-100.
        lam: λ, weight of the regularizer; the authors' 1 under asymmetric noise, 7 on CIFAR-100.
        lam_ramp: fraction of the steps over which λ rises from almost 0; the authors' 0, on CIFAR-100 the first 40,000
            steps.
        mixup: parameter of the Beta distribution of mixup.
        decay: decay of the EMA.
        decay_ramp: fraction of the steps over which the decay rises from almost 0; the authors' 40,000 of 70,400 on
            CIFAR-10. With 0, the EMA is a plain mean until the decay allows a longer window.
        refine_labels: multiply labels by t and renormalize, as the authors' code does on CIFAR-100; not in the paper.
        draws: samples of an epoch, a new class-balanced draw by given label; default all.
    """

    network_names = ("net0", "net1", "mean0", "mean1")

    beta: float = setting(0.7, "[0, 1)")
    lam: float = setting(3.0, "[0, inf)")
    lam_ramp: float = setting(0.0, "[0, 1]")
    mixup: float = setting(1.0, "(0, inf)")
    decay: float = setting(0.997, "[0, 1)")
    decay_ramp: float = setting(0.57, "[0, 1]")
    refine_labels: bool = False
    draws: int | None = setting(None, "[2, inf)")

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate t = 0, and initialize the EMAs with the networks' weights."""
        super().on_fit_start(info)
        self.trained = nn.Buffer(torch.zeros((), dtype=torch.int64))  # network of the current pass
        self.steps = nn.Buffer(torch.zeros(2, dtype=torch.int64))  # of each network
        self.target0, self.target1 = (
            SampleBuffer(info.labels, info.ids, (info.num_classes,), **storage_kwargs(self.top_k, self.state))
            for _ in range(2)
        )
        for number in range(2):
            self.networks[f"mean{number}"].load_state_dict(self.networks[f"net{number}"].state_dict())
        drawn = min((self.draws or info.num_samples) / info.num_samples, 1.0)
        self._total_steps = info.epochs * info.steps_per_epoch * drawn  # of each network

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass for each network, over all samples or a class-balanced draw."""
        if number > 1:
            return None
        self.trained.fill_(number)
        spec = StreamSpec() if self.draws is None else StreamSpec(order="balanced", draws=self.draws)
        return TrainPass({"batch": spec}, networks=(f"net{number}",))

    def loss(self, batch: Batch) -> Tensor:
        """Return -Σ y log p + λ log(1 - <t, p>), (B,), of the mixed samples, with t after this visit."""
        trained = int(self.trained)
        mix = draw_mix(batch.keys, self.mixup, keep_first=True)
        logits = self.networks[f"net{trained}"](mix(batch.x)).float()
        with torch.no_grad():
            peer_logits = self.networks[f"mean{1 - trained}"](batch.x).float()
        targets = mix(update_target(self._targets[trained], batch.index, peer_logits, self.beta))
        labels = mix(one_hot_like(batch.labels, logits))
        if self.refine_labels:
            labels = PF.elr_reweighted_labels(labels, targets)
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        lam = self.lam * self._ramp(trained, self.lam_ramp)
        return losses + lam * PF.elr_regularizer(targets, logits)

    @torch.no_grad()
    def on_step_end(self) -> None:
        """Update the EMA of the trained network."""
        trained = int(self.trained)
        self.steps[trained] += 1
        if self.decay_ramp > 0:
            decay = self.decay * self._ramp(trained, self.decay_ramp)
        else:
            decay = min(self.decay, 1 - 1 / (int(self.steps[trained]) + 1))
        network, mean = self.networks[f"net{trained}"], self.networks[f"mean{trained}"]
        for average, weight in zip(mean.parameters(), network.parameters(), strict=True):
            average.lerp_(weight, 1 - decay)

    def predict(self, x: Tensor) -> Tensor:
        """Return the mean of both networks' probabilities (B, c)."""
        return torch.stack([self.networks[f"net{number}"](x).float().softmax(-1) for number in range(2)]).mean(0)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the mean of both t, normalized to sum 1; for samples never visited, the given label."""
        total, labels = self.target0.values + self.target1.values, self.target0.labels
        return PF.normalize_rows(total, one_hot_like(labels, total))

    def metrics(self) -> dict[str, float]:
        """Return the fraction of labels that the sum of both t contradicts."""
        labels, corrected = self.target0.labels, []
        for (rows, t0), (_, t1) in zip(*(target.table.chunks() for target in self._targets), strict=True):
            t = t0 + t1
            corrected.append((t.argmax(-1) != labels[rows].to(t.device)) & (t.sum(-1) > 0))
        return {"corrected": torch.cat(corrected).double().mean().item()}

    @property
    def _targets(self) -> tuple[SampleBuffer, SampleBuffer]:
        return self.target0, self.target1

    def _ramp(self, number: int, fraction: float) -> float:
        """Return a factor that rises to 1 over this fraction of a network's steps."""
        return PF.sigmoid_rampup(int(self.steps[number]) / (fraction * self._total_steps)) if fraction > 0 else 1.0
