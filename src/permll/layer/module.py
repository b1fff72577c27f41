"""``PermutationLayer``: a loss with per-sample label correction that measures when to start and how far to go."""

import math
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer import equations, label_noise, transition
from permll.layer.autograd import BatchLoss, Visit, is_recorded
from permll.layer.base import CorrectionLayer, check_dtype
from permll.layer.paper import PaperPermutationLayer
from permll.layer.sample_buffer import SampleBuffer
from permll.layer.table import CHUNK_SIZE, File, RowTable
from permll.layer.validation import Ids, Index, Labels, RowIds, check_finite, check_index, check_labels
from permll.utils.indexing import split_repeats, stratified_order

MEMORIZATION = 0.2  # nats by which labels must raise their own log-odds before correction starts
INFLUENCE_ON_WRONG = 3.0  # influence of a wrong label on its own log-odds, relative to the mean over all labels
MIN_HELD_OUT = 20  # held-out samples below which nothing is estimated
MAX_HELD_OUT = 1000  # held-out samples, or 20 per class if that is more
MAX_MONITORED = 2000  # trained samples that are compared with the held-out ones
STEP_SIZE = 0.25  # step of δ per N visits
AVERAGING = 0.5  # weight of a new prediction in the running mean of a sample
MAX_QUEUED = 2**16  # numbers in the predictions that wait to be averaged
# Measured tensors that are saved. The first ones follow the layer to its device.
MEASURED = ("log_likelihood", "verdict_log_likelihood", "predicted_prior", "learned", "held_out_log_prob")


@dataclass
class Estimates:
    """Numbers that the layer measures. Not buffers: reading them would synchronize an accelerator at every step."""

    visits: float = 0.0  # samples since the last estimate
    is_warm_up: float = 1.0
    accuracy: float = 1.0  # A
    influence: float = 0.0  # b, nats
    temperature: float = 1.0  # τ
    credibility: float = 0.0  # weight of the classifier in the verdict on labels
    # Difference of the label log-odds of trained and held-out samples before any influence, in standard deviations.
    sampling_bias: float = math.nan


class PermutationLayer(CorrectionLayer):
    """A classification loss with a learned convex combination of label swaps for every training sample.

    A training loop changes in three lines: build the layer from the given labels, compute the loss with it, and call
    its ``step``. There is nothing to tune: until the network begins to memorize labels, the loss is cross-entropy; how
    far labels are trusted after that is measured on a few held-out samples, which the layer sees but does not train on.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> net = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> layer = PermutationLayer(labels, num_classes=3)
        >>> index = torch.tensor([0, 3, 5])       # positions of the batch in the training set
        >>> loss = layer(net(x[index]), index)
        >>> loss.backward(); optimizer.step(); layer.step()
        >>> layer.corrected_labels()
        tensor([0, 1, 2, 0, 1, 2])

    For a sample with given label y, per-sample logits δ (initially 0), prediction p and its running mean t:

        loss = -Σ_k r_k log p_k                      r: soft target, initially e_y
        t ← (t + p) / 2                              at every visit
        δ ← δ + (r - softmax(α)) / 4                 after every N visits, for visited samples; then r is computed again
        α = log T[:, y] - 3 b e_y + δ                T: transition matrix, with T[k, k] <= 0.6; b: mean influence of a
                                                     label on its own log-odds, subtracted at most until y is level
        r = softmax(α + log t + log q - log π)       π: mean of t over all samples; q: class prior

    T, b and the fraction A of correct labels are estimated after every N visits, from held-out and from trained
    samples. In the warm-up T is the identity, so r = e_y: cross-entropy. It ends when memorization begins: the labels
    of trained samples have larger log-odds than those of held-out samples, by 0.2 nats and one standard error, and the
    labels of held-out samples become less likely. A class whose held-out labels still become more likely waits. With
    b = 0, t = p, q = π and constant T these are the steps of the paper's layer. ``docs/theory.md`` explains each part.

    Visits are recorded in ``backward`` and counted in ``step``; they do not depend on batch size, gradient
    accumulation, loss scaling or loss weights. A sample whose loss has weight 0 is not visited. With several processes
    ``step`` exchanges the batches, so that all end with the same state. In ``eval()`` mode the
    layer is off: the loss is cross-entropy with the given labels.

    Args:
        labels: given, possibly wrong labels (N,) in 0..c-1; list, array or tensor.
        num_classes: c.
        held_out: fraction of the samples that are held out, at most 1,000 samples or 20 per class. Their loss is 0 (the
            others are scaled up). Fewer than 20, as with 399 samples or less at the default, are not held out, and the
            loss remains cross-entropy. 0 if ``update_estimates`` is called with other held-out samples.
        ids: optional sample ids, strings or integers. ``load_state_dict`` then matches rows by id, so the dataset may
            be reordered, filtered or extended in between. String ids may also be passed as ``index``; integers there
            are always positions (``layer.ids.positions(ids)`` converts ids).
        top_k: for many classes: number of entries of δ, t and r stored per sample, plus one value for the rest.
        dtype: storage dtype of δ, t and r: float32, float64, or bfloat16, which halves the memory and is rounded
            stochastically.
        file: ``True`` stores δ, t and r in temporary files in ``TMPDIR``, for tables larger than memory.
        process_group: processes of ``torch.distributed`` whose batches ``step`` exchanges; default: all, if there are
            several. A group of one process exchanges nothing.

    The state is neither parameters nor buffers: optimizers, weight decay, gradient clipping, averages of models and
    wrappers for several processes do not affect it. It is part of ``state_dict``.
    """

    _moved = (*CorrectionLayer._moved, "frequencies", "prior", *MEASURED[:3])

    def __init__(
        self,
        labels: Labels,
        num_classes: int,
        *,
        held_out: float = 0.05,
        ids: Ids | None = None,
        top_k: int | None = None,
        dtype: torch.dtype = torch.float32,
        file: File = None,
        process_group: Any = None,
    ) -> None:
        if not (isinstance(held_out, int | float | np.floating) and 0 <= held_out < 1):
            raise ValueError(f"held_out must be a fraction in [0, 1), got {held_out!r}.")
        check_dtype(dtype)
        if file not in (None, True):
            raise ValueError(f"file must be True or None for this layer, got {file!r}.")
        all_labels = check_labels(labels, num_classes)
        classes = int(num_classes)  # may be a NumPy integer
        row_ids = None if ids is None else RowIds(ids, len(all_labels))
        shard = current_placement().local_rows
        storage: dict[str, Any] = {"dtype": dtype, "top_k": top_k, "file": file}
        local = all_labels[shard]
        table = RowTable(len(local), (classes,), labels=local if top_k else None, shard=shard, **storage)
        super().__init__(all_labels, classes, row_ids, table, "delta", {"held_out": float(held_out)}, process_group)
        self.predictions = SampleBuffer(all_labels, row_ids, (classes,), **storage)
        count = min(int(held_out * len(all_labels)), max(MAX_HELD_OUT, 20 * classes))
        self._has_held_out = count >= MIN_HELD_OUT
        count = count if self._has_held_out else 0
        order = stratified_order(all_labels)
        chosen, self._monitored = order[:count], order[count : count + MAX_MONITORED].sort().values
        # 0 for held-out samples; the others are scaled up, so that the mean loss keeps its size.
        scale = len(all_labels) / (len(all_labels) - count)
        self.loss_weight = SampleBuffer(all_labels, row_ids, fill=scale)
        self.targets = SampleBuffer(all_labels, row_ids, (classes,), at_label=scale, **storage)  # r, times the weight
        for buffer, shape in ((self.loss_weight, ()), (self.targets, (classes,))):
            buffer.write(chosen, torch.zeros(count, *shape))
        self.visited = SampleBuffer(all_labels, row_ids)  # 1 for samples visited since the last update
        self._visits: list[Visit] = []  # predictions that are not averaged into t yet
        frequencies = all_labels.bincount(minlength=classes)
        self.estimates = Estimates(sampling_bias=math.nan if self._has_held_out else 0.0)
        self.learned = torch.zeros(classes, dtype=torch.bool)  # classes whose labels are corrected
        self.held_out_log_prob = torch.zeros(2, 0)  # log p_y of held-out samples, at the last and at the best estimate
        self.log_likelihood = transition.log_identity(classes)  # log T
        self.verdict_log_likelihood = transition.log_identity(classes)  # log T for the verdict on labels
        self.frequencies = frequencies.clamp_min(1) / len(all_labels)
        self.prior = self.frequencies.clone()  # q
        self.predicted_prior = self.prior.clone()  # π

    @classmethod
    def paper(cls, labels: Labels, num_classes: int, **settings: Any) -> PaperPermutationLayer:
        """Return the layer of the paper, with constant settings; see ``PaperPermutationLayer``.

        Examples:
            >>> PermutationLayer.paper([0, 1, 2], num_classes=3, init=0.5, lr=1.5 / 128)
            PaperPermutationLayer(3 rows, num_classes=3, init=0.5, lr=0.0117188, on='prediction', loss='ce')
        """
        return PaperPermutationLayer(labels, num_classes, **settings)

    @property
    def alpha(self) -> Float[Tensor, "rows classes"]:
        """α, (N, c), a copy; in the warm-up 0 at the given label and -10,000 elsewhere."""
        return self._alpha(None)

    @property
    def is_warm_up(self) -> bool:
        """Whether the loss is still cross-entropy, since no memorization was seen."""
        return bool(self.estimates.is_warm_up)

    @property
    def label_accuracy(self) -> float:
        """A, the estimated fraction of correct labels; 1 before the first estimate."""
        return self.estimates.accuracy

    def _corrected_loss(self, logits: Tensor, positions: Tensor, index: Tensor) -> BatchLoss:
        log_p, target = logits.log_softmax(-1), self.targets.table.read(positions)
        if target.dtype is not log_p.dtype or target.device != log_p.device:
            target = target.to(log_p)
        target.neg_()  # a copy
        losses = (target * log_p).sum(-1)
        if losses.is_cpu and not math.isfinite(losses.sum().item()):
            check_finite(logits, index)  # faster than to check all logits always
        # p Σr - r, in one kernel
        grad_logits = torch.ops.aten._log_softmax_backward_data(target, log_p, 1, log_p.dtype)
        return BatchLoss(losses, grad_logits, (log_p,))

    def _update(self, visits: list[Visit]) -> None:
        """Count the samples; after every N, estimate the noise and update targets."""
        self._visits += visits
        self.estimates.visits += sum(len(visit.positions) for visit in visits)
        if visits and len(self._visits) * visits[-1].updates[0].numel() >= MAX_QUEUED:
            self._average_predictions()
        if self.estimates.visits >= len(self.labels):
            self.estimates.visits = 0.0
            if self._has_held_out:
                self._estimate_from_held_out()

    def _average_predictions(self) -> None:
        """Move t toward the predictions of the visits so far. Many batches at once take less time than one by one."""
        visits, self._visits = self._visits, []
        if not visits:
            return
        positions = torch.cat([visit.positions for visit in visits])
        probs, table = torch.cat([visit.updates[0] for visit in visits]).exp(), self.predictions.table
        if any(visit.mask is not None for visit in visits):
            mask = torch.cat([is_recorded(visit) for visit in visits])
            positions, probs = positions[mask], probs[mask.to(probs.device)]
        for group in split_repeats(positions):  # one occurrence of a repeated sample after another
            t = table.read(positions[group])
            table.write(positions[group], t.lerp_(probs[group].to(t), AVERAGING))
        self.visited.table.write(positions, torch.ones(len(positions)))

    def _estimate_from_held_out(self) -> None:
        self._average_predictions()
        weight, samples = self.loss_weight.values.cpu(), []
        for rows in ((weight == 0).nonzero().flatten(), self._monitored[weight[self._monitored] != 0]):
            probs = self.predictions.read(rows).float()
            seen = probs.sum(-1) > 0
            samples += [probs[seen] / probs[seen].sum(-1, keepdim=True), self._labels(rows)[seen]]
        self._estimate(*samples)

    def update_estimates(
        self,
        held_out_logits: Float[Tensor, "held_out classes"],
        held_out_labels: Int[Tensor, " held_out"],
        train_logits: Float[Tensor, "samples classes"],
        train_index: Index,
    ) -> None:
        """Estimate the noise from samples that are not among the layer's, after an epoch; see ``held_out``.

        Args:
            held_out_logits: logits of the network for held-out samples, in evaluation mode.
            held_out_labels: their given labels, with noise like that of the training labels.
            train_logits: logits for some training samples, in evaluation mode.
            train_index: positions of these training samples.
        """
        train_labels = self._labels(check_index(train_index, self.ids)).to(train_logits.device)
        held_out_probs, train_probs = (
            logits.detach().float().softmax(-1) for logits in (held_out_logits, train_logits)
        )
        self._average_predictions()
        self._estimate(held_out_probs, held_out_labels.to(held_out_logits.device), train_probs, train_labels)

    def _estimate(
        self, held_out_probs: Tensor, held_out_labels: Tensor, train_probs: Tensor, train_labels: Tensor
    ) -> None:
        """Measure the influence of labels and the noise; end the warm-up when memorization is seen."""
        if min(len(held_out_labels), len(train_labels)) < MIN_HELD_OUT:
            return
        held_out, trained = (
            label_noise.label_log_odds(probs, labels)
            for probs, labels in ((held_out_probs, held_out_labels), (train_probs, train_labels))
        )
        difference, std = float(trained.mean() - held_out.mean()), float(held_out.std().clamp_min(1e-6))
        estimates = self.estimates
        if math.isnan(estimates.sampling_bias):
            # First epoch: every sample was predicted before its label had an influence.
            estimates.sampling_bias = difference / std
        influence = difference - estimates.sampling_bias * std
        noise = label_noise.estimate_noise(held_out_probs, held_out_labels, train_probs, train_labels, self.frequencies)
        estimates.accuracy, estimates.influence = noise.accuracy, max(influence, 0.0)
        estimates.temperature, estimates.credibility = noise.temperature, noise.credibility
        is_memorizing = influence - std / math.sqrt(len(held_out)) > MEMORIZATION
        self._find_learned_classes(held_out_probs, held_out_labels, is_memorizing=is_memorizing)
        self.prior.copy_(noise.class_prior)
        if not self.is_warm_up:
            learned = self.learned.to(noise.log_likelihood.device)
            self.log_likelihood.copy_(transition.with_unlearned_classes(noise.log_likelihood, learned))
            self.verdict_log_likelihood.copy_(transition.with_unlearned_classes(noise.verdict_log_likelihood, learned))
            self._update_targets()
        self.visited.table.values.zero_()

    def _find_learned_classes(self, held_out_probs: Tensor, held_out_labels: Tensor, *, is_memorizing: bool) -> None:
        """End the warm-up when held-out labels become less likely; then mark the classes that are learned."""
        now = label_noise.label_probs(held_out_probs, held_out_labels).clamp_min(label_noise.MIN_PROB).log().cpu()
        if self.held_out_log_prob.shape[1:] != now.shape:  # first epoch
            self.held_out_log_prob = torch.stack([now, now])
            return
        before, best = self.held_out_log_prob
        if now.mean() >= best.mean():
            best = now
        self.held_out_log_prob = torch.stack([now, best])
        _, is_falling = label_noise.is_growing(best - now, held_out_labels.cpu(), self.num_classes)
        if is_memorizing and is_falling:
            self.estimates.is_warm_up = 0.0
        if not self.is_warm_up:
            self.learned |= ~label_noise.is_growing(now - before, held_out_labels.cpu(), self.num_classes)[0]

    def _update_targets(self) -> None:
        """Update δ of the samples that were visited since the last update, and compute their targets."""
        labels = self.labels[self.placement.local_rows].to(self.table.device)
        self._update_predicted_prior()
        for rows in self.visited.table.values.nonzero().flatten().split(max(1, CHUNK_SIZE // self.num_classes)):
            delta, t, y = self.table.read(rows), self.predictions.table.read(rows), labels[rows]
            t = t.clamp_min_(label_noise.MIN_PROB).mul_((self.prior / self.predicted_prior).to(t))
            a = equations.softmax(self._alpha_rows(delta, y))
            delta += STEP_SIZE * (equations.normalize(a * t) - a)
            r = equations.normalize(equations.softmax(self._alpha_rows(delta, y)) * t)
            self.table.write(rows, delta)
            self.targets.table.write(rows, r * self.loss_weight.table.read(rows)[:, None])

    def _update_predicted_prior(self) -> None:
        total = torch.stack([t.sum(0) for _, t in self.predictions.table.chunks()]).sum(0)
        self.predicted_prior.copy_(equations.normalize(total.clamp_min(label_noise.MIN_PROB * len(self))))

    def _alpha_rows(self, delta: Tensor, labels: Tensor) -> Tensor:
        """Return α = log T[:, y] + δ (B, c), with the influence of y subtracted at y, at most until y is level."""
        alpha = self._label_likelihood(self.log_likelihood, labels).to(delta) + delta
        index = labels[:, None].to(delta.device)
        influence = INFLUENCE_ON_WRONG * self.estimates.influence
        if self.is_warm_up or influence == 0:
            return alpha
        lead = alpha.gather(1, index) - alpha.scatter(1, index, -torch.inf).amax(1, keepdim=True)
        return alpha.scatter_add_(1, index, -lead.clamp_(0.0, influence))

    def _label_likelihood(self, log_likelihood: Tensor, labels: Tensor) -> Tensor:
        """Return log T[:, y] (B, c) for the labels y (B,)."""
        return transition.label_likelihood(log_likelihood, labels.to(log_likelihood.device), self.frequencies)

    def _alpha(self, index: Index | None) -> Tensor:
        positions = torch.arange(len(self)) if index is None else check_index(index, self.ids)
        return self._alpha_rows(self.table.read(self._local_index(positions)), self._labels(positions))

    def class_probs(self) -> Float[Tensor, "rows classes"]:
        """Return the class probabilities (N, c) of each sample: w softmax(log T[:, y] + log t / τ) + (1 - w) e_y.

        T has the estimated fractions of correct labels on its diagonal, τ >= 1 is the temperature that fits held-out
        samples, and the credibility w of the classifier is 0 for a weak one. If fewer than 2 / n of the labels would
        change, with n held-out samples, w is below 1/2, so that none changes. In the warm-up the result is e_y.
        """
        self._warn_if_pending()
        self._average_predictions()
        return self.predictions.map_rows(self._class_prob_rows)

    def mean_predictions(self) -> Float[Tensor, "rows classes"]:
        """Return t (N, c), the mean predictions so far; uniform for samples that were not seen."""
        self._warn_if_pending()
        self._average_predictions()
        t = self.predictions.values.float()
        total = t.sum(-1, keepdim=True)
        return torch.where(total > 0, t / total.clamp_min(label_noise.MIN_PROB), 1 / self.num_classes)

    def corrected_labels(self) -> Int[Tensor, " rows"]:
        """Return the most probable class of each sample (N,), see ``class_probs``; the given label in the warm-up."""
        self._warn_if_pending()
        self._average_predictions()
        corrected = self.predictions.map_rows(lambda t, labels: self._class_prob_rows(t, labels).argmax(-1))
        return corrected.to(self.labels.device)

    def label_quality(self) -> Float[Tensor, " rows"]:
        """Return the probability that each given label is correct, (N,) in [0, 1], see ``class_probs``."""
        self._warn_if_pending()
        self._average_predictions()
        quality = self.predictions.map_rows(
            lambda t, labels: self._class_prob_rows(t, labels).gather(1, labels[:, None])[:, 0]
        )
        return quality.to(self.labels.device)

    def _class_prob_rows(self, t: Tensor, labels: Tensor) -> Tensor:
        if self.is_warm_up:
            return torch.zeros_like(t).scatter_(1, labels[:, None], 1.0)
        likelihood = self._label_likelihood(self.verdict_log_likelihood, labels).to(t)
        weight = self.estimates.credibility * (t.sum(-1, keepdim=True) > 0).to(t)  # 0 for samples that were not seen
        return label_noise.verdict_probs(t, labels, likelihood, self.estimates.temperature, weight)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        self._average_predictions()
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "estimates"] = torch.tensor(astuple(self.estimates), dtype=torch.float64)
        destination |= {prefix + name: getattr(self, name) for name in MEASURED}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        rest, missing_keys, error_msgs = dict(state_dict), args[2], args[-1]
        saved = {name: rest.pop(prefix + name, None) for name in ("estimates", *MEASURED)}
        missing_keys += [prefix + name for name, value in saved.items() if value is None]
        super()._load_from_state_dict(rest, prefix, *args)
        if not error_msgs and all(value is not None for value in saved.values()):
            self.estimates = Estimates(*saved.pop("estimates").tolist())
            for name, value in saved.items():
                own = getattr(self, name)
                setattr(self, name, value.to(own if name in self._moved else own.device, copy=True))
            if self.ids is not None and not torch.equal(
                state_dict[prefix + "ids"].cpu(), self.ids.to_tensor(self.placement.local_rows)
            ):  # other rows, so other held-out samples
                self.held_out_log_prob = torch.zeros(2, 0)
            self._visits = []
