"""``permll data``: list, download and verify built-in data sets."""

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from permll.cli.common import AsJson, Root

if TYPE_CHECKING:
    from rich.text import Text

    from permll.data.registry import DatasetInfo
    from permll.data.verify_dataset import CheckResult

data = typer.Typer(help="List, download and verify data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Data set, as in permll data list.")]
_INDENT = "  "


@data.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List the built-in data sets and how to obtain them."""
    from permll.data.registry import DATASETS

    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(info) for info in DATASETS.values()], indent=2))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    descriptions = [_describe(info, console.width) for info in DATASETS.values()]
    console.print(Text("\n\n").join(descriptions), soft_wrap=True)  # already wrapped


@data.command()
def get(
    name: Name,
    root: Root = None,
    mirror: Annotated[str | None, typer.Option(help="Folder or URL with the published files, tried first.")] = None,
) -> None:
    """Download a data set; an interrupted download resumes."""
    from permll.data.download import can_download, download_dataset
    from permll.data.registry import data_root, find_dataset
    from permll.data.remote_files import mirror_url
    from permll.data.verify_dataset import find_complete

    if not can_download(name):
        typer.echo(f"{find_dataset(name).title}: nothing to download, {find_dataset(name).access.instructions}.")
        return
    url = None if mirror is None else mirror_url(mirror)
    existing = find_complete(name, root)
    if existing:
        typer.echo(f"already there: {' and '.join(map(str, existing))}")
    for path in [] if existing else download_dataset(name, data_root(root), url):
        typer.echo(path)


@data.command()
def check(name: Name, root: Root = None, as_json: AsJson = False) -> None:
    """Verify that a data set is complete: counts, checksums, and every image decoded. Exit code 1 if it is not."""
    from permll.data.verify_dataset import verify_dataset

    findings = verify_dataset(name, root)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        _print_findings(findings)
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)


def _describe(info: "DatasetInfo", width: int) -> "Text":
    """Return name, contents and source of a data set; commands and URLs are not wrapped, so they can be copied."""
    from rich.text import Text

    samples = ", ".join(f"{count:,} {split}" for split, count in {**info.samples, **info.extra_splits}.items())
    contents = f"{info.inputs}: {samples}; {info.num_classes} classes; labels {info.noise}; license: {info.license}"
    paragraphs, source = [contents], f"permll data get {info.name}"
    if info.access.kind != "download":
        paragraphs, source = [contents, f"{info.access.instructions}:"], info.access.url
    wrapper = textwrap.TextWrapper(
        width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
    lines = [f"  {info.title}", *map(wrapper.fill, paragraphs), _INDENT]
    return Text.assemble((info.name, "bold"), "\n".join(lines), (source, "cyan"))


def _print_findings(findings: "Sequence[CheckResult]") -> None:
    """Print one line per finding, without truncation: a truncated URL cannot be followed."""
    from rich.console import Console
    from rich.text import Text

    split_width = max(map(len, ["split", *(finding.split for finding in findings)]))
    check_width = max(map(len, ["check", *(finding.check for finding in findings)]))
    console = Console()
    console.print(f"[b]{'split':<{split_width}}  {'check':<{check_width}}  result  detail[/b]", soft_wrap=True)
    for finding in findings:
        head = f"{finding.split:<{split_width}}  {finding.check:<{check_width}}  "
        result = ("passed", "green") if finding.passed else ("failed", "red")
        console.print(Text.assemble(head, result, f"  {finding.detail}"), soft_wrap=True)
