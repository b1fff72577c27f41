"""PermLL: a trained convex combination of label permutations per sample corrects its loss (AAAI 2023)."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from permll.data.streams import Batch
from permll.layer.equations import LossName, Side
from permll.layer.paper import PaperPermutationLayer
from permll.methods._base import FitInfo, Method, PredictLogits, StreamSpec, TrainPass
from permll.methods._state import State, check_top_k, storage_kwargs
from permll.utils.validation import check_range

Balance = Literal["none", "given", "corrected"]


class PermLL(Method):
    """The loss through a ``PaperPermutationLayer``, whose weights α have their own constant step size.

    Args:
        init: I_α, initial weight of the given label; default as in ``PaperPermutationLayer``.
        lr: step size of α per visit, the paper's η / B. Alternative to ``correct_after``.
        correct_after: fraction of training after which a contradicted label is corrected; default 0.3 without ``lr``.
        on: position of the layer, ``"prediction"`` or ``"label"``.
        loss: ``"ce"``, ``"kl"``, ``"l1"`` or ``"l2"``.
        warm_up: initial steps of cross-entropy with constant α; if below 1, a fraction of the epochs.
        balance: class-balanced sampling: by the ``"given"`` labels, or by the ``"corrected"`` ones after each epoch, as
            in the paper on Clothing1M.
        networks: number of networks that share α; their losses are summed, and so are the steps of α.
        top_k: number of entries of α to store per sample, the others as one value; for many classes. Default all.
        state: storage of α: ``"float32"``, ``"bfloat16"`` (half the memory), or ``"disk"``, in a temporary file.
    """

    batch_coupling = "logits"
    shardable = True

    def __init__(
        self,
        *,
        init: float | None = None,
        lr: float | None = None,
        correct_after: float | None = None,
        on: Side = "prediction",
        loss: LossName = "ce",
        warm_up: float = 0,
        balance: Balance = "none",
        networks: int = 1,
        top_k: int | None = None,
        state: State = "float32",
    ) -> None:
        super().__init__()
        check_top_k(top_k)
        check_range("[1, inf)", networks=networks)
        self.init, self.lr, self.correct_after = init, lr, correct_after
        self.top_k, self.state = top_k, state
        self.on, self.loss_name, self.warm_up, self.balance = on, loss, warm_up, balance
        self.network_names = ("net",) if networks == 1 else tuple(f"net{n}" for n in range(networks))  # type: ignore[misc]
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.steps: Tensor
        self.layer: PaperPermutationLayer | None = None
        self.register_buffer("trusted", None, persistent=False)
        self.trusted: Tensor | None
        self._epochs = 0

    def on_fit_start(self, info: FitInfo) -> None:
        """Create the layer, with a row of α for every sample."""
        super().on_fit_start(info)
        self._epochs = info.epochs
        self.trusted = None if info.trusted is None else info.trusted.clone()
        self.layer = PaperPermutationLayer(
            info.labels,
            info.num_classes,
            init=self.init,
            lr=self.lr,
            correct_after=self.correct_after,
            epochs=None if self.lr is not None else info.epochs,
            on=self.on,
            loss=self.loss_name,
            ids=info.ids,
            **storage_kwargs(self.top_k, self.state),
        )

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return one pass over all samples, or over a class-balanced draw."""
        if number > 0:
            return None
        loss = "warm_up_loss" if self.warm_up < 1 and epoch < self.warm_up * self._epochs else "loss"
        if self.balance == "none":
            return TrainPass(loss=loss)
        labels = self._layer.argmax() if self.balance == "corrected" else None
        return TrainPass({"batch": StreamSpec(order="weighted", labels=labels)}, loss=loss)

    def loss(self, batch: Batch) -> Tensor:
        """Return the sum over the networks of the loss (B,) through the layer.

        In the warm-up and for trusted samples it is -log p_y; their rows of α do not change.
        """
        if self._is_warming_up:
            return self.warm_up_loss(batch)
        logits = [network(batch.x) for network in self.networks.values()]
        loss = _sum_losses([self._layer(one, batch.index, reduction="none") for one in logits])
        if self.trusted is None:
            return loss
        return torch.where(self.trusted[batch.index], _plain_loss(logits, batch.labels), loss)

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the sum over the networks of -log p_y (B,)."""
        return _plain_loss([network(batch.x) for network in self.networks.values()], batch.labels)

    def on_step_end(self) -> None:
        """Update the visited rows of α; the warm-up visits none."""
        self._layer.step()
        self.steps += 1

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return a = softmax(α), (N, c); for trusted samples, the given label."""
        weights = self._layer.weights()
        if self.trusted is None:
            return weights
        given = nn.functional.one_hot(self._layer.labels, weights.shape[1]).to(weights)
        return torch.where(self.trusted.to(weights.device)[:, None], given, weights)

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return the posterior of the given label r_y = softmax(α + logits)_y (N,), the mean over the networks.

        That of a trusted sample is 1.
        """
        quality = torch.stack([self._layer.label_quality(predict_logits(name)) for name in self.networks]).mean(0)
        return quality if self.trusted is None else quality.masked_fill(self.trusted.to(quality.device), 1.0)

    def metrics(self) -> Mapping[str, float]:
        """Return the fraction of corrected labels."""
        corrected = self._layer.argmax() != self._layer.labels
        return {"corrected": corrected.double().mean().item()}

    def resolved_params(self) -> dict[str, Any]:
        """Return initial weight and step size, which may follow from the numbers of classes and epochs."""
        return {"init": self._layer.init, "lr": self._layer.lr}

    @property
    def _layer(self) -> PaperPermutationLayer:
        assert self.layer is not None, "call on_fit_start first"
        return self.layer

    @property
    def _is_warming_up(self) -> bool:
        return self.warm_up >= 1 and int(self.steps) < self.warm_up


def _plain_loss(logits: list[Tensor], labels: Tensor) -> Tensor:
    return _sum_losses([nn.functional.cross_entropy(one, labels, reduction="none") for one in logits])


def _sum_losses(losses: list[Tensor]) -> Tensor:
    return losses[0] if len(losses) == 1 else torch.stack(losses).sum(0)
