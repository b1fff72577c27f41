"""``permll train``: carry out a recipe, or go on with a run."""

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from permll.training.fitting import Observer
    from permll.training.loop import Loop
    from permll.training.run import Run

Option = typer.Option


class StoppedError(Exception):
    """Ctrl-C was pressed, and all is saved."""


def train(
    what: Annotated[
        str, typer.Argument(help="A recipe (permll recipes list), a .toml file, or a run to go on with.")
    ] = "",
    out: Annotated[Path | None, Option(help="The run's folder. Default: runs/RECIPE-METHOD-SEED.")] = None,
    data: Annotated[str | None, Option(help="What to train on: a built-in set or a path.")] = None,
    root: Annotated[str | None, Option(help="The folder of built-in data sets.")] = None,
    method: Annotated[str | None, Option(help="Another method: permll methods.")] = None,
    noise: Annotated[str | None, Option(help="Other noise: permll noise list.")] = None,
    epochs: Annotated[int | None, Option(help="How many epochs.", min=1)] = None,
    seed: Annotated[int | None, Option(help="Initial weights, orders and views.", min=0)] = None,
    set_: Annotated[list[str] | None, Option("--set", help="Any value of the recipe: --set optimizer.lr=0.1")] = None,
    track: Annotated[str | None, Option(help="Also log to tensorboard or wandb.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print a line of JSON for every epoch, and the result.")] = False,
) -> None:
    """Train as a recipe says. Ctrl-C saves; permll train RUN goes on."""
    from permll.training.fitting import fit
    from permll.training.recipe import load_recipe
    from permll.training.run import Run
    from permll.training.tracking import tracker

    known = Run(what) if what else None
    given = {
        "data.source": data,
        "data.root": root,
        "method.name": method,
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    overrides = {key: value for key, value in given.items() if value is not None} | dict(map(_setting, set_ or []))
    if known is not None and known.exists:
        if overrides or out is not None:
            raise ValueError(f"{what} is a run and goes on as it was begun: leave the other options out.")
        run = known
        recipe = run.recipe
    else:
        if not what and data is None:
            raise ValueError("say what to train: a recipe (permll recipes list), or --data.")
        recipe = load_recipe(what or "own/default", overrides)
        run = Run(out or _folder(what or Path(recipe.data.source).stem, recipe.method.name, recipe.training.seed))
    watch: Observer = JsonLines() if as_json else Display() if sys.stderr.isatty() else Lines()
    trackers = [tracker(track)] if track else []
    with Interrupts() as interrupts:
        fit(recipe, run.folder, observers=[watch, interrupts, *trackers])
    if interrupts.asked:
        raise StoppedError(f"stopped and saved; permll train {run.folder} goes on.")
    if as_json:
        typer.echo(json.dumps(run.result))
    else:
        _summary(run)


def _setting(text: str) -> tuple[str, Any]:
    """Read ``optimizer.lr=0.1``: a value as TOML writes it, or else plain text."""
    import tomllib

    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set takes key=value, like optimizer.lr=0.1; got {text!r}.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def _folder(name: str, method: str, seed: int) -> Path:
    return Path("runs") / f"{name.replace('/', '-').removesuffix('.toml')}-{method}-{seed}"


def _summary(run: "Run") -> None:
    from permll.report.runs import run_summary

    typer.echo(run_summary(run))


class Interrupts:
    """Ctrl-C ends the training after the step under way; a second one at once."""

    def __init__(self) -> None:
        self.asked = False
        self._loop: Loop | None = None

    def __enter__(self) -> "Interrupts":
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: object) -> None:
        if self.asked or self._loop is None:
            raise KeyboardInterrupt
        self.asked = True
        self._loop.stop()

    def on_start(self, loop: "Loop", run: "Run") -> None:  # noqa: ARG002
        """Know whom to ask."""
        self._loop = loop

    def on_step(self, loop: "Loop") -> None:
        """Nothing to do."""

    def on_epoch(self, loop: "Loop", metrics: Any) -> None:
        """Nothing to do."""

    def on_end(self, run: "Run") -> None:
        """Nothing to do."""


class JsonLines(Interrupts):
    """A line of JSON for every epoch."""

    def on_epoch(self, loop: "Loop", metrics: Any) -> None:  # noqa: ARG002
        """Print it."""
        typer.echo(json.dumps(metrics))


class Lines(Interrupts):
    """A plain line for every epoch, where there is no terminal."""

    def on_epoch(self, loop: "Loop", metrics: Any) -> None:
        """Print it."""
        typer.echo(f"epoch {loop.epoch} of {loop.epochs}: {shown(metrics)}", err=True)


class Display(Interrupts):
    """A bar with the last epoch's numbers."""

    def on_start(self, loop: "Loop", run: "Run") -> None:
        """Open it where the run stands."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs  {task.fields[numbers]}"),
            TimeRemainingColumn(),
        )
        self._steps = loop.steps_per_epoch
        self._bar = Progress(*columns, console=Console(stderr=True))
        numbers = shown(run.metrics[-1]) if run.metrics else ""
        self._task = self._bar.add_task(run.folder.name, total=loop.epochs, completed=loop.epoch, numbers=numbers)
        self._bar.start()

    def on_step(self, loop: "Loop") -> None:
        """Move it by a step."""
        self._bar.update(self._task, completed=loop.epoch + loop.fraction)

    def on_epoch(self, loop: "Loop", metrics: Any) -> None:
        """Show the epoch's numbers."""
        self._bar.update(self._task, completed=loop.epoch, numbers=shown(metrics))

    def on_end(self, run: "Run") -> None:  # noqa: ARG002
        """Close it."""
        self._bar.stop()


def shown(metrics: dict[str, Any]) -> str:
    """Return the few numbers that one watches."""
    words = {"loss": "loss {:.3f}"}
    shares = {"test_accuracy": "test", "noisy_validation_accuracy": "noisy validation", "turned": "turned"}
    parts = [form.format(metrics[key]) for key, form in words.items() if key in metrics]
    parts += [f"{word} {100 * metrics[key]:.1f} %" for key, word in shares.items() if metrics.get(key) is not None]
    return ", ".join(parts)
