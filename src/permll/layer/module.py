"""``PermutationLayer``: the closed forms, with the rows of α they move."""

import warnings
from functools import partial
from typing import Any, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer import equations
from permll.layer import top_k as kept_rows
from permll.layer.autograd import Reduction, Visit, VisitedLoss, reduced
from permll.layer.sample_state import KeyedRows
from permll.layer.step_size import choose_init, choose_step
from permll.layer.table import File, RowTable
from permll.layer.validation import (
    Ids,
    Index,
    Labels,
    RowIds,
    check_batch,
    check_finite,
    looks_like_probabilities,
    read_index,
    read_labels,
    take_rows,
)

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
IN_PARTS = (("prediction", "ce"), ("prediction", "kl"))  # the losses that need no whole row of α


class PermutationLayer(KeyedRows):
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
    labels, nothing recorded.

    Args:
        labels: the given, possibly wrong labels (N,), each in 0..c-1; list, array or tensor.
        num_classes: c.
        init: m (the paper's I_α), the initial weight of the given label, in (1/c, 1). The default is the paper's 0.35
            for c >= 10, and what gives the same head start in α for fewer classes (0.83 for two).
        lr: the step of α per visit. The paper's η multiplies the gradient of a mean over B samples: ``lr = η / B``.
            The default is the paper's 1.5 / 128, made for 120 epochs of batches from scratch: rather give ``epochs``.
        correct_after: instead of ``lr``: the fraction of ``epochs`` after which a label that the network contradicts with
            certainty at every visit turns (default 0.3 when only ``epochs`` is given; lower: sooner). For
            ``on="prediction"``.
        epochs: how often training visits each sample, for ``correct_after``.
        on: ``"prediction"`` (the paper's choice) or ``"label"``.
        loss: ``"ce"``, ``"kl"``, ``"l1"`` or ``"l2"``.
        ids: optional names of the rows, strings or integers. A saved state then finds its rows by id, however the data
            set was re-ordered, filtered or extended since. String ids may also be passed as ``index``; integers there
            are always positions (``layer.ids.positions(ids)`` finds those).
        top_k: for many classes: keep so many entries of a row of α, that of the given label and the largest others, and
            one number for all the rest. A row is exact as long as no more classes than that have come to differ.
        dtype: of α as it is kept: float32, float64, or bfloat16, which takes half the room and is rounded
            stochastically, since a step of 0.01 would vanish in it otherwise.
        file: keep α in this file, for tables beyond memory; ``True`` for a temporary one, in the folder that ``TMPDIR``
            names. A file that a layer like this one left is taken up where it was.

    α is a buffer, not a parameter: no optimizer, weight decay or gradient clipping of yours ever reaches it. It
    stays in float32 (or what ``dtype`` says) whatever the network is cast to.
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
        given = read_labels(labels, num_classes)
        num_classes = int(num_classes)  # from NumPy's
        init = choose_init(init, num_classes)
        lr = choose_step(lr, correct_after, epochs, num_classes=num_classes, init=init, on=on, loss=loss)
        names = None if ids is None else RowIds(ids, len(given))
        gap = equations.initial_gap(num_classes, init)
        own = given[current_placement().local_rows]
        table = RowTable(
            len(own),
            (num_classes,),
            labels=own,
            at_label=gap,
            dtype=dtype,
            top_k=top_k,
            tail="logmeanexp",
            file=file,
            own=current_placement().local_rows,
        )
        super().__init__(given, names, table, "alpha")
        self.num_classes, self.on, self.loss, self.init, self.lr = num_classes, on, loss, init, lr
        self._visits: list[Visit] = []
        self._met_logits = False

    @property
    def alpha(self) -> Float[Tensor, "rows classes"]:
        """α, (N, c): the table itself, or a copy of it if it is not kept here as dense float32 or float64."""
        return self._joined(self.table.values)

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
        place = self._place(index)
        table = self.table
        logits = logits.to(torch.promote_types(logits.dtype, table.dtype))  # float32 at least: α is
        if not self.training:
            labels = self._labels(index).to(logits.device)
            return reduced(equations.plain_loss(logits, labels, self.loss), reduction)
        # The rows go where the network is: the table may stay on the host.
        if table.kept_entries and (self.on, self.loss) in IN_PARTS:
            kept = kept_rows.TopKRows(*(part.to(logits.device) for part in table.read_kept(place)))
            return VisitedLoss.apply(logits, kept, place, kept_rows.prediction_ce, self._visits, reduction)
        alpha = table.read(place).to(logits)
        closed_form = equations.CLOSED_FORMS[self.on, self.loss]
        if (self.on, self.loss) in equations.ASK_FOR_LABELS:  # else not looked up: memory gone cold is slow
            closed_form = partial(closed_form, labels=self._labels(index).to(logits.device))
        return VisitedLoss.apply(logits, alpha, place, closed_form, self._visits, reduction)

    def step(self) -> None:
        """Move each row that went through ``backward`` since the last step by ``-lr`` times its own gradient."""
        table = self.table
        for visit in self._visits:
            table.add(visit.index, visit.gradient, scale=-self.lr)
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
        index = read_index(i, self.ids)
        (alpha,), (label,) = self._alpha(index), self._labels(index)
        return equations.layer_matrix(alpha, int(label))

    def posterior(self, logits: Tensor, index: Index | None = None) -> Float[Tensor, "rows classes"]:
        """Return r = softmax(α + logits): what input and given label together say of the true class.

        ``logits`` belong to all N samples in order, or to those at ``index``; best from one pass in evaluation mode.
        """
        alpha = self._alpha(index)
        self._check_logits(logits, len(alpha))
        return equations.posterior(alpha, logits.detach().to(alpha))

    def corrected_labels(self) -> Int[Tensor, " rows"]:
        """Return argmax α (N,): the label the layer has come to believe, equal to the given one until it turns."""
        self._warn_if_waiting()
        return self.argmax()

    def label_quality(self, logits: Tensor | None = None) -> Float[Tensor, " rows"]:
        """Return how far each given label is believed, (N,) in [0, 1], low = suspect.

        Without ``logits`` it is a_y, what training has left of the given label: a memory of every visit. With the
        ``logits`` (N, c) of a pass over the training set it is r_y = softmax(α + logits)_y, which adds the network's
        final word. Which of the two ranks better depends on the data. Both are for ranking; a label counts as
        contradicted where ``corrected_labels() != labels``.
        """
        self._warn_if_waiting()
        own = self.placement.local_rows
        labels = self.labels[own].to(self.table.device)
        if logits is None:
            return self._joined(self.table.softmax_at_label(labels)).to(self.labels.device)
        self._check_logits(logits, len(self))
        said = logits.detach()[own]

        def at_label(alpha: Tensor, at: Tensor) -> Tensor:
            r = equations.posterior(alpha, said[at.to(said.device)].to(alpha))
            return r.gather(1, labels[at, None])[:, 0]

        return self._joined(self.table.each(at_label)).to(self.labels.device)

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
        return self.alpha if index is None else self.table.read(self._place(read_index(index, self.ids)))

    def _labels(self, index: Tensor) -> Tensor:
        return take_rows(self.labels, index.to(self.labels.device))

    def _check_logits(self, logits: Tensor, rows: int) -> None:
        if not isinstance(logits, Tensor):
            raise TypeError(f"logits must be a tensor, got {type(logits).__name__}.")
        if logits.shape != (rows, self.num_classes):
            raise ValueError(f"logits must have shape {(rows, self.num_classes)}, got {tuple(logits.shape)}.")
        check_finite(logits.detach())

    def _misfit(self, shape: tuple[int, ...]) -> str:
        return f"the state is of shape {shape}, but this layer has {self.num_classes} classes."

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if not args[-1]:
            self._visits.clear()  # what went through backward belongs to the rows that are no more


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _forward_outside_the_graph(layer: PermutationLayer, logits: Tensor, index: Index, reduction: Reduction) -> Tensor:
    """Leave a graph that is being compiled, for the layer's own forward.

    Recording a visit from inside backward is a side effect that a compiled graph cannot hold, and the layer's handful
    of small operations has little to gain there. Made when first needed: it would import the compiler with permll.
    """
    return torch.compiler.disable(PermutationLayer.forward)(layer, logits, index, reduction)
