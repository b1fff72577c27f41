"""``permll review``: people look at suspect labels and decide."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

LOCAL = ("127.0.0.1", "localhost", "::1")


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that permll clean made.")],
    host: Annotated[str, typer.Option(help="The address to listen on. Others than this machine's are a risk.")] = LOCAL[
        0
    ],
    port: Annotated[int, typer.Option(help="The port; 0 is any that is free.", min=0, max=65535)] = 0,
    reviewer: Annotated[str, typer.Option(help="Who reviews. By default the page asks.", show_default=False)] = "",
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
    log: Annotated[bool, typer.Option("--log", help="Print every decision ever made as CSV, and leave.")] = False,
) -> None:
    """Review the labels that were found to be wrong, in the browser."""
    if not run.is_dir():
        raise FileNotFoundError(f"there is no run {run}: permll clean DATA --out {run} makes one.")
    if log:
        _print_log(run)
        return
    from permll.review.server import require_review

    require_review()
    from permll.review.server import open_browser, serve

    def ready(url: str) -> None:
        typer.echo(f"Review {run} at {url}\nCtrl-C ends it; every decision is kept.")
        if open_:
            open_browser(url)

    if host not in LOCAL:
        typer.echo(
            f"permll: others can reach {host}: whoever has the address with its token sees the data and can decide, "
            "and nothing that is sent is encrypted.",
            err=True,
        )
    count = serve(run, host=host, port=port, reviewer=reviewer.strip(), ready=ready)
    words = f"{count:,} decision{'s' if count != 1 else ''}"
    typer.echo(f"{words} in {run}: permll apply {run} --out NEW writes the data set with them.")


def _print_log(run: Path) -> None:
    from permll.cleaning.decisions import Decisions, Entry
    from permll.training.run import Run

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(Entry._fields)
    writer.writerows(Decisions(Run.open(run).folder).log())
