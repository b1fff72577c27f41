"""``permll data``: which data sets there are, how to get them, and whether they are all there."""

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from permll.data.registry import DatasetInfo
    from permll.data.verify import CheckResult


data = typer.Typer(help="List, download and check data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A data set, as permll data list calls it.")]
Root = Annotated[
    Path | None,
    typer.Option(help="The folder of data sets. Default: $PERMLL_DATA, else ~/.cache/permll/data.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
_INDENT = "  "


@data.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """Show every built-in data set, and how to get it."""
    from permll.data.registry import DATASETS

    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(info) for info in DATASETS.values()], indent=2))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    described = [_described(info, console.width) for info in DATASETS.values()]
    console.print(Text("\n\n").join(described), soft_wrap=True)  # lines are wrapped already, where they may be


@data.command()
def get(
    name: Name,
    root: Root = None,
    mirror: Annotated[
        str | None, typer.Option(help="A folder with the published files, here or by its address, tried first.")
    ] = None,
) -> None:
    """Download a data set; go on where an earlier download broke off."""
    from permll.data.download import can_download, download_dataset
    from permll.data.registry import data_root, find_dataset
    from permll.data.remote_files import mirror_url
    from permll.data.verify import find_complete

    if not can_download(name):
        typer.echo(f"{find_dataset(name).title}: nothing to download, {find_dataset(name).access.instructions}.")
        return
    url = None if mirror is None else mirror_url(mirror)
    there = find_complete(name, root)
    if there:
        typer.echo(f"already there: {' and '.join(map(str, there))}")
    for path in [] if there else download_dataset(name, data_root(root), url):
        typer.echo(path)


@data.command()
def check(name: Name, root: Root = None, as_json: AsJson = False) -> None:
    """Look whether a data set is complete: counts, digests, and every image decoded. Exit code 1 if it is not."""
    from permll.data.verify import verify_dataset

    findings = verify_dataset(name, root)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        _print_findings(findings)
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)


def _described(info: "DatasetInfo", width: int) -> "Text":
    """Return a set's lines: its name, what it is, and how to get it; a command or an address is never broken."""
    from rich.text import Text

    samples = ", ".join(f"{count:,} {split}" for split, count in {**info.samples, **info.extra_splits}.items())
    what = f"{info.inputs}: {samples}; {info.num_classes} classes; labels {info.noise}; license: {info.license}"
    wrapped, whole = [what], f"permll data get {info.name}"
    if info.access.kind != "download":
        wrapped, whole = [what, f"{info.access.instructions}:"], info.access.url
    wrap = textwrap.TextWrapper(
        width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
    lines = [f"  {info.title}", *map(wrap.fill, wrapped), _INDENT]
    return Text.assemble((info.name, "bold"), "\n".join(lines), (whole, "cyan"))


def _print_findings(findings: "Sequence[CheckResult]") -> None:
    """Print one line per finding, as long as it is: an address that is cut cannot be followed."""
    from rich.console import Console
    from rich.text import Text

    rows = [
        (finding.split, finding.check, "good" if finding.passed else "wrong", finding.detail) for finding in findings
    ]
    head = ("split", "what", "result", "found")
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(3)]
    styles = {"good": "green", "wrong": "red", "result": "bold"}
    lines = []
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        style = "bold" if row is head else ""
        middle = (cells[2], styles[row[2]])
        lines.append(Text.assemble((f"{cells[0]}  {cells[1]}  ", style), middle, (f"  {row[3]}", style)))
    Console().print(Text("\n").join(lines), soft_wrap=True)
