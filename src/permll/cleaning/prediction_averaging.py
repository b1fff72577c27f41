"""What a network said of every row while it was trained: the mean of its predictions, up to the best epoch.

A mean over epochs is steadier than the last word, and it is taken before wrong labels are learned by heart: the best
epoch is the one whose predictions make the labels of held-out rows likeliest, seen through a channel of wrong labels.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from permll.functional.noise_rate import WarmFit, warm_fit
from permll.training.callbacks import Callback
from permll.training.predictor import choose_weights
from permll.training.run import Run
from permll.utils.files import atomic_write

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

MEMORY = "memory.npz"
_TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True, eq=False)
class Remembered:
    """The mean predictions of a run.

    Args:
        ids: N names, those of training rows first, then those that were held out.
        log_p: (N, c) float32, logarithms of mean probabilities.
        trained: how many of the rows were trained on.
        epoch: up to which the mean was taken.
    """

    ids: tuple[str, ...]
    log_p: Tensor
    predictor: int
    epoch: int


class Memory(Callback):
    """Remembers in ``memory.npz`` of a run's folder; whatever happens to the process, each epoch counts once.

    The weights of the best epoch become those of the run, where rows are held out that can tell which it is.
    """

    everywhere = True  # all ranks predict

    def on_start(self, trainer: "Trainer", run: Run) -> None:
        """Take up what an earlier process remembered; what it could not write down any more is looked at again."""
        self._run, self._path = run, run.folder / MEMORY
        self._ids = (*trainer.data.ids, *(() if trainer.validation is None else trainer.validation.ids))
        self._total = torch.zeros(len(self._ids), trainer.data.num_classes)
        self._best = self._total.clone()
        self._epochs, self._best_epoch, self._likelihood = 0, 0, -math.inf
        self._explained: WarmFit | None = None
        self._load()
        if self._epochs < trainer.epoch:
            self._look(trainer)

    def on_epoch(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Add an epoch."""
        self._look(trainer)

    def _look(self, trainer: "Trainer") -> None:
        seen = [trainer.predict(trainer.data).cpu()]
        if trainer.validation is not None:
            seen.append(trainer.predict(trainer.validation).cpu())
        self._total += torch.cat(seen)
        self._epochs += 1
        likelihood = 0.0
        if trainer.validation is not None:
            self._explained = warm_fit(seen[1].clamp_min(_TINY).log(), trainer.validation.labels, self._explained)
            likelihood = self._explained.likelihood
        if likelihood >= self._likelihood:
            self._likelihood, self._best_epoch = likelihood, trainer.epoch
            self._best = self._total / self._epochs
            if (
                trainer.validation is not None and trainer.group.is_main
            ):  # before the numbers: what is seen again is chosen again
                networks = {name: network.state_dict() for name, network in trainer.method.networks.items()}
                choose_weights(self._run, networks, trainer.epoch)
        if trainer.group.is_main:
            self._save(len(trainer.data))

    def _save(self, predictor: int) -> None:
        with atomic_write(self._path) as file:
            np.savez(
                file,
                ids=np.array(self._ids),
                total=self._total.numpy(),
                best=self._best.numpy(),
                numbers=np.array([self._epochs, self._best_epoch, predictor]),
                likelihood=np.array(self._likelihood),
                **({} if self._explained is None else _arrays(self._explained)),
            )

    def _load(self) -> None:
        if not self._path.is_file():
            return
        with np.load(self._path, allow_pickle=False) as saved:
            if tuple(saved["ids"].tolist()) != self._ids:
                return  # other rows: what was remembered of them is not taken over
            self._total, self._best = torch.from_numpy(saved["total"]), torch.from_numpy(saved["best"])
            self._epochs, self._best_epoch, _ = saved["numbers"].tolist()
            self._likelihood = float(saved["likelihood"])
            if "transition" in saved:
                likelihood, temperature_index = saved["explained"].tolist()
                self._explained = WarmFit(likelihood, torch.from_numpy(saved["transition"]), int(temperature_index))


def _arrays(warm: WarmFit) -> dict[str, Any]:
    return {
        "explained": np.array([warm.likelihood, warm.temperature_index]),
        "transition": warm.transition.numpy(),
    }


def remembered(folder: Path | str) -> Remembered:
    """Return what the memory of a run holds."""
    path = Path(folder) / MEMORY
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no memory of predictions: permll clean DATA --out {folder} makes one.")
    with np.load(path, allow_pickle=False) as saved:
        _, epoch, predictor = saved["numbers"].tolist()
        log_p = torch.from_numpy(saved["best"]).clamp_min(_TINY).log()
        return Remembered(tuple(saved["ids"].tolist()), log_p, predictor, epoch)
