"""Mean predictions over the epochs of a training, up to the best epoch.

The mean over epochs has less variance than the last epoch's prediction, and stopping at the best epoch excludes the
memorization of wrong labels. The best epoch maximizes the likelihood of held-out labels under a noise model.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from permll.functional.noise_rate import WarmFit, warm_fit
from permll.training.callbacks import Callback
from permll.utils.files import atomic_write

if TYPE_CHECKING:
    from permll.training.run import Run
    from permll.training.trainer import Trainer

PREDICTIONS_FILE = "predictions.npz"
_TINY = torch.finfo(torch.float32).tiny
Weights = Mapping[str, Mapping[str, Tensor]]


class PredictionAverager:
    """Averages the predictions of a trainer, one ``update`` for each epoch.

    Args:
        trainer: its N training and held-out rows are predicted.

    Attributes:
        ids: N sample ids, those of the training rows first.
        labels: (N,) given labels.
        num_train: number of training rows.
        epochs: number of updates.
        best_epoch: last epoch of the mean.
        best_weights: of the networks in this epoch; None for those of the last epoch.
    """

    def __init__(self, trainer: "Trainer") -> None:
        parts = [trainer.data] if trainer.validation is None else [trainer.data, trainer.validation]
        self.ids = tuple(name for part in parts for name in part.ids)
        self.labels = torch.cat([part.labels for part in parts])
        self.num_train = len(trainer.data)
        self.epochs = self.best_epoch = 0
        self.best_weights: Weights | None = None
        self._sum = torch.zeros(len(self.ids), trainer.data.num_classes)
        self._best_mean = self._sum.clone()
        self._likelihood = -math.inf
        self._fit: WarmFit | None = None

    def update(self, trainer: "Trainer") -> bool:
        """Add the predictions of the present epoch; return whether it is the best so far."""
        probs = [trainer.predict(trainer.data).cpu()]
        likelihood = 0.0
        if trainer.validation is not None:
            probs.append(trainer.predict(trainer.validation).cpu())
            self._fit = warm_fit(probs[1].clamp_min(_TINY).log(), trainer.validation.labels, self._fit)
            likelihood = self._fit.likelihood
        self._sum += torch.cat(probs)
        self.epochs += 1
        if likelihood < self._likelihood:
            return False
        self._likelihood, self.best_epoch = likelihood, trainer.epoch
        self._best_mean = self._sum / self.epochs
        if trainer.validation is not None:
            self.best_weights = _copy_weights(trainer)
        return True

    @property
    def log_p(self) -> Tensor:
        """(N, c) float32, logarithms of the mean probabilities up to the best epoch."""
        return self._best_mean.clamp_min(_TINY).log()

    @property
    def held_out_rows(self) -> slice:
        """The held-out rows; without any, the training rows."""
        return slice(self.num_train if self.num_train < len(self.labels) else 0, None)

    @contextmanager
    def use_best_weights(self, trainer: "Trainer") -> Iterator[None]:
        """Give the trainer's networks the weights of the best epoch within the block."""
        if self.best_weights is None:
            yield
            return
        last = _copy_weights(trainer)
        _load_weights(trainer, self.best_weights)
        try:
            yield
        finally:
            _load_weights(trainer, last)

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as arrays, without weights."""
        arrays = {
            "ids": np.array(self.ids),
            "sum": self._sum.numpy(),
            "best_mean": self._best_mean.numpy(),
            "epochs": np.array([self.epochs, self.best_epoch]),
            "likelihood": np.array(self._likelihood),
        }
        if self._fit is not None:
            arrays["fit"] = np.array([self._fit.likelihood, self._fit.temperature_index])
            arrays["transition"] = self._fit.transition.numpy()
        return arrays

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state of ``to_arrays``; that of other rows is ignored."""
        if tuple(arrays["ids"].tolist()) != self.ids:
            return
        self._sum, self._best_mean = torch.from_numpy(arrays["sum"]), torch.from_numpy(arrays["best_mean"])
        self.epochs, self.best_epoch = arrays["epochs"].tolist()
        self._likelihood = float(arrays["likelihood"])
        if "transition" in arrays:
            likelihood, temperature_index = arrays["fit"].tolist()
            self._fit = WarmFit(likelihood, torch.from_numpy(arrays["transition"]), int(temperature_index))


class AveragePredictions(Callback):
    """Averages predictions in ``predictions.npz`` of the run's folder; each epoch counts once, also after a kill.

    The weights of the best epoch become those of the run, if it has held-out rows.
    """

    all_ranks = True  # all processes predict

    averager: PredictionAverager

    def on_train_start(self, trainer: "Trainer", run: "Run") -> None:
        """Load the state of an interrupted training; add the epoch that it could not write any more."""
        self._run, self.averager = run, PredictionAverager(trainer)
        path = run.folder / PREDICTIONS_FILE
        if path.is_file():
            with np.load(path, allow_pickle=False) as arrays:
                self.averager.load_arrays(arrays)
            if trainer.validation is not None and (best := run.checkpoints.best()) is not None:
                self.averager.best_weights = best["networks"]
        if self.averager.epochs < trainer.epoch:
            self.on_epoch_end(trainer, {})

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Add an epoch."""
        is_best = self.averager.update(trainer)
        if not trainer.group.is_main:
            return
        if is_best and self.averager.best_weights is not None:  # before the file below: a repeated epoch chooses again
            self._run.checkpoints.save_best(trainer.epoch, self.averager.best_weights)
        with atomic_write(self._run.folder / PREDICTIONS_FILE) as file:
            np.savez(file, **self.averager.to_arrays())


def _copy_weights(trainer: "Trainer") -> Weights:
    return {name: copy.deepcopy(dict(net.state_dict())) for name, net in trainer.method.networks.items()}


def _load_weights(trainer: "Trainer", weights: Weights) -> None:
    for name, network in trainer.method.networks.items():
        network.load_state_dict(dict(weights[name]))
