"""``permll train``: train a recipe or resume a run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permll.cli.common import Overrides, Root, RunInterruptedError, parse_overrides

if TYPE_CHECKING:
    from permll.training.callbacks import Callback

Option = typer.Option


def train(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|RUN", help="Recipe (see permll recipes list), .toml file, or run folder to resume."
        ),
    ] = "",
    out: Annotated[Path | None, Option(help="Run folder. Default: runs/RECIPE-METHOD-SEED.")] = None,
    data: Annotated[str | None, Option(help="Data to train on: a built-in data set or a path.")] = None,
    root: Root = None,
    label: Annotated[str | None, Option(help="Column or array of labels in your data.")] = None,
    method: Annotated[str | None, Option(help="Method (see permll methods).")] = None,
    noise: Annotated[str | None, Option(help="Noise to add (see permll noise list).")] = None,
    epochs: Annotated[int | None, Option(help="Number of epochs.")] = None,
    seed: Annotated[int | None, Option(help="Seed of initial weights, sample order and augmentation.")] = None,
    devices: Annotated[
        str | None, Option(help="Number of devices, one process each; auto for all of the machine.")
    ] = None,
    num_nodes: Annotated[int | None, Option(help="Number of machines.")] = None,
    set_: Overrides = None,
    track: Annotated[str | None, Option(help="Also log to tensorboard, wandb or mlflow.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print a line of JSON per epoch, then the result.")] = False,
) -> None:
    """Train a recipe. Ctrl-C saves a checkpoint; permll train RUN resumes it."""
    from permll.distributed.process_group import is_main_process
    from permll.report.run_summary import run_summary
    from permll.training.loggers import make_logger
    from permll.training.progress import JsonLog, ProgressBar, TextLog
    from permll.training.recipe_files import resolve_recipe
    from permll.training.run import Run
    from permll.training.run_folder import absolute_source, default_folder
    from permll.training.train import train

    options = {
        "data.source": None if data is None else absolute_source(data),
        "data.root": None if root is None else str(root),
        "data.options.label": label,
        "method.name": method,
        "data.noise": noise,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    overrides = {key: value for key, value in options.items() if value is not None} | parse_overrides(set_)
    hardware = {
        "training.devices": int(devices) if devices and devices.isdigit() else devices,
        "training.num_nodes": num_nodes,
    }
    hardware = {key: value for key, value in hardware.items() if value is not None}
    if source and Run(source).exists:
        if overrides or out is not None:
            raise ValueError(
                f"{source} is a run and resumes with its own recipe: remove all options but --devices and --num-nodes."
            )
        run = Run(source)
        recipe = resolve_recipe(run.recipe, hardware)
    else:
        if not source and data is None:
            raise ValueError("nothing to train: give a recipe (see permll recipes list) or --data.")
        recipe = resolve_recipe(source or None, overrides | hardware)
        run = Run(out or default_folder(source or None, recipe))
    display: Callback = JsonLog() if as_json else ProgressBar() if sys.stderr.isatty() else TextLog()
    loggers = [make_logger(track)] if track else []
    try:
        train(recipe=recipe, out=run.folder, callbacks=[display, *loggers])
    except KeyboardInterrupt as interrupt:
        raise RunInterruptedError(str(interrupt) or f"stopped; permll train {run.folder} resumes it.") from None
    if is_main_process():
        typer.echo(json.dumps(run.result) if as_json else run_summary(run))
