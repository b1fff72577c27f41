"""Callbacks: order of the hooks, and objects that are refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from permll.training import Callback, Run, Trainer
from permll.training.callbacks import HOOKS
from permll.training.progress import JsonLog, ProgressBar, TextLog
from permll.training.train import train
from tests.helpers.toy_training import points, points_recipe


class Record(Callback):
    """Records the calls of its hooks."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_train_start(self, trainer: Trainer, run: Run) -> None:
        self.calls.append(("start", trainer.step, run.finished))

    def on_step_end(self, trainer: Trainer) -> None:
        self.calls.append(("step", trainer.step))

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:
        self.calls.append(("epoch", trainer.epoch, metrics["epoch"]))

    def on_train_end(self, run: Run) -> None:
        self.calls.append(("end", run.finished))


def test_hooks_run_in_order(tmp_path: Path) -> None:
    record = Record()
    recipe = points_recipe(training__epochs=2, training__batch_size=30)
    train(points(), recipe=recipe, out=tmp_path / "run", callbacks=[record])
    first, second = (
        [("step", 2 * epoch + 1), ("step", 2 * epoch + 2), ("epoch", epoch + 1, epoch + 1)] for epoch in (0, 1)
    )
    assert record.calls == [("start", 0, False), *first, *second, ("end", True)]


def test_hooks_are_those_of_the_documentation() -> None:
    assert HOOKS == ("on_message", "on_train_start", "on_step_end", "on_epoch_end", "on_train_end")


def test_callback_with_unknown_hook_is_refused(tmp_path: Path) -> None:
    class Misspelled(Callback):
        def on_epochs_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None: ...

    with pytest.raises(
        TypeError, match=r"Misspelled\.on_epochs_end is not a hook, did you mean on_epoch_end\? The hooks are"
    ):
        train(points(), recipe=points_recipe(), out=tmp_path / "run", callbacks=[Misspelled()])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("callback", [print, object(), Record], ids=["function", "object", "class"])
def test_object_without_hooks_is_refused(callback: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="is not a callback: pass an object of a subclass of"):
        train(points(), recipe=points_recipe(), out=tmp_path / "run", callbacks=[callback])


def test_progress_callbacks_print_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = points_recipe(training__epochs=2, method={"name": "ce"})
    run = train(points(), recipe=recipe, out=tmp_path / "run", callbacks=[TextLog(), JsonLog(), ProgressBar()])
    output = capsys.readouterr()
    assert [line[:14] for line in output.err.splitlines()][:1] == ["epoch 1 of 2: "]
    assert f"epoch 2 of 2: loss {run.metrics[1]['loss']:.3f}" in output.err
    assert len(output.out.splitlines()) == 2
