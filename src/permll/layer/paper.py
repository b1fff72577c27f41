"""``PaperPermutationLayer``: the layer with the settings of the paper, constant over training."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer import equations
from permll.layer import top_k as top_k_rows
from permll.layer.autograd import BatchLoss, Visit, mask_update
from permll.layer.base import CorrectionLayer, check_dtype
from permll.layer.step_size import resolve_init, resolve_lr
from permll.layer.table import File, RowTable
from permll.layer.validation import Ids, Index, Labels, RowIds, check_index, check_labels

TOP_K_LOSSES = (("prediction", "ce"), ("prediction", "kl"))  # computed without dense rows of α


class PaperPermutationLayer(CorrectionLayer):
    """The permutation layer of the paper: initial weight and step size of α are constant over training.

    ``PermutationLayer.paper`` builds it. ``PermutationLayer`` is safer for unknown noise: it measures when to start and
    how far to trust the labels.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> net = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> layer = PaperPermutationLayer(labels, num_classes=3, epochs=20)
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
        process_group: processes of ``torch.distributed`` whose batches ``step`` exchanges; default: all, if there are
            several. A group of one process exchanges nothing.

    α is neither a parameter nor a buffer: optimizers, weight decay, gradient clipping, averages of models and wrappers
    for several processes do not affect it. It is part of ``state_dict``. It stays in float32
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
        process_group: Any = None,
    ) -> None:
        if on not in equations.SIDES:
            raise ValueError(f"on must be one of {', '.join(equations.SIDES)}; got {on!r}.")
        if loss not in equations.LOSSES:
            raise ValueError(f"loss must be one of {', '.join(equations.LOSSES)}; got {loss!r}.")
        check_dtype(dtype)
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
        settings = {"init": float(init), "lr": float(lr), "on": on, "loss": loss}
        super().__init__(all_labels, num_classes, row_ids, table, "alpha", settings, process_group)
        self.on, self.loss, self.init, self.lr = on, loss, init, lr

    @property
    def alpha(self) -> Float[Tensor, "rows classes"]:
        """α, (N, c): the stored tensor if it is dense float32 or float64 and not sharded, otherwise a copy."""
        return self._gather(self.table.values)

    def _corrected_loss(self, logits: Tensor, positions: Tensor, index: Tensor) -> BatchLoss:
        self._check_finite(logits, index)
        table = self.table
        # Rows move to the network's device; the table may stay on the host.
        if table.top_k and (self.on, self.loss) in TOP_K_LOSSES:
            rows = top_k_rows.TopKRows(*(part.to(logits.device) for part in table.read_top_k(positions)))
            sparse = top_k_rows.prediction_ce(rows, logits)
            return BatchLoss(sparse.loss, sparse.grad_logits, sparse.grad_alpha)
        closed_form = equations.CLOSED_FORMS[self.on, self.loss]
        # Skipped if possible, since the lookup misses the cache.
        needs_labels = (self.on, self.loss) in equations.NEEDS_LABELS
        labels = self._labels(index).to(logits.device) if needs_labels else None
        dense = closed_form(table.read(positions).to(logits), logits, labels)
        return BatchLoss(dense.loss, dense.grad_logits, (dense.grad_alpha,))

    @property
    def _stored_entries(self) -> int:
        k = self.table.top_k
        return k + min(k - 1, self.num_classes - k) if k and (self.on, self.loss) in TOP_K_LOSSES else 0

    def _update(self, visits: list[Visit]) -> None:
        """Subtract ``lr`` times the recorded gradients from α."""
        for positions, updates, mask in visits:
            gradient = top_k_rows.TopKUpdate(*updates) if len(updates) > 1 else updates[0]
            self.table.add(positions, mask_update(gradient, mask), scale=-self.lr)

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

    def _alpha(self, index: Index | None) -> Tensor:
        return self.alpha if index is None else self.table.read(self._local_index(check_index(index, self.ids)))
