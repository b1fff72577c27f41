"""PermLL+: the permutation layer with an estimated prior for the given labels, for unknown noise types and rates."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.functional.label_prior import (
    align_prior,
    decayed_label_logit,
    earned_label_logit,
    label_accuracy,
    normalize_prior,
    prior_of_correct_labels,
    shrunk_prior,
)
from permll.functional.noise_model import HeldOut, excess_label_bias, train_label_posterior
from permll.layer.equations import initial_label_logit, posterior
from permll.layer.step_size import resolve_init, resolve_lr
from permll.methods._base import FitInfo, Method, PredictLogits, TrainPass, in_epochs
from permll.methods._state import SampleBuffer, State, check_top_k, storage_kwargs
from permll.utils.indexing import subsample_rows
from permll.utils.validation import check_range

Prior = Literal["shrunk", "uniform", "given", "none"]
MIN_PROB = 1e-8  # lower bound of stored probabilities
TIE_BREAK = 1e-4  # nats in favor of the given label
MAX_LABEL_LOGIT = 3.0  # nats, of labels that are correct in 95 of 100 cases or more
PLATEAU_GROWTH = 1.05  # largest growth per epoch of the mean p_y of training samples that ends the warm-up
LEARNING_GROWTH = 1.25  # growth per epoch of the mean p_y - 1/c of held-out samples while the classes are still learned
MAX_WAIT = 0.5  # fraction of training after which warm-up and initial label logit end in any case
WARM_UP_ODDS_RATIO = 1.25  # odds of p_y of training over held-out samples that end the warm-up: first memorization
MAX_ODDS_RATIO = 1.5  # the same ratio, up to which the label logit is not reduced
NUM_MONITORED = 1000  # training samples that this ratio is measured on
PRIOR_WINDOW = 1000  # latest samples of each class that the running class prior covers


class PermLLPlus(Method):
    """PermLL with averaged predictions, a class prior, and label logits that decay to values estimated from the data.

    For a sample with given label y, per-sample logits δ (initially 0) and mean prediction t:

        t ← β t + (1 - β) p
        α = δ + g_y e_y                              g_y: prior log-odds of the given label, by class
        r = softmax(α + log t + log q - log π)       π: running mean of p, q: class prior
        loss = -Σ_k r_k log p_k,    δ ← δ + lr (r - softmax(α))

    With β = 0, q = π and constant g these are the steps of PermLL: the gradient of -log <a, p> is p - r in the logits
    and a - r in α. After a warm-up with cross-entropy, and once the network no longer learns the classes fast, g_y
    decays from PermLL's initial value to log(R_y / (1 - R_y)), where R_y is the mean of p_y over held-out samples with
    label y: an estimate of the accuracy of such labels. The excess bias of the network toward labels that it was
    trained on (``excess_label_bias``) is subtracted from every g_y, down to 0: a network that memorizes its labels
    would otherwise make r the label. Without held-out samples, g decays to 0 and nothing is subtracted.

    Args:
        init: initial weight of the given label; default as in ``PermutationLayer``.
        correct_after: fraction of training after which a label is corrected that every visit contradicts.
        warm_up: epochs of cross-entropy, or a fraction of all epochs if below 1. Default: until the mean of p_y grows
            by less than 5 % in an epoch, or until first signs of memorization; at most about half of training.
        label_logit_decay: fraction of training over which the label logit g_y decays. It starts after the warm-up, once
            the mean of p_y - 1/c over held-out samples (without these, over all) grows by less than 25 % in an epoch,
            or at half of training.
        earned_label_logit: whether g_y decays to log(R_y / (1 - R_y)) instead of 0.
        correct_memorization: whether training accounts for memorized labels; corrected labels always do.
        beta: β, momentum of t; 0 for no averaging.
        prior: q, class prior: ``"shrunk"``, uniform except where class frequencies differ by more than noise explains,
            by the given labels (``shrunk_prior``) and, after the decay, by those estimated to be correct
            (``prior_of_correct_labels``); ``"uniform"``; as in the ``"given"`` labels; ``"none"``, which is q = π; or
            the class frequencies themselves, if they are known.
        top_k: number of entries of δ and t to store per sample, the others as one value; for many classes. Default all.
        state: storage of δ and t: ``"float32"``, ``"bfloat16"`` (half the memory), or ``"disk"``, in a temporary file.
    """

    batch_coupling = "logits"
    delta: SampleBuffer
    predictions: SampleBuffer
    steps: Tensor
    predicted_prior: Tensor
    label_accuracy: Tensor
    class_prior: Tensor
    epoch_label_probs: Tensor
    previous_label_probs: Tensor
    label_bias: Tensor
    warm_up_end: Tensor
    decay_start: Tensor

    def __init__(
        self,
        *,
        init: float | None = None,
        correct_after: float = 0.6,
        warm_up: float | None = None,
        label_logit_decay: float = 0.2,
        earned_label_logit: bool = True,
        correct_memorization: bool = True,
        beta: float = 0.5,
        prior: Prior | list[float] = "shrunk",
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        check_range("[0, 1)", beta=beta)
        check_range("[0, inf)", warm_up=warm_up)
        check_range("[0, 1]", label_logit_decay=label_logit_decay)
        self.init, self.correct_after, self.warm_up = init, correct_after, warm_up
        self.label_logit_decay, self.earned_label_logit = label_logit_decay, earned_label_logit
        self.correct_memorization, self.beta, self.prior = correct_memorization, beta, prior
        self.top_k, self.state = top_k, state
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate δ, t and the running statistics."""
        super().on_fit_start(info)
        classes = info.num_classes
        init = resolve_init(self.init, classes)
        self.initial_label_logit = initial_label_logit(classes, init)
        self.lr = resolve_lr(
            None, self.correct_after, info.epochs, num_classes=classes, init=init, on="prediction", loss="ce"
        )
        storage = storage_kwargs(self.top_k, self.state)
        self.delta, self.predictions = (SampleBuffer(info.labels, info.ids, (classes,), **storage) for _ in range(2))
        max_warm_up = in_epochs(MAX_WAIT if self.warm_up is None else self.warm_up, info.epochs)
        self._max_warm_up = min(max(max_warm_up, int(self.warm_up is None)), info.epochs)
        self._total_steps = info.epochs * info.steps_per_epoch
        self._monitored = subsample_rows(len(info.labels), NUM_MONITORED)
        counts = info.labels.bincount(minlength=classes)
        self._prior_window = float(counts.clamp(1, PRIOR_WINDOW).sum())
        uniform = torch.full((classes,), 1 / classes)
        self.register_buffer("predicted_prior", uniform.clone())
        self.register_buffer("label_accuracy", torch.full((classes,), 0.5))
        self.register_buffer(
            "class_prior", self._initial_prior(counts.float().clamp_min(1) / len(info.labels), uniform)
        )
        self.register_buffer("epoch_label_probs", torch.zeros(2))  # Σ p_y of this epoch, and its visits
        # Mean p_y of training and of held-out samples in the previous epoch.
        self.register_buffer("previous_label_probs", torch.tensor([0.0, 1 / classes]))
        self.register_buffer("label_bias", torch.zeros(()))  # nats
        self.register_buffer("warm_up_end", torch.tensor(-1 if self._max_warm_up else 0))  # epoch; -1: not yet known
        self.register_buffer("decay_start", torch.tensor(-1))  # epoch; -1: not yet known

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, with cross-entropy in the warm-up."""
        return TrainPass(loss="warm_up_loss" if self.warm_up_end < 0 else "loss") if number == 0 else None

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,); updates t and π."""
        logits = self.networks["net"](batch.x)
        self._record(batch, logits.detach().float())
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none")

    def loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k r_k log p_k (B,); updates δ, t and π."""
        logits = self.networks["net"](batch.x)
        log_t = self._record(batch, logits.detach().float())
        alpha = self._alpha(self.delta.read(batch.index), batch.labels)
        if self.prior != "none":
            log_t = align_prior(log_t, self.class_prior, self.predicted_prior)
        r = posterior(alpha, log_t)
        self.delta.add(batch.index, r - alpha.softmax(-1), self.lr)
        return nn.functional.cross_entropy(logits, r.to(logits), reduction="none")

    def on_step_end(self) -> None:
        """Count the step."""
        self.steps += 1

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Update the statistics of held-out samples; end the warm-up and start the decay when they are due."""
        done, chance = epoch + 1, 1 / self.info.num_classes
        total, visits = self.epoch_label_probs.tolist()
        train_prob = held_out_prob = total / max(visits, 1)
        odds_ratio = 1.0
        if self._held_out_labels() is not None:
            held_out_prob, odds_ratio = self._evaluate_held_out(done, predict_logits)
        previous_train_prob, previous_held_out_prob = self.previous_label_probs.tolist()
        if self.warm_up_end < 0:
            is_plateau = train_prob < PLATEAU_GROWTH * previous_train_prob
            is_over = self.warm_up is None and (is_plateau or odds_ratio > WARM_UP_ODDS_RATIO)
            if is_over or done >= self._max_warm_up:
                self.warm_up_end.fill_(done)
        is_growing = held_out_prob - chance >= LEARNING_GROWTH * (previous_held_out_prob - chance)
        is_learning = is_growing and done < MAX_WAIT * self.info.epochs
        if self.warm_up_end >= 0 > self.decay_start and not is_learning:
            self.decay_start.fill_(done)
        self.epoch_label_probs.zero_()
        self.previous_label_probs.copy_(torch.tensor([train_prob, held_out_prob]))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return the label posterior (N, c), see ``train_label_posterior``; with ``top_k``, a = softmax(α)."""
        if self.top_k is not None:  # too many classes for a (c, c) transition matrix
            return self.delta.map_rows(lambda delta, labels: self._alpha(delta, labels, minimum=TIE_BREAK).softmax(-1))
        logits, labels = predict_logits().float(), self._held_out_labels()
        held_out = None
        if labels is not None:
            held_out = HeldOut(predict_logits(held_out=True).float(), labels.to(logits.device))
        return train_label_posterior(logits, self.info.labels.to(logits.device), held_out)

    def metrics(self) -> Mapping[str, float]:
        """Return the fraction of corrected labels, and the estimated fraction of correct ones."""
        corrected = self.delta.map_rows(
            lambda delta, labels: self._alpha(delta, labels, minimum=TIE_BREAK).argmax(-1) != labels
        )
        labels = self.delta.labels
        return {
            "corrected": corrected.double().mean().item(),
            "right": self.label_accuracy.to(labels.device)[labels].double().mean().item(),
        }

    def resolved_params(self) -> dict[str, Any]:
        """Return the values that follow from the numbers of classes and epochs."""
        return {"gap": self.initial_label_logit, "lr": self.lr, "longest_warm_up": self._max_warm_up}

    def _initial_prior(self, given: Tensor, uniform: Tensor) -> Tensor:
        """Return the initial q (c,)."""
        if not isinstance(self.prior, str):
            return normalize_prior(self.prior, len(uniform)).clone()
        return {"shrunk": shrunk_prior(given), "given": given}.get(self.prior, uniform).clone()

    def _alpha(self, delta: Tensor, labels: Tensor, minimum: float = 0.0) -> Tensor:
        """Return α = δ + g_y e_y (B, c) with g_y >= ``minimum``."""
        start = torch.where(self.decay_start < 0, 1.0, self.decay_start / self.info.epochs)
        progress = self.steps / self._total_steps
        label_logits = decayed_label_logit(self.initial_label_logit, progress, start, self.label_logit_decay)
        label_logits = label_logits.expand_as(self.label_accuracy)
        if self.earned_label_logit:
            label_logits = torch.maximum(label_logits, earned_label_logit(self.label_accuracy, MAX_LABEL_LOGIT))
        index = labels[:, None].to(delta.device)
        return delta.scatter_add(1, index, (label_logits - self.label_bias).clamp_min(minimum).to(delta)[index])

    def _evaluate_held_out(self, done: int, predict_logits: PredictLogits) -> tuple[float, float]:
        """Update R, q and the label bias; return the mean p_y of held-out samples and the odds ratio to training ones.

        Args:
            done: number of finished epochs.
            predict_logits: predictions of the network.
        """
        labels, held_out_labels = self.info.labels, self._held_out_labels()
        assert held_out_labels is not None
        probabilities = predict_logits(held_out=True).float().softmax(-1)
        held_out_labels = held_out_labels.to(probabilities.device)
        held_out_probs = probabilities.gather(1, held_out_labels[:, None])[:, 0]
        accuracy = label_accuracy(probabilities, held_out_labels)
        if self.earned_label_logit:
            self.label_accuracy.copy_(accuracy)
        if self.prior == "shrunk" and self._is_decayed(done):
            self.class_prior.copy_(prior_of_correct_labels(labels.to(accuracy.device), accuracy))
        if not self.correct_memorization:
            return held_out_probs.mean().item(), 1.0
        probabilities = predict_logits(rows=self._monitored).float().softmax(-1)
        train_probs = probabilities.gather(1, labels[self._monitored].to(probabilities.device)[:, None])[:, 0]
        self.label_bias.fill_(excess_label_bias(train_probs, held_out_probs, MAX_ODDS_RATIO))
        odds_ratio = math.exp(torch.logit(train_probs.mean()) - torch.logit(held_out_probs.mean()))
        return held_out_probs.mean().item(), odds_ratio

    def _held_out_labels(self) -> Tensor | None:
        """Return the labels of held-out samples, or None if there are none."""
        labels = self.info.held_out
        return None if labels is None or len(labels) == 0 else labels

    def _is_decayed(self, epochs: int) -> bool:
        """Return whether the decay of the label logit has ended after this many epochs."""
        return bool(0 <= self.decay_start <= epochs - self.label_logit_decay * self.info.epochs)

    @torch.no_grad()
    def _record(self, batch: Batch, logits: Tensor) -> Tensor:
        """Update t, π and the mean of p_y; return log t (B, c) as of each visit."""
        p = logits.softmax(-1)
        t = self.predictions.update(
            batch.index, lambda t, positions: (self.beta * t + (1 - self.beta) * p[positions]).to(p)
        )
        self.predicted_prior.lerp_(p.mean(0).to(self.predicted_prior), min(len(p) / self._prior_window, 1.0))
        self.epoch_label_probs[0] += p.gather(1, batch.labels[:, None]).sum()
        self.epoch_label_probs[1] += len(p)
        return t.clamp_min(MIN_PROB).log()
