"""What a method is: networks, a loss, state per sample, and the sweeps over the data it asks for.

The training loop knows no method by name. It asks a method for sweeps, feeds each sweep's batches to the loss the sweep
names, and moves the networks the sweep may move. All that a method remembers is in its ``state_dict``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from permll.data.streams import Batch, Order
from permll.distributed.network import BatchCoupling as BatchCoupling


class FitInfo(NamedTuple):
    """What a method is told about the data: never clean labels, never the true noise rate."""

    labels: Tensor  # (N,) as given
    ids: tuple[str, ...]
    num_classes: int
    epochs: int
    steps_per_epoch: int
    trusted: Tensor | None = None  # (N,) bool: whose labels are known to be right, for methods that need such rows
    held_out: Tensor | None = None  # (n,) noisy labels of rows that are not trained on, where there are such rows

    @property
    def num_samples(self) -> int:
        """Return N."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class StreamSpec:
    """Which rows a sweep draws, in what order, and which views of them it sees.

    Args:
        views: names of views: ``"weak"``, ``"strong"``, ``"plain"``, or a second draw of one as ``"weak:2"``.
        order: of the rows, as a ``Stream`` knows it.
        rows: (n,) int64; default all.
        labels: (N,) to balance by, for orders that balance; default the given ones.
        draws: visits of an epoch, for orders that balance.
        batch_factor: size of these batches in batches of the recipe.
    """

    views: tuple[str, ...] = ("weak",)
    order: Order = "shuffled"
    rows: Tensor | None = None
    labels: Tensor | None = None
    draws: int | None = None
    batch_factor: float = 1.0


@dataclass(frozen=True, eq=False)
class TrainPass:
    """One pass: the first stream sets the pace, the others are begun again as often as needed.

    Args:
        streams: by name. The loss is called with a batch of each, by that name.
        loss: the method's function that gives the loss of each sample.
        networks: those that may move, ``"own"`` among them for parameters of the method's own; default all, () none.
    """

    streams: Mapping[str, StreamSpec] = field(default_factory=lambda: {"batch": StreamSpec()})
    loss: str = "loss"
    networks: tuple[str, ...] | None = None


Weights = Literal["last", "best", "initial", "fresh"]


@dataclass(frozen=True)
class Stage:
    """Epochs with one way to train.

    Args:
        name: for progress and metrics.
        epochs: how many.
        weights: what the networks begin with: those of the ``"last"`` step; the ``"best"`` of the stage before by
            ``Method.score`` (without validation data: the last); the ``"initial"`` ones of the run; or ``"fresh"`` ones
            (the initial ones where the user gave a network and no way to make another).
        optimizer: what differs from the recipe's optimizer, which begins anew with every stage; another ``name`` takes
            none of its settings.
        schedule: what differs from the recipe's schedule, which runs over the epochs of the stage.
    """

    name: str
    epochs: int
    weights: Weights = "last"
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] = field(default_factory=dict)


def divide_epochs(epochs: int, *shares: float) -> list[int]:
    """Return the epochs of each stage: those of ``shares`` (below 1 of all epochs, else epochs), and the rest.

    Every stage gets one epoch at least.

    Examples:
        >>> divide_epochs(320, 70, 0.4)
        [70, 128, 122]
        >>> divide_epochs(3, 0.9, 0.05)
        [1, 1, 1]
    """
    stages = len(shares) + 1
    if epochs < stages:
        raise ValueError(f"{stages} stages need as many epochs or more, got {epochs}.")
    found: list[int] = []
    for number, share in enumerate(shares):
        if share <= 0:
            raise ValueError(f"a stage lasts a share of all epochs, or so many epochs; got {share}.")
        wanted = round(share * epochs) if share < 1 else round(share)
        found.append(max(1, min(wanted, epochs - sum(found) - (stages - 1 - number))))
    return [*found, epochs - sum(found)]


def in_epochs(length: float, epochs: int) -> int:
    """Return a length in epochs, which below 1 is a share of all epochs.

    Examples:
        >>> in_epochs(0.25, 120), in_epochs(10, 120)
        (30, 10)
    """
    return round(length * epochs if length < 1 else length)


class PredictLogits(Protocol):
    """What a network says of rows, in evaluation mode."""

    def __call__(
        self,
        network: str = "net",
        *,
        best: bool = False,
        view: str = "plain",
        rows: Tensor | None = None,
        held_out: bool = False,
    ) -> Tensor:
        """Return logits (N, c).

        Args:
            network: which.
            best: with the best weights of the stage by ``Method.score``, not the present ones; see ``keeps_best``.
            view: what it sees.
            rows: (n,) int64, for the logits (n, c) of these alone, in their order; default all.
            held_out: of the rows whose labels are ``FitInfo.held_out``, not of the training rows.
        """


class Method(nn.Module):
    """A way to train on wrong labels. Constructors store settings; ``on_fit_start`` allocates.

    Parameters outside ``networks`` move with the recipe's optimizer too, without weight decay; their optimizer is
    called ``"own"``.

    Class attributes:
        network_names: the networks it trains, each built by the same recipe from a seed of its own.
        keeps_best: whether the loop keeps the weights that did best by ``score``, for stages and scans to go back to.
        meet: where the rows of a batch meet, which decides what several ranks have to tell each other. In
            ``"inputs"``, if they are blended, picked or stacked before a network sees them; every rank then makes all
            views. In ``"logits"``, if a row's loss depends on the logits of other rows; ranks exchange logits. In
            ``"none"``, if a row's loss depends on that row alone, and nothing is written down about it; ranks
            exchange nothing but gradients. The default is always right; the others cost less.
        shardable: whether all that a method does with a row depends on that row, its label and its state, so that the
            state of a row may live on one rank. Then rows meet in nothing.
    """

    network_names: ClassVar[tuple[str, ...]] = ("net",)
    keeps_best: ClassVar[bool] = False
    batch_coupling: ClassVar[BatchCoupling] = "inputs"
    shardable: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleDict()
        self.info: FitInfo | None = None

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate what depends on the data."""
        self.info = info

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return the stages, whose epochs sum to ``epochs``; by default one."""
        return (Stage("train", epochs),)

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        """Begin a stage, with the networks still as the stage before left them."""

    def score(self, probabilities: Tensor, labels: Tensor) -> float:
        """Return how well predictions (n, c) fit the noisy labels (n,) of validation rows; higher is better."""
        return (probabilities.argmax(-1) == labels).double().mean().item()

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return sweep ``number`` of an epoch, or None after the last; by default one over all rows.

        It may scan first. What it decides is kept with the checkpoint, so a run that is interrupted within the sweep
        goes on with the same rows.
        """
        return TrainPass() if number == 0 else None

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of each sample; the loop takes the mean."""
        raise NotImplementedError

    def on_step_end(self) -> None:
        """Follow a step of the optimizer."""

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Follow the last sweep of an epoch."""

    def predict(self, x: Tensor) -> Tensor:
        """Return probabilities (B, c): the mean over the networks, without anything that served training alone."""
        return torch.stack([network(x).float().softmax(-1) for network in self.networks.values()]).mean(0)

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return what it believes the labels to be, (N, c), rows sum to one; by default what the networks predict."""
        return self.predict_rows(predict_logits)

    def label_quality(self, predict_logits: PredictLogits) -> Tensor:
        """Return how far each given label is believed, (N,) in [0, 1], low = suspect."""
        return self._of_given(self.corrected_labels(predict_logits))

    def labels_and_quality(self, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return ``corrected_labels`` and ``label_quality``, for the price of the former where it tells the latter."""
        corrected = self.corrected_labels(predict_logits)
        follows = type(self).label_quality is Method.label_quality
        return corrected, self._of_given(corrected) if follows else self.label_quality(predict_logits)

    def _of_given(self, believed: Tensor) -> Tensor:
        """Return what (N, c) says of the given labels, (N,)."""
        assert self.info is not None
        return believed.gather(1, self.info.labels.to(believed.device)[:, None])[:, 0]

    def metrics(self) -> Mapping[str, float]:
        """Return numbers worth watching that need no clean labels: for the progress display and metrics.jsonl."""
        return {}

    def resolved_params(self) -> dict[str, Any]:
        """Return what the method chose for itself from the data, to be written down."""
        return {}

    def extra_state(self) -> dict[str, Tensor]:
        """Return the state beside the networks: rows per sample, counters."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("networks.")}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Give it back; rows per sample find their places by id."""
        missing, unexpected = self.load_state_dict(dict(state), strict=False)
        missing = [name for name in missing if not name.startswith("networks.")]
        if missing or unexpected:
            raise ValueError(f"the state is of another method: it lacks {missing} and has {unexpected} more.")

    def predict_rows(self, predict_logits: PredictLogits, *, held_out: bool = False) -> Tensor:
        """Return what the networks predict for all training rows, or for held-out ones: their mean (N, c)."""
        looks = [predict_logits(name, held_out=True) if held_out else predict_logits(name) for name in self.networks]
        return torch.stack([logits.softmax(-1) for logits in looks]).mean(0)
