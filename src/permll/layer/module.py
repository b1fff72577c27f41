"""``PermutationLayer``: the closed forms, with the rows of α they move."""

import warnings
from collections.abc import Callable
from typing import Any, Self, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from permll.layer import equations
from permll.layer.rows import (
    Ids,
    Index,
    Labels,
    RowIds,
    check_batch,
    check_finite,
    check_range,
    looks_like_probabilities,
    match_rows,
    read_index,
    read_labels,
    take_rows,
)
from permll.layer.turning import choose_init, choose_step
from permll.layer.visits import Reduction, Visit, VisitedLoss, reduced


class PermutationLayer(nn.Module):
    """A classification loss in which every training sample owns a learned, convex combination of label swaps.

    Three lines of a training loop change: build it from the given labels, ask it for the loss, and let it step.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> net = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> layer = PermutationLayer(labels, num_classes=3, epochs=20)
        >>> index = torch.tensor([0, 3, 5])       # which training samples the batch holds
        >>> loss = layer(net(x[index]), index)
        >>> loss.backward(); optimizer.step(); layer.step()
        >>> layer.corrected_labels()
        tensor([0, 1, 2, 0, 1, 2])

    Per sample with given label y, row α, a = softmax(α) and p = softmax(logits), the loss is ℓ(P̄ p, e_y) with
    P̄ = Σ_k a_k P(y, k) (eq. 2 of the paper, ``on="prediction"``) or ℓ(p, P̄ e_y) (eq. 1, ``on="label"``). ``backward``
    notes the gradient of each visited row; ``step`` then moves those rows by ``-lr`` times it. A row moves by its own
    gradient: neither the batch size, nor gradient accumulation, nor a scaled or weighted loss changes its step. A
    sample drawn twice moves twice, one whose loss got the weight 0 does not, and rows outside the batch never do.

    What has not been through ``backward`` leaves no trace. What has waits for ``step``; the layer's own ``zero_grad``
    forgets it (an optimizer's does not reach it). ``eval()`` discards the layer: the plain loss against the given
    labels, nothing noted.

    Args:
        labels: the given, possibly wrong labels (N,), each in 0..c-1; list, array or tensor.
        num_classes: c.
        init: m (the paper's I_α), the initial weight of the given label, in (1/c, 1). The default is the paper's 0.35
            for c >= 10, and what gives the same head start in α for fewer classes (0.83 for two).
        lr: the step of α per visit. The paper's η multiplies the gradient of a mean over B samples: ``lr = η / B``.
            The default is the paper's 1.5 / 128, made for 120 epochs of batches from scratch: rather give ``epochs``.
        turn_after: instead of ``lr``: the fraction of ``epochs`` after which a label that the network contradicts with
            certainty at every visit turns (default 0.3 when only ``epochs`` is given; lower: sooner). For
            ``on="prediction"``.
        epochs: how often training visits each sample, for ``turn_after``.
        on: ``"prediction"`` (the paper's choice) or ``"label"``.
        loss: ``"ce"``, ``"kl"``, ``"l1"`` or ``"l2"``.
        ids: optional names of the rows, strings or integers. A saved state then finds its rows by id, however the data
            set was re-ordered, filtered or extended since. String ids may also be passed as ``index``; integers there
            are always positions (``layer.ids.positions(ids)`` finds those).

    α is a buffer, not a parameter: no optimizer, weight decay or gradient clipping of yours ever reaches it. It
    stays in float32 (or float64) whatever the network is cast to: a step of 0.01 would vanish in half precision.
    """

    alpha: Tensor
    labels: Tensor

    def __init__(
        self,
        labels: Labels,
        num_classes: int,
        *,
        init: float | None = None,
        lr: float | None = None,
        turn_after: float | None = None,
        epochs: int | None = None,
        on: equations.Side = "prediction",
        loss: equations.LossName = "ce",
        ids: Ids | None = None,
    ) -> None:
        super().__init__()
        if on not in equations.SIDES:
            raise ValueError(f"on must be one of {', '.join(equations.SIDES)}; got {on!r}.")
        if loss not in equations.LOSSES:
            raise ValueError(f"loss must be one of {', '.join(equations.LOSSES)}; got {loss!r}.")
        given = read_labels(labels, num_classes)
        num_classes = int(num_classes)  # from NumPy's
        self.num_classes, self.on, self.loss = num_classes, on, loss
        self.init = choose_init(init, num_classes)
        self.lr = choose_step(lr, turn_after, epochs, num_classes=num_classes, init=self.init, on=on, loss=loss)
        self.ids = None if ids is None else RowIds(ids, len(given))
        self.register_buffer("labels", given)
        self.register_buffer("alpha", equations.initial_alpha(given, num_classes, self.init))
        self._visits: list[Visit] = []
        self._met_logits = False

    def forward(self, logits: Tensor, index: Index, reduction: Reduction = "mean") -> Tensor:
        """Return the loss of the samples at ``index`` (B,) from their ``logits`` (B, c); see the class."""
        if torch.compiler.is_compiling():
            return _forward_outside_the_graph(self, logits, index, reduction)
        if reduction not in get_args(Reduction):
            raise ValueError(f"reduction must be mean, sum or none; got {reduction!r}.")
        index = read_index(index, self.ids)
        check_batch(logits, index, self.num_classes)
        if not self._met_logits:
            self._met_logits = True
            if looks_like_probabilities(logits.detach()):
                _warn("the first logits look like probabilities: pass the network's raw scores, without softmax.")
        index = self._on_device(index)
        labels = take_rows(self.labels, index).to(logits.device)
        logits = logits.to(torch.promote_types(logits.dtype, self.alpha.dtype))  # float32 at least: α is
        if not self.training:
            return reduced(equations.plain_loss(logits, labels, self.loss), reduction)
        alpha = take_rows(self.alpha, index).to(logits)  # where the network is: the table may stay on the host
        closed_form = equations.CLOSED_FORMS[self.on, self.loss]
        return VisitedLoss.apply(logits, alpha, labels, index, closed_form, self._visits, reduction)

    def step(self) -> None:
        """Move each row that went through ``backward`` since the last step by ``-lr`` times its own gradient."""
        alpha = self.alpha
        for visit in self._visits:
            alpha.index_add_(0, visit.index.to(alpha.device), visit.gradient.to(alpha), alpha=-self.lr)
        self._visits.clear()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget what went through ``backward`` since the last step, for a step that is not to be taken."""
        self._visits.clear()
        super().zero_grad(set_to_none)

    def weights(self, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return a = softmax(α), for all samples or those at ``index``: how far each class is believed to be right."""
        return self._alpha(index).softmax(-1)

    def matrix(self, i: int | str) -> Float[Tensor, "classes classes"]:
        """Return the c x c layer P̄ = Σ_k a_k P(y, k) of sample ``i``, for eyes and tests."""
        index = self._on_device(read_index(i, self.ids))
        (alpha,), (label,) = take_rows(self.alpha, index), take_rows(self.labels, index)
        return equations.layer_matrix(alpha, int(label))

    def posterior(self, logits: Tensor, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return r = softmax(α + logits): what input and given label together say of the true class.

        ``logits`` belong to all N samples in order, or to those at ``index``; best from one pass in evaluation mode.
        """
        alpha = self._alpha(index)
        if not isinstance(logits, Tensor):
            raise TypeError(f"logits must be a tensor, got {type(logits).__name__}.")
        if logits.shape != alpha.shape:
            raise ValueError(f"logits must have shape {tuple(alpha.shape)}, got {tuple(logits.shape)}.")
        check_finite(logits.detach())
        return equations.posterior(alpha, logits.detach().to(alpha))

    def corrected_labels(self) -> Int[Tensor, " rows"]:
        """Return argmax α (N,): the label the layer has come to believe, equal to the given one until it turns."""
        self._warn_if_waiting()
        return self.alpha.argmax(-1)

    def label_quality(self, logits: Tensor | None = None) -> Float[Tensor, " rows"]:
        """Return how far each given label is believed, (N,) in [0, 1], low = suspect.

        Without ``logits`` it is a_y, what training has left of the given label: a memory of every visit. With the
        ``logits`` (N, c) of a pass over the training set it is r_y = softmax(α + logits)_y, which adds the network's
        final word. Which of the two ranks better depends on the data. Both are for ranking; a label counts as
        contradicted where ``corrected_labels() != labels``.
        """
        self._warn_if_waiting()
        believed = self.weights() if logits is None else self.posterior(logits)
        return believed.gather(-1, self.labels[:, None]).squeeze(-1)

    def suspects(self, limit: int | None = None, logits: Tensor | None = None) -> Int[Tensor, " rows"]:
        """Return the positions of all samples, or the first ``limit``, ordered by ``label_quality``, worst first."""
        if limit is not None and not (isinstance(limit, int) and limit >= 0):
            raise ValueError(f"limit must be a whole number, 0 or more, got {limit!r}.")
        return self.label_quality(logits).argsort(stable=True)[:limit]

    def extra_repr(self) -> str:
        """Return the settings, in the words of the constructor."""
        size = f"{len(self.labels)} rows, num_classes={self.num_classes}"
        return f"{size}, init={self.init:g}, lr={self.lr:g}, on={self.on!r}, loss={self.loss!r}"

    def _warn_if_waiting(self) -> None:
        if self._visits:
            _warn(f"{len(self._visits)} batches went through backward and wait for layer.step(): α has not seen them.")

    def _alpha(self, index: Index | None) -> Tensor:
        return self.alpha if index is None else take_rows(self.alpha, self._on_device(read_index(index, self.ids)))

    def _on_device(self, index: Tensor) -> Tensor:
        if index.is_cpu and not self.alpha.is_cpu:
            check_range(index, len(self.labels))  # while it can still be told: an accelerator would only abort
        return index.to(self.alpha.device, non_blocking=True)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        alpha = self.alpha
        super()._apply(fn, recurse)
        if torch.finfo(self.alpha.dtype).bits < 32:
            self.alpha = alpha.to(self.alpha.device)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.ids is not None:
            destination[prefix + "ids"] = self.ids.to_tensor()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        alpha, labels, ids = (state_dict.get(prefix + name) for name in ("alpha", "labels", "ids"))
        if alpha is not None and labels is not None:
            try:
                alpha = self._find_rows(alpha, labels, None if ids is None else RowIds.from_tensor(ids))
            except ValueError as problem:
                args[-1].append(str(problem))  # error_msgs: load_state_dict raises them together
                return
            state_dict = {key: value for key, value in state_dict.items() if key != prefix + "ids"}
            state_dict |= {prefix + "alpha": alpha, prefix + "labels": self.labels}
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._visits.clear()  # what went through backward belongs to the rows that are no more

    def _find_rows(self, alpha: Tensor, labels: Tensor, ids: RowIds | None) -> Tensor:
        if alpha.ndim != 2 or alpha.shape[1] != self.num_classes:
            raise ValueError(
                f"the state is of shape {tuple(alpha.shape)}, but this layer has {self.num_classes} classes."
            )
        here, there = match_rows(self.labels.cpu(), self.ids, labels.cpu(), ids)
        found = self.alpha.cpu().clone()
        found[here] = alpha.cpu().to(found)[there]
        return found.to(self.alpha.device)


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _forward_outside_the_graph(layer: PermutationLayer, logits: Tensor, index: Index, reduction: Reduction) -> Tensor:
    """Leave a graph that is being compiled, for the layer's own forward.

    Recording a visit from inside backward is a side effect that a compiled graph cannot hold, and the layer's handful
    of small operations has little to gain there. Made when first needed: it would import the compiler with permll.
    """
    return torch.compiler.disable(PermutationLayer.forward)(layer, logits, index, reduction)
