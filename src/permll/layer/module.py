"""``PermutationLayer``: a loss with per-sample label correction that measures when to start and how far to go."""

import math
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer import equations, label_noise
from permll.layer.autograd import RecordedLoss, Reduction
from permll.layer.base import CorrectionLayer, check_dtype
from permll.layer.paper import PaperPermutationLayer
from permll.layer.sample_buffer import SampleBuffer
from permll.layer.table import File, RowTable
from permll.layer.validation import Ids, Index, Labels, RowIds, check_index, check_labels
from permll.utils.indexing import split_repeats, subsample_rows

MEMORIZATION = 0.2  # nats by which labels must raise their own log-odds before correction starts
LEARNING_GROWTH = 1.25  # growth of p_y of held-out samples in an epoch in which a weak network still learns the classes
INFLUENCE_ON_WRONG = 3.0  # influence of a wrong label on its own log-odds, relative to the mean over all labels
MIN_HELD_OUT = 20  # held-out samples below which nothing is estimated
MAX_HELD_OUT = 1000  # held-out samples, or 20 per class if that is more
MAX_MONITORED = 2000  # trained samples that are compared with the held-out ones
AVERAGING = 0.5  # weight of a new prediction in the running mean of a sample
PRIOR_WINDOW = 1000  # latest samples of each class that the running mean of predictions covers
MIN_PROB = 1e-8


@dataclass
class Estimates:
    """Numbers that the layer measures. Not buffers: reading them would synchronize an accelerator at every step."""

    visits: float = 0.0  # samples since the last estimate
    is_warm_up: float = 1.0
    accuracy: float = 1.0  # A
    influence: float = 0.0  # b, nats
    temperature: float = 1.0  # τ
    credibility: float = 0.0  # weight of the classifier in the verdict on labels
    label_prob: float = 0.0  # mean of p_y over held-out samples, less 1 / c
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

        t ← (t + p) / 2
        α = log T[:, y] - 3 b e_y + δ                T: transition matrix, with T[k, k] <= 0.6; b: mean influence of a
                                                     label on its own log-odds, subtracted at most until y is level
        r = softmax(α + log t + log q - log π)       π: running mean of all predictions; q: class prior
        loss = -Σ_k r_k log p_k                      δ ← δ + lr (r - softmax(α)),   lr = 2 (1 - A), at least 0.8

    T, b and the fraction A of correct labels are estimated after every N visits, from held-out and from trained
    samples. In the warm-up T is the identity, so r = e_y: cross-entropy. It ends when the labels of trained samples
    have larger log-odds than those of held-out samples, by more than 0.2 nats and one standard error. With b = 0,
    t = p, q = π and constant T these are the steps of the paper's layer. ``docs/theory.md`` explains each part.

    Updates are recorded in ``backward`` and applied in ``step``; they do not depend on batch size, gradient
    accumulation, loss scaling or loss weights. A sample whose loss has weight 0 is not updated. In ``eval()`` mode the
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
        top_k: for many classes: number of entries of δ and t stored per sample, plus one value for the rest.
        dtype: storage dtype of δ and t: float32, float64, or bfloat16, which halves the memory and is rounded
            stochastically.
        file: ``True`` stores δ and t in temporary files in ``TMPDIR``, for tables larger than memory.

    The state consists of buffers, not parameters: optimizers, weight decay and gradient clipping do not affect it.
    """

    log_likelihood: Tensor
    class_accuracy: Tensor
    frequencies: Tensor
    prior: Tensor
    predicted_prior: Tensor

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
        super().__init__(all_labels, classes, row_ids, table, "delta", {"held_out": float(held_out)})
        self.predictions = SampleBuffer(all_labels, row_ids, (classes,), **storage)
        count = min(int(held_out * len(all_labels)), max(MAX_HELD_OUT, 20 * classes))
        self._has_held_out = count >= MIN_HELD_OUT
        count = count if self._has_held_out else 0
        chosen = torch.randperm(len(all_labels), generator=torch.Generator().manual_seed(0))[:count]
        # 0 for held-out samples; the others are scaled up, so that the mean loss keeps its size.
        scale = len(all_labels) / (len(all_labels) - count)
        self.loss_weight = SampleBuffer(all_labels, row_ids, fill=scale)
        self.loss_weight.write(chosen, torch.zeros(count))
        self._monitored = subsample_rows(len(all_labels), MAX_MONITORED)
        frequencies = all_labels.bincount(minlength=classes)
        self._prior_window = float(frequencies.clamp(1, PRIOR_WINDOW).sum())
        self.estimates = Estimates(sampling_bias=math.nan if self._has_held_out else 0.0)
        self.register_buffer("log_likelihood", label_noise.log_identity(classes))  # log T
        self.register_buffer("class_accuracy", torch.ones(classes))  # T[k, k]
        self.register_buffer("frequencies", frequencies.clamp_min(1) / len(all_labels), persistent=False)
        self.register_buffer("prior", label_noise.shrunk_prior(self.frequencies), persistent=False)  # q
        self.register_buffer("predicted_prior", self.prior.clone())  # π

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

    def _corrected_loss(self, logits: Tensor, index: Tensor, reduction: Reduction) -> Tensor:
        z, positions = logits.detach(), self._local_index(index)
        weight = self.loss_weight.table.read(positions).to(z)
        alpha = self._alpha_rows(self.table.read(positions), self._labels(index)).to(z)
        log_p = z.log_softmax(-1)
        t, p = self.predictions.table.read(positions).to(z), log_p.exp()
        prior_ratio = (self.prior / self.predicted_prior).to(z)
        mean = t.add(p - t, alpha=AVERAGING).clamp_min_(MIN_PROB).mul_(prior_ratio)
        loss = equations.averaged_prediction_ce(alpha, mean, log_p, p)
        record = partial(self._record, positions.clone(), loss.grad_alpha, p, t)
        return RecordedLoss.apply(logits, loss.loss * weight, loss.grad_logits * weight[:, None], record, reduction)

    def _record(self, positions: Tensor, grad_alpha: Tensor, p: Tensor, t: Tensor, mask: Tensor | None) -> None:
        if mask is None:
            mean_probs = p.mean(0)
        else:  # other samples keep their δ and t
            rows = mask.unsqueeze(-1)
            mean_probs = p.where(rows, 0.0).sum(0) / mask.expand(len(p)).sum().clamp_min(1)
            grad_alpha, p = grad_alpha.where(rows, 0.0), p.where(rows, t)
        self._append((positions, grad_alpha, p, mean_probs))

    def step(self) -> None:
        """Apply the recorded updates of δ, t and π; estimate the noise again after every N visits."""
        lr = 2 * (1 - min(self.estimates.accuracy, label_noise.MAX_TRUST))
        for positions, grad_alpha, p, mean_probs in self._pending:
            self.table.add(positions, grad_alpha, scale=-lr)
            for group in split_repeats(positions):  # one occurrence of a repeated sample after another
                t = self.predictions.table.read(positions[group])
                self.predictions.table.write(positions[group], t.add(p[group].to(t) - t, alpha=AVERAGING))
            weight = min(len(positions) / self._prior_window, 1.0)
            self.predicted_prior.lerp_(mean_probs.to(self.predicted_prior), weight)
            self.estimates.visits += len(positions)
        self._pending.clear()
        if self.estimates.visits >= len(self):
            self.estimates.visits = 0.0
            if self._has_held_out:
                self._estimate_from_held_out()

    def _estimate_from_held_out(self) -> None:
        weight = self.loss_weight.values
        samples = []
        for rows in (
            (weight == 0).nonzero().flatten(),
            self._monitored[(weight[self._monitored.to(weight.device)] != 0).cpu()],
        ):
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
        self.class_accuracy.copy_(noise.verdict_accuracy)
        likelihood = label_noise.label_likelihood(noise.log_likelihood, held_out_labels, self.frequencies)
        estimates.temperature = label_noise.fit_temperature(
            held_out_probs.clamp_min(MIN_PROB).log(),
            label_noise.with_class_accuracy(
                likelihood, held_out_labels, label_noise.trust_in_labels(noise.log_likelihood), noise.class_accuracy
            ),
        )
        estimates.accuracy, estimates.influence = noise.accuracy, max(influence, 0.0)
        estimates.credibility = label_noise.credibility(noise.strength)
        label_prob = float(label_noise.label_probs(held_out_probs, held_out_labels).mean()) - 1 / self.num_classes
        is_learning = estimates.credibility == 0 and label_prob > LEARNING_GROWTH * estimates.label_prob
        estimates.label_prob = label_prob
        if influence - std / math.sqrt(len(held_out)) > MEMORIZATION and not is_learning:
            estimates.is_warm_up = 0.0
        if not self.is_warm_up:
            self.log_likelihood.copy_(noise.log_likelihood)

    def _alpha_rows(self, delta: Tensor, labels: Tensor) -> Tensor:
        """Return α = log T[:, y] + δ (B, c), with the influence of y subtracted at y, at most until y is level."""
        alpha, index = self._label_likelihood(labels).to(delta) + delta, labels[:, None].to(delta.device)
        influence = INFLUENCE_ON_WRONG * self.estimates.influence
        if self.is_warm_up or influence == 0:
            return alpha
        lead = alpha.gather(1, index) - alpha.scatter(1, index, -torch.inf).amax(1, keepdim=True)
        return alpha.scatter_add_(1, index, -lead.clamp_(0.0, influence))

    def _label_likelihood(self, labels: Tensor) -> Tensor:
        """Return log T[:, y] (B, c) for the labels y (B,)."""
        labels = labels.to(self.log_likelihood.device)
        return label_noise.label_likelihood(self.log_likelihood, labels, self.frequencies)

    def _alpha(self, index: Index | None) -> Tensor:
        positions = torch.arange(len(self)) if index is None else check_index(index, self.ids)
        return self._alpha_rows(self.table.read(self._local_index(positions)), self._labels(positions))

    def class_probs(self) -> Float[Tensor, "rows classes"]:
        """Return the class probabilities (N, c) of each sample: w softmax(log T[:, y] + log t / τ) + (1 - w) e_y.

        T has the estimated fractions of correct labels on its diagonal, τ >= 1 is the temperature that fits held-out
        samples, and the credibility w of the classifier is 0 for a weak one. In the warm-up the result is e_y.
        """
        self._warn_if_pending()
        return self.predictions.map_rows(self._class_prob_rows)

    def corrected_labels(self) -> Int[Tensor, " rows"]:
        """Return the most probable class of each sample (N,), see ``class_probs``; the given label in the warm-up."""
        self._warn_if_pending()
        corrected = self.predictions.map_rows(lambda t, labels: self._class_prob_rows(t, labels).argmax(-1))
        return corrected.to(self.labels.device)

    def label_quality(self) -> Float[Tensor, " rows"]:
        """Return the probability that each given label is correct, (N,) in [0, 1], see ``class_probs``."""
        self._warn_if_pending()
        quality = self.predictions.map_rows(
            lambda t, labels: self._class_prob_rows(t, labels).gather(1, labels[:, None])[:, 0]
        )
        return quality.to(self.labels.device)

    def _class_prob_rows(self, t: Tensor, labels: Tensor) -> Tensor:
        given = torch.zeros_like(t).scatter_(1, labels[:, None], 1.0)
        if self.is_warm_up:
            return given
        likelihood = self._label_likelihood(labels).to(t)
        trust = label_noise.trust_in_labels(self.log_likelihood)
        likelihood = label_noise.with_class_accuracy(likelihood, labels, trust.to(t), self.class_accuracy.to(t))
        r = (likelihood + t.clamp_min(MIN_PROB).log() / self.estimates.temperature).softmax(-1)
        seen = (t.sum(-1, keepdim=True) > 0).to(t)
        return torch.lerp(given, r, self.estimates.credibility * seen)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "estimates"] = torch.tensor(astuple(self.estimates), dtype=torch.float64)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        rest, missing_keys, error_msgs = dict(state_dict), args[2], args[-1]
        saved = rest.pop(prefix + "estimates", None)
        if saved is None:
            missing_keys.append(prefix + "estimates")
        super()._load_from_state_dict(rest, prefix, *args)
        if saved is not None and not error_msgs:
            self.estimates = Estimates(*saved.tolist())
