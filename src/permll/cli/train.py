"""``permll train``: carry out a recipe, or go on with a run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from permll.training.callbacks import Callback
    from permll.training.run import Run

Option = typer.Option


class StoppedError(Exception):
    """Ctrl-C was pressed."""


def train(
    what: Annotated[
        str, typer.Argument(help="A recipe (permll recipes list), a .toml file, or a run to go on with.")
    ] = "",
    out: Annotated[Path | None, Option(help="The run's folder. Default: runs/RECIPE-METHOD-SEED.")] = None,
    data: Annotated[str | None, Option(help="What to train on: a built-in set or a path.")] = None,
    root: Annotated[str | None, Option(help="The folder of built-in data sets.")] = None,
    label: Annotated[str | None, Option(help="The column or array of labels in your own data.")] = None,
    method: Annotated[str | None, Option(help="Another method: permll methods.")] = None,
    noise: Annotated[str | None, Option(help="Other noise: permll noise list.")] = None,
    epochs: Annotated[int | None, Option(help="How many epochs.")] = None,
    seed: Annotated[int | None, Option(help="Initial weights, orders and views.")] = None,
    devices: Annotated[str | None, Option(help="How many processes, each on its own device; auto for all.")] = None,
    num_nodes: Annotated[int | None, Option(help="On how many machines.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="Any value of the recipe: --set optimizer.lr=0.1")] = None,
    track: Annotated[str | None, Option(help="Also log to tensorboard or wandb.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print a line of JSON for every epoch, and the result.")] = False,
) -> None:
    """Train as a recipe says. Ctrl-C saves; permll train RUN goes on."""
    from permll.distributed.process_group import is_main_process
    from permll.training.loggers import make_logger
    from permll.training.progress import JsonLog, ProgressBar, TextLog
    from permll.training.recipe_files import resolve_recipe
    from permll.training.run import Run, default_folder
    from permll.training.train import train

    known = Run(what) if what else None
    given = {
        "data.source": data,
        "data.root": root,
        "data.options.label": label,
        "method.name": method,
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    overrides = {key: value for key, value in given.items() if value is not None} | dict(map(setting, set_ or []))
    where = {"devices": int(devices) if devices and devices.isdigit() else devices, "num_nodes": num_nodes}
    where = {f"training.{name}": value for name, value in where.items() if value is not None}
    if known is not None and known.exists:
        if overrides or out is not None:
            raise ValueError(
                f"{what} is a run and goes on as it was begun: leave the other options out, all but --devices and "
                "--num-nodes."
            )
        run = known
        recipe = resolve_recipe(run.recipe, where)
    else:
        if not what and data is None:
            raise ValueError("say what to train: a recipe (permll recipes list), or --data.")
        recipe = resolve_recipe(what or None, overrides | where)
        run = Run(out or default_folder(what or None, recipe))
    watch: Callback = JsonLog() if as_json else ProgressBar() if sys.stderr.isatty() else TextLog()
    trackers = [make_logger(track)] if track else []
    try:
        train(recipe=recipe, out=run.folder, callbacks=[watch, *trackers])
    except KeyboardInterrupt as stopped:
        raise StoppedError(str(stopped) or f"stopped; permll train {run.folder} goes on.") from None
    if not is_main_process():
        return
    if as_json:
        typer.echo(json.dumps(run.result))
    else:
        _summary(run)


def setting(text: str) -> tuple[str, Any]:
    """Read ``optimizer.lr=0.1``: a value as TOML writes it, or else plain text."""
    import tomllib

    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set takes key=value, like optimizer.lr=0.1; got {text!r}.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def _summary(run: "Run") -> None:
    from permll.report.run_summary import run_summary

    typer.echo(run_summary(run))
