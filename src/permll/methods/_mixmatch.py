"""Base class of DivideMix and UniCon: two networks trained in turn with MixMatch on labeled and unlabeled samples."""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from permll import functional as PF
from permll.data import samplers
from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in
from permll.data.transforms.mixing import mixup as draw_mix
from permll.methods._base import (
    FitInfo,
    Method,
    PredictLogits,
    StreamSpec,
    TrainPass,
    divide_epochs,
    in_epochs,
    setting,
)
from permll.methods._eval_mode import eval_mode

GuessMode = Literal["evaluating", "training"]
MixupOn = Literal["all", "labeled"]


class MixMatch(Method):
    """Warm-up on all labels, then epochs in which each network trains on labeled and unlabeled samples.

    ``divide`` selects the labeled samples, and ``label_weights`` returns the probability w that a label is correct. A
    step uses half a batch of labeled samples and some unlabeled ones, in two views each. The target of a labeled sample
    is w e_y + (1 - w) p, where p is the mean prediction over its views; that of an unlabeled sample is the mean
    prediction of both networks. Both are sharpened. Mixup mixes views and targets over the whole batch, with a weight
    of at least 1/2 for the sample itself. The loss is the cross-entropy of labeled mixtures, λ_u times the squared
    error of the others, and KL(1/c || mean prediction).

    Args:
        warm_up: epochs of cross-entropy on the given labels, or a fraction of all epochs if below 1; at least one. The
            authors' 10 on CIFAR-10 and 30 on CIFAR-100, of 300 (DivideMix) or 350 (UniCon).
        penalty: weight of the confidence penalty Σ p log p in the warm-up. The authors' 1 under asymmetric noise, for
            DivideMix also on Clothing1M, else 0.
        temperature: T, sharpening of the targets.
        mixup: parameter of the Beta distribution of mixup.
        ramp: epochs over which λ_u rises from 0, or a fraction of all epochs if below 1; the authors' 16.
        guess: mode of the trained network while it guesses targets: ``"evaluating"``, or ``"training"``, as in the
            authors' code, which updates batch norm statistics with unmixed inputs.
        mixup_on: mixtures to train on: ``"all"``, or those of ``"labeled"`` samples, as the authors do on Clothing1M.
        draws: samples to divide for each pass, a new class-balanced draw by given label; default all.
    """

    network_names = ("net0", "net1")
    guess_views: ClassVar[tuple[str, str]] = ("weak", "weak:2")
    mixed_views: ClassVar[tuple[str, str]] = ("weak", "weak:2")

    extra_trained: ClassVar[tuple[str, ...]] = ()  # further optimizers that step with the network

    warm_up: float = 0.1
    penalty: float = setting(1.0, "[0, inf)")
    temperature: float = setting(0.5, "(0, inf)")
    mixup: float = setting(4.0, "(0, inf)")
    ramp: float = setting(16 / 300, "[0, inf)")
    guess: GuessMode = "evaluating"
    mixup_on: MixupOn = "all"
    draws: int | None = setting(None, "[2, inf)")

    # Defined by subclasses

    def divide(self, number: int, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return the indices of the labeled and of the unlabeled samples, for the pass of network ``number``."""
        raise NotImplementedError

    def label_weights(self, index: Tensor) -> Tensor:
        """Return w (B,), the probability that the labels of these samples are correct, in this pass."""
        raise NotImplementedError

    def final_label_weights(self) -> Tensor:
        """Return the weight (N,) of each given label in its corrected label: w, and 0 for unlabeled samples."""
        raise NotImplementedError

    def unlabeled_factor(self) -> float:
        """Return the size of an unlabeled batch, as a multiple of the recipe's batch size."""
        return 0.5

    def lambda_u_value(self) -> float:
        """Return λ_u after the ramp."""
        raise NotImplementedError

    # Passes

    def on_fit_start(self, info: FitInfo) -> None:
        """Convert warm-up and ramp to epochs."""
        super().on_fit_start(info)
        # Of the current pass: network, epoch, number of labeled samples, and how many of them were visited.
        self.current_pass = nn.Buffer(torch.zeros(4, dtype=torch.int64))
        self.warm_up_epochs = divide_epochs(info.epochs, self.warm_up)[0]
        self.ramp_epochs = in_epochs(self.ramp, info.epochs)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass for each network, over all samples in the warm-up, then over the divided ones."""
        if number > 1:
            return None
        network = f"net{number}"
        if epoch < self.warm_up_epochs:
            self.current_pass.copy_(torch.tensor([number, epoch, 0, 0]))
            # As many steps as after the warm-up, with batches twice as large.
            spec = StreamSpec() if self.draws is None else StreamSpec(order="balanced", draws=2 * self.draws)
            return TrainPass({"batch": spec}, networks=(network,))
        labeled, unlabeled = (rows.cpu() for rows in self.divide(number, predict_logits))
        self.current_pass.copy_(torch.tensor([number, epoch, len(labeled), 0]))
        views = tuple(dict.fromkeys((*self.guess_views, *self.mixed_views)))
        # British spelling: the names of streams are part of their random seeds, and recorded results depend on them.
        streams = {"labelled": StreamSpec(views, rows=labeled, batch_factor=0.5)}
        if len(unlabeled) > 1:  # batch norm cannot train on one sample
            streams["unlabelled"] = StreamSpec(views, rows=unlabeled, batch_factor=self.unlabeled_factor())
        return TrainPass(streams, "mixmatch_loss", (network, *self.extra_trained))

    def draw_rows(self) -> Tensor:
        """Return the indices (n,) of the samples to divide: all, or a class-balanced random subset."""
        rows = torch.arange(self.info.num_samples)
        if self.draws is None or self.draws >= len(rows):
            return rows
        seed = int(torch.randint(2**31, ()))
        return samplers.balanced_sample(rows, self.info.labels.cpu(), self.draws, seed, 0).sort().values

    def logits_of(self, predict_logits: PredictLogits, name: str, rows: Tensor) -> Tensor:
        """Return the logits (n, c) of a network for these samples."""
        return predict_logits(name, rows=rows) if len(rows) < self.info.num_samples else predict_logits(name)

    # Losses

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y + penalty Σ p log p, (B,), of the trained network: the warm-up."""
        logits = self.networks[f"net{int(self.current_pass[0])}"](batch.x)
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none")
        return losses - self.penalty * PF.softmax_entropy(logits)

    def mixmatch_loss(self, labelled: Batch, unlabelled: Batch | None = None) -> Tensor:
        """Return the scalar loss of a MixMatch step."""
        network, peer = self.trained_and_peer()
        batches = [labelled] if unlabelled is None else [labelled, unlabelled]
        targets = self._targets(network, peer, labelled, unlabelled)
        views = torch.cat([batch.views[view] for batch in batches for view in self.mixed_views])
        keys = torch.cat([fold_in(batch.keys, number) for batch in batches for number in range(2)])
        mix = draw_mix(keys, self.mixup, keep_first=True)
        num_labeled = 2 * len(labelled.index)
        num_used = len(keys) if self.mixup_on == "all" else num_labeled
        logits = network(mix(views)[:num_used]).float()
        mixed_targets = mix(targets)[:num_used]
        uniform = logits.new_full((logits.shape[1],), 1 / logits.shape[1])
        loss = nn.functional.cross_entropy(logits[:num_labeled], mixed_targets[:num_labeled])
        loss = loss + PF.class_prior_divergence(logits, uniform)
        lambda_u = self.ramped_lambda_u()
        if num_used > num_labeled and lambda_u > 0:
            loss = loss + lambda_u * PF.softmax_mse_loss(logits[num_labeled:], mixed_targets[num_labeled:]).mean()
        self.current_pass[3] += len(labelled.index)
        return loss

    def trained_and_peer(self) -> tuple[nn.Module, nn.Module]:
        """Return the network that this pass trains, and the other one."""
        number = int(self.current_pass[0])
        return self.networks[f"net{number}"], self.networks[f"net{1 - number}"]

    def ramped_lambda_u(self) -> float:
        """Return λ_u at this step."""
        _, epoch, num_labeled, visited = self.current_pass.tolist()
        progress = epoch - self.warm_up_epochs + visited / max(num_labeled, 1)
        return self.lambda_u_value() * (PF.linear_rampup(progress / self.ramp_epochs) if self.ramp_epochs else 1.0)

    @torch.no_grad()
    def _targets(self, network: nn.Module, peer: nn.Module, labeled: Batch, unlabeled: Batch | None) -> Tensor:
        """Return the targets of labeled, then unlabeled samples; those of each batch twice, for its two views."""
        batches = [labeled] if unlabeled is None else [labeled, unlabeled]
        labeled_logits, *unlabeled_logits = self._guess_logits(network, batches)
        weights = self.label_weights(labeled.index)
        refined = PF.co_refine_labels(labeled.labels, labeled_logits, weights, self.temperature)
        if unlabeled is None:
            return refined.repeat(2, 1)
        guesses = torch.cat([*unlabeled_logits, *self._guess_logits(peer, [unlabeled])])
        return torch.cat([refined.repeat(2, 1), PF.co_guess_labels(guesses, self.temperature).repeat(2, 1)])

    def _guess_logits(self, network: nn.Module, batches: list[Batch]) -> list[Tensor]:
        """Return, for each batch, the logits (2, B, c) of its two views for guessing targets."""
        views = [torch.cat([batch.views[view] for view in self.guess_views]) for batch in batches]
        if self.guess == "training" and network is self.trained_and_peer()[0]:
            logits = [network(both) for both in views]
        else:
            with eval_mode(network):
                logits = list(network(torch.cat(views)).split([len(both) for both in views]))
        return [both.float().unflatten(0, (2, -1)) for both in logits]

    # Labels

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return w e_y + (1 - w) p (N, c), where p is the mean prediction of both networks."""
        weights = self.final_label_weights().cpu()
        return PF.bootstrapped_targets(self.info.labels.cpu(), self.predict_probs(predict_logits), 1 - weights)
