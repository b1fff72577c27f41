"""PermLL+: the permutation layer for noise of any kind and rate, which the user need not know."""

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
from permll.utils.indexing import split_repeats, subsample_rows

Prior = Literal["cautious", "even", "given", "free"]
TINY = 1e-8  # below which a memory says nothing
TIE = 1e-4  # nats, which decide for the label where nothing else does
MOST = 3.0  # nats: of labels that are right in 95 of 100 cases, or more
HARDLY_GROWS = 1.05  # times an epoch ago, at most: p_y of labels of which the network has learned what it can early on
STILL_GROWS = 1.25  # the same, at least, of p_y - 1/c of labels it has not seen, while it still learns the classes
LONGEST = 0.5  # of training: a warm-up that does not end by itself, and a head start that waits
FIRST_SIGNS = 1.25  # of labels that are learned by heart: their odds, times those of labels that are not seen
UNTOUCHED = 1.5  # the same, of labels whose head start is left as it is
SOME = 1000  # training rows by which one tells how far they are
SPAN = 1000  # samples of a class, the latest, that its share is judged by


class PermLLPlus(Method):
    """PermLL whose head start closes to what the labels of a class deserve, on remembered and balanced predictions.

    Of a sample with the given label y, its own row δ, which begins with 0, and its memory t of predictions:

        t ← β t + (1 - β) p                         what the network said of it
        α = δ + g_y e_y                              g_y: the head start of all labels y
        r = softmax(α + log t + log q - log π)       π: the mean of p, q: the shares that classes should have
        loss = -Σ_k r_k log p_k,    δ ← δ + lr (r - softmax(α))

    With β = 0, q = π and g at rest these are the steps of PermLL: the gradient of -log <a, p> is p - r in the logits
    and a - r in α. After a warm-up with cross-entropy, and once the network no longer learns the classes fast, g_y
    closes from PermLL's gap to log(R_y / (1 - R_y)), R_y being the mean of p_y over samples with the label y that are
    not trained on: how often such labels are right, as far as the network can tell. Of every g_y is taken, down to 0,
    what the network leans to labels it has seen more than it may (``excess_label_bias``): on few samples it would learn them
    by heart, and then r would be the label. Without samples that are not trained on, g closes to 0 and nothing is
    taken.

    Args:
        init: the initial weight of the given label; default as in ``PermutationLayer``.
        correct_after: the fraction of training after which a row turns that every visit contradicts.
        warm_up: share of the epochs, or so many, with cross-entropy; default until in an epoch the mean of p_y, which
            is how well the network knows the labels, grows by less than a twentieth, or until there are first signs
            that it learns them by heart; about half of training at most.
        close: the share of training in which the head start g_y closes to what the labels of the class deserve. It
            begins after the warm-up, once p_y of rows that are not trained on (without such rows, of all) grows by
            less than a quarter of what it is above chance in an epoch, or at half of training.
        earned: whether labels deserve a head start at all; without it, it closes to 0.
        by_heart: whether training heeds that labels are learned by heart; corrected labels do in any case.
        beta: β, how much of its memory of a sample's predictions a visit leaves; 0 for no memory.
        prior: q, the shares of classes to which predictions are held: ``"cautious"``, even ones but where classes
            differ by more than noise may, by the given labels (``shrunk_prior``), and by those that are right once
            g has closed (``prior_of_correct_labels``); ``"even"``; as in the ``"given"`` labels; ``"free"``, which is q = π; or
            the shares themselves, one for each class, where they are known.
        top_k: keep so many entries of the rows, and one number for the others; for many classes. Default all.
        state: how they are kept: ``"float32"``, ``"bfloat16"`` (half the room), or on ``"disk"``, in a temporary file.
    """

    batch_coupling = "logits"
    own: SampleBuffer
    memory: SampleBuffer
    steps: Tensor
    shares: Tensor
    right: Tensor
    wanted: Tensor
    agreed: Tensor
    before: Tensor
    warm: Tensor
    closes: Tensor
    label_bias: Tensor

    def __init__(
        self,
        *,
        init: float | None = None,
        correct_after: float = 0.6,
        warm_up: float | None = None,
        close: float = 0.2,
        earned: bool = True,
        correct_memorization: bool = True,
        beta: float = 0.5,
        prior: Prior | list[float] = "cautious",
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        if not 0 <= beta < 1:
            raise ValueError(f"beta must lie in [0, 1), got {beta}.")
        if warm_up is not None and warm_up < 0:
            raise ValueError(f"warm_up must be 0 or more, got {warm_up}.")
        if not 0 <= close <= 1:
            raise ValueError(f"close is a share of training, in [0, 1]; got {close}.")
        self.init, self.correct_after, self.warm_up, self.close = init, correct_after, warm_up, close
        self.earned, self.correct_memorization, self.beta, self.prior = earned, correct_memorization, beta, prior
        self.top_k, self.state = top_k, state
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def on_fit_start(self, info: FitInfo) -> None:
        """Make the rows, which begin with nothing, and what is followed for each class."""
        super().on_fit_start(info)
        classes = info.num_classes
        init = resolve_init(self.init, classes)
        self.gap = initial_label_logit(classes, init)
        self.lr = resolve_lr(
            None, self.correct_after, info.epochs, num_classes=classes, init=init, on="prediction", loss="ce"
        )
        kept = storage_kwargs(self.top_k, self.state)
        self.own, self.memory = (SampleBuffer(info.labels, info.ids, (classes,), **kept) for _ in range(2))
        longest = LONGEST if self.warm_up is None else self.warm_up
        self._longest = min(max(in_epochs(longest, info.epochs), int(self.warm_up is None)), info.epochs)
        self._total = info.epochs * info.steps_per_epoch
        self._some = subsample_rows(len(info.labels), SOME)
        given = info.labels.bincount(minlength=classes).float().clamp_min(1) / len(info.labels)
        even = torch.full((classes,), 1 / classes)
        self._span = float(info.labels.bincount(minlength=classes).clamp(1, SPAN).sum())
        self.register_buffer("shares", even.clone())
        self.register_buffer("right", torch.full((classes,), 0.5))
        if isinstance(self.prior, str):
            wanted = {"cautious": shrunk_prior(given), "given": given}.get(self.prior, even)
        else:
            wanted = normalize_prior(self.prior, classes)
        self.register_buffer("wanted", wanted.clone())
        self.register_buffer("agreed", torch.zeros(2))  # Σ p_y of this epoch, and its visits
        self.register_buffer("before", torch.tensor([0.0, 1 / classes]))  # its mean an epoch ago, and that of others
        self.register_buffer("lean", torch.zeros(()))  # nats to labels it has seen, beyond what it may
        self.register_buffer("warm", torch.tensor(-1 if self._longest else 0))  # epochs of the warm-up, once it is over
        self.register_buffer("closes", torch.tensor(-1))  # epochs after which the head start does, once it is decided

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one sweep over all rows, with the loss of the time."""
        return TrainPass(loss="plain_loss" if self.warm < 0 else "loss") if number == 0 else None

    def plain_loss(self, batch: Batch) -> Tensor:
        """Return -log p_y (B,), and note what the network says."""
        logits = self.networks["net"](batch.x)
        self._note(batch, logits.detach().float())
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none")

    def loss(self, batch: Batch) -> Tensor:
        """Return -Σ_k r_k log p_k (B,), and move the rows; see the class."""
        logits = self.networks["net"](batch.x)
        said = self._note(batch, logits.detach().float())
        alpha = self._alpha(self.own.read(batch.index), batch.labels)
        r = posterior(alpha, said if self.prior == "free" else align_prior(said, self.wanted, self.shares))
        self.own.add(batch.index, r - alpha.softmax(-1), self.lr)
        return nn.functional.cross_entropy(logits, r.to(logits), reduction="none")

    def on_step_end(self) -> None:
        """Count it."""
        self.steps += 1

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Ask how well labels are known; if it is time, end the warm-up and begin to close the head start."""
        assert self.info is not None
        done, chance = epoch + 1, 1 / self.info.num_classes
        total, visits = self.agreed.tolist()
        seen = other = total / max(visits, 1)
        signs = 1.0
        if self._held_out() is not None:
            other, signs = self._ask_others(done, predict_logits)
        seen_before, other_before = self.before.tolist()
        if self.warm < 0:
            ends = self.warm_up is None and (seen < HARDLY_GROWS * seen_before or signs > FIRST_SIGNS)
            if ends or done >= self._longest:
                self.warm.fill_(done)
        learns = other - chance >= STILL_GROWS * (other_before - chance) and done < LONGEST * self.info.epochs
        if self.warm >= 0 > self.closes and not learns:
            self.closes.fill_(done)
        self.agreed.zero_()
        self.before.copy_(torch.tensor([seen, other]))

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return what input and label together say (N, c): ``train_label_posterior``; with ``top_k``, a = softmax(α)."""
        assert self.info is not None
        if self.top_k is not None:  # for more classes than a table of all their pairs is made for
            return self.own.map_rows(lambda own, labels: self._alpha(own, labels, least=TIE).softmax(-1))
        logits, held_out = predict_logits().float(), self._held_out()
        others = (
            None if held_out is None else HeldOut(predict_logits(held_out=True).float(), held_out.to(logits.device))
        )
        return train_label_posterior(logits, self.info.labels.to(logits.device), others)

    def metrics(self) -> Mapping[str, float]:
        """Return the share of labels that turned, and of those that are right as far as others tell."""
        turned = self.own.map_rows(lambda own, labels: self._alpha(own, labels, least=TIE).argmax(-1) != labels)
        labels = self.own.labels
        return {
            "turned": turned.double().mean().item(),
            "right": self.right.to(labels.device)[labels].double().mean().item(),
        }

    def resolved_params(self) -> dict[str, Any]:
        """Return what follows from the number of classes and epochs."""
        return {"gap": self.gap, "lr": self.lr, "longest_warm_up": self._longest}

    def _alpha(self, own: Tensor, labels: Tensor, least: float = 0.0) -> Tensor:
        """Return own rows (B, c) with the head start of their labels (B,), ``least`` at least."""
        assert self.info is not None
        begins = torch.where(self.closes < 0, 1.0, self.closes / self.info.epochs)
        gaps = decayed_label_logit(self.gap, self.steps / self._total, begins, self.close).expand_as(self.right)
        if self.earned:
            gaps = torch.maximum(gaps, earned_label_logit(self.right, MOST))
        at = labels[:, None].to(own.device)
        return own.scatter_add(1, at, (gaps - self.label_bias).clamp_min(least).to(own)[at])

    def _ask_others(self, done: int, predict_logits: PredictLogits) -> tuple[float, float]:
        """Hear of rows that are not trained on how right labels are, and by how much those it has seen are surer.

        Returns:
            Their mean of p_y, and the odds of that mean over rows that are trained on, times its odds.
        """
        assert self.info is not None
        labels, held_out = self.info.labels, self._held_out()
        assert held_out is not None
        said = predict_logits(held_out=True).float().softmax(-1)
        others = held_out.to(said.device)
        other_y = said.gather(1, others[:, None])[:, 0]
        right = label_accuracy(said, others)
        if self.earned:
            self.right.copy_(right)
        if self.prior == "cautious" and self._closed(done):
            self.wanted.copy_(prior_of_correct_labels(labels.to(right.device), right))
        if not self.correct_memorization:
            return other_y.mean().item(), 1.0
        seen = predict_logits(rows=self._some).float().softmax(-1)
        seen_y = seen.gather(1, labels[self._some].to(seen.device)[:, None])[:, 0]
        self.label_bias.fill_(excess_label_bias(seen_y, other_y, UNTOUCHED))
        return other_y.mean().item(), math.exp(torch.logit(seen_y.mean()) - torch.logit(other_y.mean()))

    def _held_out(self) -> Tensor | None:
        """Return the labels of rows that are not trained on, if there are any."""
        assert self.info is not None
        held_out = self.info.held_out
        return None if held_out is None or len(held_out) == 0 else held_out

    def _closed(self, epochs: int) -> bool:
        """Whether, after so many epochs, nothing is left of the head start but what labels earn."""
        assert self.info is not None
        return bool(0 <= self.closes <= epochs - self.close * self.info.epochs)

    @torch.no_grad()
    def _note(self, batch: Batch, logits: Tensor) -> Tensor:
        """Follow what is said of samples and classes; return the logarithms of the memories (B, c) after it."""
        p = logits.softmax(-1)
        said = torch.empty_like(p)
        for visits in split_repeats(batch.index):
            samples = batch.index[visits]
            said[visits] = (self.beta * self.memory.read(samples) + (1 - self.beta) * p[visits]).to(said)
            self.memory.write(samples, said[visits])
        self.shares.lerp_(p.mean(0).to(self.shares), min(len(p) / self._span, 1.0))
        self.agreed[0] += p.gather(1, batch.labels[:, None]).sum()
        self.agreed[1] += len(p)
        return said.clamp_min(TINY).log()
