"""One training and what it tells: networks that predict, and of every given label whether it is right."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from permll.cleaning.findings import Findings
from permll.cleaning.label_issues import posterior_of
from permll.cleaning.prediction_averaging import Memory, remembered
from permll.data.dataset import LabeledData
from permll.data.inputs import Vectors
from permll.data.readers.raw_data import default_ids
from permll.methods._base import Method
from permll.training.callbacks import Callback
from permll.training.predictor import Predictor, load_predictor
from permll.training.recipe import Recipe
from permll.training.train import train

if TYPE_CHECKING:
    from permll.training.run import Run
    from permll.training.trainer import Trainer

_ROWS = 8_192  # that go through the networks at once

Weights = Mapping[str, Mapping[str, Tensor]]  # of each network, by name


class Learned(NamedTuple):
    """What a training has come to."""

    predictor: Predictor
    findings: Findings  # of all rows, in their order
    noise_rate: float


def learn(
    inputs: Vectors, labels: Tensor, recipe: Recipe, *, weights: Weights | None, callbacks: Sequence[Callback]
) -> Learned:
    """Train as a recipe says, in a folder that is removed afterwards.

    Args:
        inputs: N rows.
        labels: (N,) int64, every class from 0 on.
        recipe: of the training.
        weights: that the networks begin with; None for new ones.
        observers: who watches.
    """
    classes = [str(k) for k in range(int(labels.max()) + 1)]
    data = LabeledData(inputs, labels, tuple(classes), default_ids(len(labels)))
    begin = [] if weights is None else [_BeginWith(weights)]
    with TemporaryDirectory(prefix="permll-") as folder, _threads_given_back():
        run = train(data, recipe=recipe, out=Path(folder), callbacks=[*begin, *callbacks, Memory()])
        memory, predictor = remembered(run.folder), load_predictor(run)
        rows = torch.tensor([int(name) for name in memory.ids])
        noise_model, posterior, _ = posterior_of(memory, labels[rows])
    order = rows.argsort()
    findings = Findings.of_posterior(data.ids, classes, labels, posterior[order], keep=1)
    predictor.method.double()  # so that a row is predicted alike in whatever company it comes
    return Learned(predictor, findings, noise_model.rate)


@torch.no_grad()
def probabilities(predictor: Predictor, inputs: Vectors) -> Tensor:
    """Return (N, c) in float64, rows that sum to one."""
    parts = []
    for rows in torch.arange(len(inputs)).split(_ROWS):
        x = predictor.view(inputs.batch(rows), rows)
        parts.append(predictor.method.predict(x.double()).double())
    found = torch.cat(parts)
    return found / found.sum(1, keepdim=True)


def weights_of(method: Method) -> Weights:
    """Return the weights of a method's networks."""
    return {name: network.state_dict() for name, network in method.networks.items()}


class _BeginWith(Callback):
    """Gives the networks their weights before the first step."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def on_start(self, trainer: "Trainer", run: "Run") -> None:  # noqa: ARG002
        """Load them."""
        networks = trainer.method.networks
        if set(networks) != set(self._weights):
            raise ValueError(
                f"a warm start needs the networks of the fit before, {', '.join(self._weights)}, but this method has "
                f"{', '.join(networks)}: set warm_start=False."
            )
        for name, network in networks.items():
            try:
                network.load_state_dict(dict(self._weights[name]))
            except RuntimeError as other:
                reason = str(other).splitlines()[-1].strip().rstrip(".")
                raise ValueError(
                    f"a warm start needs the network of the fit before ({reason}): set warm_start=False."
                ) from None


@contextmanager
def _threads_given_back() -> Iterator[None]:
    """Let a recipe choose the number of threads for as long as it is trained."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
