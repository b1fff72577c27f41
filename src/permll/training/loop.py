"""The one training loop. It asks the method for sweeps and knows none by name."""

import math
from collections.abc import Callable, Iterator

from torch import Tensor

from permll.data.streams import Batch
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
            for sweep, batches in self._batches():
                self._train_on(sweep, batches)
                if after_step is not None:
                    after_step(self)
                if self._stop:
                    return
            self.method.on_epoch_end(self.epoch, self.scan)
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
        moving = sweep.networks or tuple(self.optimizers)
        self._set_rates(moving)
        for name in moving:
            self.optimizers[name].zero_grad()
        on_device = {name: batch.to(self.fabric.device) for name, batch in batches.items()}
        losses: Tensor = getattr(self.method, sweep.loss)(**on_device)
        loss = losses.mean()
        value = loss.item()
        if not math.isfinite(value):
            self._refuse(losses, next(iter(batches.values())))
        self.fabric.backward(loss)
        for name in moving:
            self.optimizers[name].step()
        self.method.on_step_end()
        self.step, self.loss, self._losses = self.step + 1, self.loss + value, self._losses + 1

    def _set_rates(self, moving: tuple[str, ...]) -> None:
        factor = self.schedule(self.epoch + self.fraction)
        for name in moving:
            for group, rate in zip(self.optimizers[name].param_groups, self._rates[name], strict=True):
                group["lr"] = factor * rate

    def _refuse(self, losses: Tensor, batch: Batch) -> None:
        bad = (~losses.detach().isfinite()).nonzero().flatten().tolist() if losses.ndim else []
        names = [self.data.ids[int(batch.index[row])] for row in bad[:10]]
        raise NotFiniteError(
            f"the loss is NaN or infinite in epoch {self.epoch + 1}, step {self.step + 1}, for {len(bad)} samples "
            f"({', '.join(names)}): lower the learning rate, or look at these samples."
        )
