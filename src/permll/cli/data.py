"""``permll data``: which data sets there are, how to get them, and whether they are all there."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

data = typer.Typer(help="List, download and check data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A data set, as permll data list calls it.")]
Root = Annotated[
    Path | None,
    typer.Option(help="The folder of data sets. Default: $PERMLL_DATA, else ~/.cache/permll/data.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@data.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """Show every built-in data set, and how to get it."""
    from permll.data.registry import SETS

    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(info) for info in SETS.values()], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "samples", "classes", "input", "noise", "licence", "how to get it")
    for info in SETS.values():
        samples = "\n".join(f"{split} {count:,}" for split, count in info.samples.items())
        get = f"permll data get {info.name}" if info.access.kind == "download" else info.access.todo
        table.add_row(info.name, samples, str(info.num_classes), info.inputs, info.noise, info.licence, get)
    Console().print(table)


@data.command()
def get(
    name: Name,
    root: Root = None,
    mirror: Annotated[
        str | None, typer.Option(help="The address of a folder with the published files, tried first.")
    ] = None,
) -> None:
    """Download a data set; go on where an earlier download broke off."""
    from permll.data.download import get as get_set
    from permll.data.registry import find

    paths = get_set(name, root, mirror=mirror)
    if not paths:
        typer.echo(f"{find(name).title}: nothing to download, {find(name).access.todo}.")
    for path in paths:
        typer.echo(path)


@data.command()
def check(name: Name, root: Root = None, as_json: AsJson = False) -> None:
    """Look whether a data set is complete: counts, digests, and every image decoded. Exit code 1 if it is not."""
    from permll.data.checking import check as check_set

    findings = check_set(name, root)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table("split", "what", "", "found")
        for finding in findings:
            mark = "[green]good[/green]" if finding.good else "[red]wrong[/red]"
            table.add_row(finding.split, finding.what, mark, escape(finding.detail))
        Console().print(table)
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)
