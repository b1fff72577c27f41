"""``permll review``: review flagged labels in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from permll.cli.common import MovedData, move_data

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of permll clean.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's exposes the data.")
    ] = LOCAL_HOSTS[0],
    port: Annotated[int, typer.Option(help="Port; 0 chooses a free one.", min=0, max=65535)] = 0,
    reviewer: Annotated[
        str, typer.Option(help="Name of the reviewer. Default: entered on the page.", show_default=False)
    ] = "",
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
    data: MovedData = None,
    log: Annotated[bool, typer.Option("--log", help="Print all decisions as CSV and exit.")] = False,
) -> None:
    """Review the flagged labels in the browser."""
    if not run.is_dir():
        raise FileNotFoundError(f"run folder {run} does not exist: create it with permll clean DATA --out {run}.")
    move_data(run, data)
    if log:
        _print_log(run)
        return
    from permll.review.server import require_review

    require_review()
    from permll.review.server import open_browser, serve

    def ready(url: str) -> None:
        typer.echo(f"Review {run} at {url}\nCtrl-C stops the server; all decisions are saved.")
        if open_:
            open_browser(url)

    if host not in LOCAL_HOSTS:
        typer.echo(
            f"permll: {host} can be reached from other machines: anyone with the address and its token can see the "
            "data and decide, and the connection is not encrypted.",
            err=True,
        )
    serve(run, host=host, port=port, reviewer=reviewer.strip(), ready=ready)
    _print_progress(run)


def _print_progress(folder: Path) -> None:
    """Print the decisions, an estimate of what is left, and the commands that follow."""
    from permll.cleaning.next_commands import commands_after_review
    from permll.cleaning.review_decisions import Decisions
    from permll.cleaning.review_progress import review_progress
    from permll.data.readers.raw_data import pluralize
    from permll.findings import Findings
    from permll.training.run import Run

    run = Run.open(folder)
    decisions = Decisions(run.folder).current()
    typer.echo(f"{pluralize(len(decisions), 'decision')} in {folder}")
    progress = review_progress(Findings.load(run.folder), decisions)
    if progress is not None:
        typer.echo(str(progress))
    for text, command in commands_after_review(run):
        typer.echo(f"{text}  {command}")


def _print_log(run: Path) -> None:
    from permll.cleaning.review_decisions import Decisions
    from permll.training.run import Run
    from permll.utils.files import to_csv

    columns = ("number", "id", "verdict", "label", "reviewer", "at", "takes_back")
    rows = [[getattr(entry, name) for name in columns] for entry in Decisions(Run.open(run).folder).log()]
    typer.echo(to_csv([columns, *rows]), nl=False)
