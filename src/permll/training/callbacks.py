"""``Callback``: hooks into a training, for progress bars, loggers and user code."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from permll.training.run import Run
from permll.training.trainer import Trainer
from permll.utils.messages import did_you_mean


class Callback:
    """Base callback; every hook is a no-op.

    Class attributes:
        all_ranks: with several processes, whether the hooks run on all of them or only on rank 0. A callback that calls
            ``trainer.predict`` or ``trainer.predict_logits`` needs all, since these are collective.
    """

    all_ranks: ClassVar[bool] = False

    def on_message(self, text: str) -> None:
        """Receive a sentence about the data: how they were read, and which encoder and network were chosen."""

    def on_train_start(self, trainer: Trainer, run: Run) -> None:
        """Run before the first step, after a checkpoint was loaded."""

    def on_step_end(self, trainer: Trainer) -> None:
        """Run after every optimizer step."""

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:
        """Run after every epoch, its evaluation and its checkpoint."""

    def on_train_end(self, run: Run) -> None:
        """Run when training ends, finished or not."""


HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))


def check_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """Return callbacks as a list; an object without the hooks, or with an unknown one, raises ``TypeError``.

    Examples:
        >>> class Print(Callback):
        ...     def on_epochs_end(self, trainer, metrics): ...
        >>> check_callbacks([Print()])
        Traceback (most recent call last):
        TypeError: Print.on_epochs_end is not a hook, did you mean on_epoch_end? The hooks are on_message, ...
    """
    checked = list(callbacks)
    for callback in checked:
        if isinstance(callback, type) or not all(callable(getattr(callback, hook, None)) for hook in HOOKS):
            raise TypeError(
                f"{callback!r} is not a callback: pass an object of a subclass of permll.training.Callback."
            )
        for name in dir(callback):
            if name.startswith("on_") and name not in HOOKS and callable(getattr(callback, name)):
                raise TypeError(
                    f"{type(callback).__name__}.{name} is not a hook{did_you_mean(name, HOOKS) or '.'} The hooks are "
                    f"{', '.join(HOOKS)}."
                )
    return checked
