"""What a method is: networks, a loss, state per sample, and the sweeps over the data it asks for.

The training loop knows no method by name. It asks a method for sweeps, feeds each sweep's batches to the loss the sweep
names, and moves the networks the sweep may move. All that a method remembers is in its ``state_dict``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from permll.data.streams import Batch, Order


class FitInfo(NamedTuple):
    """What a method is told about the data: never clean labels, never the true noise rate."""

    labels: Tensor  # (N,) as given
    ids: tuple[str, ...]
    num_classes: int
    epochs: int
    steps_per_epoch: int

    @property
    def num_samples(self) -> int:
        """Return N."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Draw:
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
class Sweep:
    """One pass: the first stream sets the pace, the others are begun again as often as needed.

    Args:
        streams: by name. The loss is called with a batch of each, by that name.
        loss: the method's function that gives the loss of each sample.
        networks: those that may move; default all.
    """

    streams: Mapping[str, Draw] = field(default_factory=lambda: {"batch": Draw()})
    loss: str = "loss"
    networks: tuple[str, ...] | None = None


# Logits (N, c) of a network on all training rows in evaluation mode: ``scan("net")``.
Scan = Callable[..., Tensor]


class Method(nn.Module):
    """A way to train on wrong labels. Constructors store settings; ``on_fit_start`` allocates.

    Class attributes:
        network_names: the networks it trains, each built by the same recipe from a seed of its own.
    """

    network_names: ClassVar[tuple[str, ...]] = ("net",)

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleDict()
        self.info: FitInfo | None = None

    def on_fit_start(self, info: FitInfo) -> None:
        """Allocate what depends on the data."""
        self.info = info

    def sweep(self, epoch: int, number: int, scan: Scan) -> Sweep | None:  # noqa: ARG002
        """Return sweep ``number`` of an epoch, or None after the last; by default one over all rows.

        It may scan first. What it decides is kept with the checkpoint, so a run that is interrupted within the sweep
        goes on with the same rows.
        """
        return Sweep() if number == 0 else None

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss (B,) of each sample; the loop takes the mean."""
        raise NotImplementedError

    def on_step_end(self) -> None:
        """Follow a step of the optimizer."""

    def on_epoch_end(self, epoch: int, scan: Scan) -> None:
        """Follow the last sweep of an epoch."""

    def predict(self, x: Tensor) -> Tensor:
        """Return probabilities (B, c): the mean over the networks, without anything that served training alone."""
        return torch.stack([network(x).float().softmax(-1) for network in self.networks.values()]).mean(0)

    def corrected_labels(self, scan: Scan) -> Tensor:
        """Return what it believes the labels to be, (N, c), rows sum to one; by default what the networks predict."""
        return self._mean_prediction(scan)

    def label_quality(self, scan: Scan) -> Tensor:
        """Return how far each given label is believed, (N,) in [0, 1], low = suspect."""
        assert self.info is not None
        believed = self.corrected_labels(scan)
        return believed.gather(1, self.info.labels.to(believed.device)[:, None])[:, 0]

    def metrics(self) -> Mapping[str, float]:
        """Return numbers worth watching that need no clean labels: for the progress display and metrics.jsonl."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Return what the method chose for itself from the data, to be written down."""
        return {}

    def own_state(self) -> dict[str, Tensor]:
        """Return the state beside the networks: rows per sample, counters."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("networks.")}

    def load_own_state(self, state: Mapping[str, Tensor]) -> None:
        """Give it back; rows per sample find their places by id."""
        missing, unexpected = self.load_state_dict(dict(state), strict=False)
        missing = [name for name in missing if not name.startswith("networks.")]
        if missing or unexpected:
            raise ValueError(f"the state is of another method: it lacks {missing} and has {unexpected} more.")

    def _mean_prediction(self, scan: Scan) -> Tensor:
        return torch.stack([scan(name).softmax(-1) for name in self.networks]).mean(0)
