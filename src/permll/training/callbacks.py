"""``Callback``: whoever wants to watch a training. Displays, trackers and tests are observers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from permll.training.run import Run
    from permll.training.trainer import Trainer


class Callback:
    """Sees everything and does nothing: override what matters.

    Class attributes:
        everywhere: of several ranks, whether all are watched, or the first alone. What asks a loop to predict or to
            scan has to be everywhere, since all ranks take part in it, and to write on the first alone.
    """

    all_ranks: ClassVar[bool] = False

    def on_message(self, said: str) -> None:
        """Follow the reading of data; ``said`` is what was understood and chosen, in a sentence."""

    def on_train_start(self, trainer: "Trainer", run: "Run") -> None:
        """Follow the preparations."""

    def on_step_end(self, trainer: "Trainer") -> None:
        """Follow a step."""

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:
        """Follow an epoch and its evaluation."""

    def on_train_end(self, run: "Run") -> None:
        """Follow the end, reached or not."""
