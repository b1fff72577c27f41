"""``PermutationLayer``: the corrected loss with its per-sample parameters α."""

import warnings
from functools import partial
from typing import Any, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer import equations
from permll.layer import top_k as top_k_rows
from permll.layer.autograd import CorrectedLoss, Reduction, SampleGrad, reduce_loss
from permll.layer.sample_state import SampleState
from permll.layer.step_size import resolve_init, resolve_lr
from permll.layer.table import File, RowTable
from permll.layer.validation import (
    Ids,
    Index,
    Labels,
    RowIds,
    check_batch,
    check_finite,
    check_index,
    check_labels,
    looks_like_probabilities,
    select_rows,
)

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
TOP_K_LOSSES = (("prediction", "ce"), ("prediction", "kl"))  # computed without dense rows of α


class PermutationLayer(SampleState):
    """A classification loss with a learned convex combination of label swaps for every training sample.

    A training loop changes in three lines: build the layer from the given labels, compute the loss with it, and call
    its ``step``.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> net = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> layer = PermutationLayer(labels, num_classes=3, epochs=20)
        >>> index = torch.tensor([0, 3, 5])       # positions of the batch in the training set
        >>> loss = layer(net(x[index]), index)
        >>> loss.backward(); optimizer.step(); layer.step()
        >>> layer.corrected_labels()
        tensor([0, 1, 2, 0, 1, 2])

    For a sample with given label y, parameters α, a = softmax(α) and p = softmax(logits), the loss is ℓ(P̄ p, e_y) with
    P̄ = Σ_k a_k P(y, k) (eq. 2 of the paper, ``on="prediction"``) or ℓ(p, P̄ e_y) (eq. 1, ``on="label"``). ``backward``
    records the gradient of each sample's loss in its α, and ``step`` subtracts ``lr`` times that gradient. The update
    does not depend on batch size, gradient accumulation, loss scaling or loss weights. A sample that occurs twice in a
    batch is updated twice. A sample whose loss has weight 0, or that is not in the batch, is not updated.

    A loss without ``backward`` leaves no trace. Recorded gradients wait for ``step``; the layer's ``zero_grad``
    discards them (an optimizer's does not). In ``eval()`` mode the layer is off: the loss is the plain one against the
    given labels, and nothing is recorded.

    Args:
        labels: given, possibly wrong labels (N,) in 0..c-1; list, array or tensor.
        num_classes: c.
        init: m (I_α in the paper), the initial weight of the given label, in (1/c, 1). Default: the paper's 0.35 for
            c >= 10, and the weight with the same label logit for fewer classes (0.83 for two).
        lr: step of α per update. The paper's η multiplies the gradient of a mean over B samples: ``lr = η / B``.
            Default: the paper's 1.5 / 128, for 120 epochs from scratch. Prefer ``epochs``.
        correct_after: alternative to ``lr``: the fraction of ``epochs`` after which a label is corrected if the network
            contradicts it with certainty at every update (default 0.3 if only ``epochs`` is given). For
            ``on="prediction"``.
        epochs: number of training epochs, for ``correct_after``.
        on: ``"prediction"`` (the paper's choice) or ``"label"``.
        loss: ``"ce"``, ``"kl"``, ``"l1"`` or ``"l2"``.
        ids: optional sample ids, strings or integers. ``load_state_dict`` then matches rows by id, so the dataset may
            be reordered, filtered or extended in between. String ids may also be passed as ``index``; integers there
            are always positions (``layer.ids.positions(ids)`` converts ids).
        top_k: for many classes: number of entries of α stored per sample, the given label's and the largest others,
            plus one value for the rest. Exact while at most that many entries differ from the rest.
        dtype: storage dtype of α: float32, float64, or bfloat16, which halves the memory and is rounded
            stochastically, since a step of 0.01 would otherwise be lost.
        file: path of a memory-mapped file for α, for tables larger than memory; ``True`` for a temporary file in
            ``TMPDIR``. A file written by an identical layer is reopened with its content.

    α is a buffer, not a parameter: optimizers, weight decay and gradient clipping do not affect it. It stays in float32
    (or ``dtype``) when the network is cast.
    """

    def __init__(
        self,
        labels: Labels,
        num_classes: int,
        *,
        init: float | None = None,
        lr: float | None = None,
        correct_after: float | None = None,
        epochs: int | None = None,
        on: equations.Side = "prediction",
        loss: equations.LossName = "ce",
        ids: Ids | None = None,
        top_k: int | None = None,
        dtype: torch.dtype = torch.float32,
        file: File = None,
    ) -> None:
        if on not in equations.SIDES:
            raise ValueError(f"on must be one of {', '.join(equations.SIDES)}; got {on!r}.")
        if loss not in equations.LOSSES:
            raise ValueError(f"loss must be one of {', '.join(equations.LOSSES)}; got {loss!r}.")
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(map(str, DTYPES))}; got {dtype!r}.")
        all_labels = check_labels(labels, num_classes)
        num_classes = int(num_classes)  # may be a NumPy integer
        init = resolve_init(init, num_classes)
        lr = resolve_lr(lr, correct_after, epochs, num_classes=num_classes, init=init, on=on, loss=loss)
        row_ids = None if ids is None else RowIds(ids, len(all_labels))
        shard = current_placement().local_rows
        local_labels = all_labels[shard]
        table = RowTable(
            len(local_labels),
            (num_classes,),
            labels=local_labels,
            at_label=equations.initial_label_logit(num_classes, init),
            dtype=dtype,
            top_k=top_k,
            tail="logmeanexp",
            file=file,
            shard=shard,
        )
        super().__init__(all_labels, row_ids, table, "alpha")
        self.num_classes, self.on, self.loss, self.init, self.lr = num_classes, on, loss, init, lr
        self._pending: list[SampleGrad] = []
        self._checked_logits = False

    @property
    def alpha(self) -> Float[Tensor, "rows classes"]:
        """α, (N, c): the stored tensor if it is dense float32 or float64 and not sharded, otherwise a copy."""
        return self._gather(self.table.values)

    def forward(self, logits: Tensor, index: Index, reduction: Reduction = "mean") -> Tensor:
        """Return the loss of the samples at ``index`` (B,) from their ``logits`` (B, c); see the class."""
        if torch.compiler.is_compiling():
            return _forward_outside_the_graph(self, logits, index, reduction)
        if reduction not in get_args(Reduction):
            raise ValueError(f"reduction must be mean, sum or none; got {reduction!r}.")
        index = check_index(index, self.ids)
        check_batch(logits, index, self.num_classes)
        if not self._checked_logits:
            self._checked_logits = True
            if looks_like_probabilities(logits.detach()):
                _warn("the first logits look like probabilities: pass the network's raw scores, without softmax.")
        positions = self._local_index(index)
        table = self.table
        logits = logits.to(torch.promote_types(logits.dtype, table.dtype))  # at least float32, like α
        if not self.training:
            labels = self._labels(index).to(logits.device)
            return reduce_loss(equations.plain_loss(logits, labels, self.loss), reduction)
        # Rows move to the network's device; the table may stay on the host.
        if table.top_k and (self.on, self.loss) in TOP_K_LOSSES:
            rows = top_k_rows.TopKRows(*(part.to(logits.device) for part in table.read_top_k(positions)))
            return CorrectedLoss.apply(logits, rows, positions, top_k_rows.prediction_ce, self._pending, reduction)
        alpha = table.read(positions).to(logits)
        closed_form = equations.CLOSED_FORMS[self.on, self.loss]
        if (self.on, self.loss) in equations.NEEDS_LABELS:  # skipped otherwise, since the lookup misses the cache
            closed_form = partial(closed_form, labels=self._labels(index).to(logits.device))
        return CorrectedLoss.apply(logits, alpha, positions, closed_form, self._pending, reduction)

    def step(self) -> None:
        """Subtract ``lr`` times the recorded gradients from α, and discard them."""
        table = self.table
        for grad in self._pending:
            table.add(grad.index, grad.gradient, scale=-self.lr)
        self._pending.clear()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discard the gradients recorded since the last step, for a step that is skipped."""
        self._pending.clear()
        super().zero_grad(set_to_none)

    def weights(self, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return a = softmax(α), the weight of each class, for all samples or those at ``index``."""
        return self._alpha(index).softmax(-1)

    def matrix(self, i: int | str) -> Float[Tensor, "classes classes"]:
        """Return the c x c layer P̄ = Σ_k a_k P(y, k) of sample ``i``, for inspection."""
        index = check_index(i, self.ids)
        (alpha,), (label,) = self._alpha(index), self._labels(index)
        return equations.layer_matrix(alpha, int(label))

    def posterior(self, logits: Tensor, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return r = softmax(α + logits), the posterior of the true class given the input and the given label.

        ``logits`` belong to all N samples in order, or to those at ``index``. Compute them in evaluation mode.
        """
        alpha = self._alpha(index)
        self._check_logits(logits, len(alpha))
        return equations.posterior(alpha, logits.detach().to(alpha))

    def corrected_labels(self) -> Int[Tensor, " rows"]:
        """Return argmax α (N,), which is the given label until training corrects it."""
        self._warn_if_pending()
        return self.argmax()

    def label_quality(self, logits: Tensor | None = None) -> Float[Tensor, " rows"]:
        """Return the quality of each given label, (N,) in [0, 1], low = suspect.

        Without ``logits`` it is a_y, which reflects all updates of training. With the ``logits`` (N, c) of a pass over
        the training set it is r_y = softmax(α + logits)_y, which adds the network's final predictions. Which of them
        ranks better depends on the data. Both are for ranking; contradicted labels are those where
        ``corrected_labels() != labels``.
        """
        self._warn_if_pending()
        local_rows = self.placement.local_rows
        labels = self.labels[local_rows].to(self.table.device)
        if logits is None:
            return self._gather(self.table.softmax_at_label(labels)).to(self.labels.device)
        self._check_logits(logits, len(self))
        local_logits = logits.detach()[local_rows]

        def posterior_at_label(alpha: Tensor, positions: Tensor) -> Tensor:
            r = equations.posterior(alpha, local_logits[positions.to(local_logits.device)].to(alpha))
            return r.gather(1, labels[positions, None])[:, 0]

        return self._gather(self.table.map_rows(posterior_at_label)).to(self.labels.device)

    def suspects(self, limit: int | None = None, logits: Tensor | None = None) -> Int[Tensor, " rows"]:
        """Return the positions of all samples, or the first ``limit``, ordered by ``label_quality``, lowest first."""
        if limit is not None and not (isinstance(limit, int) and limit >= 0):
            raise ValueError(f"limit must be an integer >= 0, got {limit!r}.")
        return self.label_quality(logits).argsort(stable=True)[:limit]

    def extra_repr(self) -> str:
        """Return size and settings."""
        size = f"{len(self.labels)} rows, num_classes={self.num_classes}"
        return f"{size}, init={self.init:g}, lr={self.lr:g}, on={self.on!r}, loss={self.loss!r}"

    def _warn_if_pending(self) -> None:
        if self._pending:
            _warn(f"the gradients of {len(self._pending)} batches are not applied to α yet: call layer.step() first.")

    def _alpha(self, index: Index | None) -> Tensor:
        return self.alpha if index is None else self.table.read(self._local_index(check_index(index, self.ids)))

    def _labels(self, index: Tensor) -> Tensor:
        return select_rows(self.labels, index.to(self.labels.device))

    def _check_logits(self, logits: Tensor, rows: int) -> None:
        if not isinstance(logits, Tensor):
            raise TypeError(f"logits must be a tensor, got {type(logits).__name__}.")
        if logits.shape != (rows, self.num_classes):
            raise ValueError(f"logits must have shape {(rows, self.num_classes)}, got {tuple(logits.shape)}.")
        check_finite(logits.detach())

    def _shape_error(self, shape: tuple[int, ...]) -> str:
        return f"the state has shape {shape}, but this layer has {self.num_classes} classes."

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if not args[-1]:
            self._pending.clear()  # recorded gradients belong to the rows that were replaced


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _forward_outside_the_graph(layer: PermutationLayer, logits: Tensor, index: Index, reduction: Reduction) -> Tensor:
    """Run the forward pass eagerly, outside a graph that is being compiled.

    Recording gradients in ``backward`` is a side effect that a compiled graph cannot contain. The decorator is applied
    on first use, since it imports the compiler.
    """
    return torch.compiler.disable(PermutationLayer.forward)(layer, logits, index, reduction)
