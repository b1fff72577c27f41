"""``permll``: the commands, and how their errors look."""

import os
import sys
import warnings

import typer

from permll._version import __version__
from permll.cli.apply import apply
from permll.cli.bench import bench
from permll.cli.clean import clean
from permll.cli.data import data
from permll.cli.demo import demo
from permll.cli.export import export
from permll.cli.figures import figures
from permll.cli.methods import methods
from permll.cli.noise import noise
from permll.cli.predict import predict
from permll.cli.recipes import recipes
from permll.cli.review import review
from permll.cli.show import show
from permll.cli.train import StoppedError, train

INTERRUPTED = 130  # what typer leaves with after Ctrl-C, without a word

app = typer.Typer(
    name="permll",
    help="Train on wrong labels, find them, correct them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(train)
app.command()(show)
app.command()(clean)
app.command()(review)
app.command()(apply)
app.command()(bench)
app.command()(methods)
app.command()(predict)
app.command()(export)
app.add_typer(recipes, name="recipes")
app.add_typer(figures, name="figures")
app.add_typer(noise, name="noise")
app.add_typer(data, name="data")


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line: what a user can mend is one sentence and exit code 1, not a traceback."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Greek letters shows question marks
    warnings.formatwarning = lambda message, *_, **__: f"permll: {message}\n"  # a sentence, not a line of our code
    sys.path.append(os.getcwd())  # for methods of one's own, named module:Class
    try:
        app()
    except StoppedError as stopped:
        typer.echo(f"permll: {stopped}", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # whoever read on has had enough: permll ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except ConnectionError as problem:  # LostRankError, whose module would import torch
        typer.echo(f"permll: {problem}", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # taking leave of a rank that is gone would wait for it, or abort
    except (ArithmeticError, ImportError, OSError, ValueError) as problem:
        typer.echo(f"permll: {problem}", err=True)
        sys.exit(1)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            typer.echo("permll: stopped.", err=True)
        raise
