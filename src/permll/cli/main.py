"""``permll``: command line interface and its error handling."""

import os
import sys
import warnings

import typer

from permll._version import __version__
from permll.cli.apply import apply
from permll.cli.bench import bench
from permll.cli.clean import clean
from permll.cli.common import RunInterruptedError, to_cli_words
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
from permll.cli.train import train

INTERRUPTED = 130  # typer's exit code after Ctrl-C

app = typer.Typer(
    name="permll",
    help="Train on noisy labels, find wrong labels and correct them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, train, show, clean, review, apply, bench, methods, predict, export):
    app.command()(command)
app.add_typer(recipes, name="recipes")
app.add_typer(figures, name="figures")
app.add_typer(noise, name="noise")
app.add_typer(data, name="data")


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; errors that a user can fix are one sentence and exit code 1, without a traceback."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # for terminals whose encoding lacks Greek letters
    warnings.formatwarning = lambda message, *_, **__: f"permll: {_in_cli_words(message)}\n"  # without source code
    sys.path.append(os.getcwd())  # for user-defined methods, module:Class
    try:
        app()
    except RunInterruptedError as interrupt:
        typer.echo(f"permll: {interrupt}", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader closed the pipe: permll ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except ConnectionError as error:  # LostRankError; importing it would import torch
        typer.echo(f"permll: {error}", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # a regular exit would wait for the lost process, or abort
    except (ArithmeticError, ImportError, OSError, ValueError) as error:
        typer.echo(f"permll: {_in_cli_words(error)}", err=True)
        sys.exit(1)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            typer.echo("permll: stopped.", err=True)
        raise


def _in_cli_words(message: object) -> str:
    """Return a message with the options of the command that was called."""
    group = typer.main.get_group(app)
    called = group.commands.get(next((word for word in sys.argv[1:] if not word.startswith("-")), ""))
    params = [] if called is None else called.params
    return to_cli_words(str(message), {flag for param in params for flag in param.opts})
