"""The one training loop. It asks the method for sweeps and knows none by name."""

import math
from collections.abc import Callable, Iterator
from typing import NoReturn

import torch
from torch import Tensor

from permll.utils.messages import listed
from permll.data.streams import Batch
from permll.layer.validation import BadLogitsError
from permll.methods._base import Sweep
from permll.training.standing import Standing
from permll.training.sweeps import open_streams


class NotFiniteError(ArithmeticError):
    """The loss became NaN or infinite."""


class Loop(Standing):
    """A training that can be left and taken up again between any two steps; for its arguments see ``Standing``."""

    def run(self, after_step: Callable[["Loop"], None], after_epoch: Callable[["Loop"], None]) -> bool:
        """Train from where it stands to the end; return whether it got there, or was asked to ``stop``."""
        for _ in self.each_epoch(after_step):
            after_epoch(self)
        return self.epoch == self.epochs

    def each_epoch(self, after_step: Callable[["Loop"], None] | None = None) -> Iterator["Loop"]:
        """Train, and yield after every epoch that was finished."""
        while self.epoch < self.epochs:
            self.stages.enter(self.epoch, self.scan)
            for sweep, batches in self._batches():
                self._train_on(sweep, batches)
                if after_step is not None:
                    after_step(self)
                if self._stop if self.ranks.alone else self._stopped:
                    return
            self.method.on_epoch_end(self.epoch, self.scan)
            if self.method.keeps_best and self.validation is not None:
                self.stages.keep_if_best(self.method.score(self.predict(self.validation), self.validation.labels))
            self.epoch, self.number = self.epoch + 1, 0
            self.epoch_loss, self.loss, self._losses = self.mean_loss, 0.0, 0
            yield self

    def stop(self) -> None:
        """Leave after the step under way."""
        self._stop = True

    def _batches(self) -> Iterator[tuple[Sweep, dict[str, Batch]]]:
        """Yield the epoch's batches, sweep by sweep, from where the loop stands."""
        while True:
            if self._sweep is None:
                self._sweep = self.method.sweep(self.epoch, self.number, self.scan)
                if self._sweep is None:
                    return
                self._streams = open_streams(self._sweep, self)
            sweep = self._sweep
            self.method.train()  # once a sweep: on a small network, once a step would cost a tenth of it
            pace, *others = self._streams
            if self._streams[pace].epoch == self.epoch:  # not where the last step before a checkpoint ended the sweep
                cycles = [self._streams[name].cycle() for name in others]
                for first in self._streams[pace]:
                    yield (
                        sweep,
                        {pace: first, **{name: next(cycle) for name, cycle in zip(others, cycles, strict=True)}},
                    )
            self._sweep, self._streams, self.number = None, {}, self.number + 1

    def _train_on(self, sweep: Sweep, batches: dict[str, Batch]) -> None:
        moving = tuple(self.optimizers) if sweep.networks is None else sweep.networks
        self.stages.set_rates(moving, self.epoch + self.fraction)
        for name in moving:
            self.optimizers[name].zero_grad()
        if not self.ranks.alone:
            self.team.before(moving, batches)
        on_device = {name: batch.to(self.fabric.device) for name, batch in batches.items()}
        try:
            losses: Tensor = getattr(self.method, sweep.loss)(**on_device)
        except BadLogitsError as problem:
            self._refuse(problem.rows, "logits", batches)
        loss = losses.mean() if self.ranks.alone else self.team.mean(losses, batches)
        value = loss.item()
        if not math.isfinite(value):
            bad = (~losses.detach().isfinite()).nonzero().flatten() if losses.ndim else torch.empty(0)
            self._refuse(bad, "loss", batches)
        if moving:
            self.fabric.backward(loss)
        self.was_due = self.due()
        if not self.ranks.alone:
            value, self._stopped, self.was_due = self.team.after(moving, value, self._stop, self.was_due)
        for name in moving:
            self.optimizers[name].step()
        self.method.on_step_end()
        self.step, self.loss, self._losses = self.step + 1, self.loss + value, self._losses + 1

    def _refuse(self, rows: Tensor, what: str, batches: dict[str, Batch]) -> NoReturn:
        fitting = [batch for batch in batches.values() if len(rows) == 0 or rows.max() < len(batch.index)]
        names = [self.data.ids[int(fitting[0].index[int(row)])] for row in rows] if fitting else []
        which = f", for {listed(names, 'sample')}" if names else ""
        raise NotFiniteError(
            f"the {what} became NaN or infinite in epoch {self.epoch + 1}, step {self.step + 1}{which}: lower the "
            "learning rate, or look at these samples; the checkpoint before is still good."
        )
