"""``permll apply``: write the data set with its labels corrected."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from permll.cleaning.apply.api import ApplyResult, Plan

Option = typer.Option
FIRST = 10  # rows that a dry run shows


def apply(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that permll clean made.")],
    out: Annotated[Path | None, Option(help="The new file or folder; it must not exist yet.")] = None,
    auto: Annotated[bool, Option("--auto", help="Also take proposals that nobody looked at.")] = False,
    min_probability: Annotated[
        float | None, Option(help="How probable those must be. Default: 0.95.", show_default=False)
    ] = None,
    as_: Annotated[
        str, Option("--as", help="A folder of images as a tree of link, copy or hardlink, or as a csv of paths.")
    ] = "link",
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would change, and write nothing.")] = False,
    export: Annotated[
        str | None, Option(help="Instead, write the labels to look at, for label-studio or as csv.")
    ] = None,
    limit: Annotated[
        int | None, Option(help="How many of them. Default: all that are flagged.", min=1, show_default=False)
    ] = None,
) -> None:
    """Write the corrected data set, in the form it came in. The data themselves are never changed."""
    _refuse_alone(min_probability=min_probability if not auto else None, limit=limit if export is None else None)
    if out is None and not dry_run:
        raise ValueError("say where the new data set goes, with --out, or look first, with --dry-run.")
    if export is not None:
        if auto or dry_run or as_ != "link" or out is None:
            raise ValueError("--export goes with --out and --limit alone: leave the other options out.")
        _export(run, out, export, limit)
        return
    from permll.cleaning.apply.api import check_output, execute, plan
    from permll.cleaning.apply.corrections import DEFAULT_MIN_PROBABILITY

    way: Any = as_
    planned = plan(
        run, auto=auto, min_probability=DEFAULT_MIN_PROBABILITY if min_probability is None else min_probability
    )
    if out is not None:
        check_output(planned, out, way)
    if dry_run or out is None:
        typer.echo("\n".join(preview(planned)))
    else:
        typer.echo("\n".join(summary(planned, execute(planned, out, way))))


def _refuse_alone(*, min_probability: float | None, limit: int | None) -> None:
    """Refuse options that were given without the one they belong to."""
    if min_probability is not None:
        raise ValueError("--min-probability says what --auto takes: add --auto.")
    if limit is not None:
        raise ValueError("--limit says how many labels --export writes: add --export.")


def preview(planned: "Plan") -> Iterator[str]:
    """Yield what would change: how many labels, which become which, and the first ten."""
    yield f"{_counted(planned)}; nothing is written."
    yield from _table(planned)
    changing = [one for one in planned.corrections if one.is_change]
    if changing:
        yield f"The first {min(FIRST, len(changing))}:"
    width = max((len(one.id) for one in changing[:FIRST]), default=0)
    for one in changing[:FIRST]:
        probability = "" if one.probability is None else f", probability {one.probability:.3g}"
        who = f" by {one.reviewer}" if one.reviewer else ""
        yield f"  {one.id:<{width}}  {one.before} -> {one.after}  ({one.source}{who}{probability})"


def summary(planned: "Plan", applied: "ApplyResult") -> Iterator[str]:
    """Yield what was done, and what to do next."""
    yield f"{_counted(planned)}."
    yield from _table(planned)
    yield from applied.notes
    yield f"Written: {applied.path}, and what changed: {applied.changes_path}"
    if applied.commands:
        yield "Train on it:"
        yield from (f"  {command}" for command in applied.commands)
    else:
        yield "It holds labels by id: give them to permll.data.load(..., labels=...) beside your samples."


def _counted(planned: "Plan") -> str:
    """Return how many of how many labels change, and how many labels were decided by whom."""
    from permll.cleaning.apply.corrections import count_sources

    sources = ", ".join(f"{count:,} {source}" for source, count in count_sources(planned.corrections).items())
    return f"{planned.num_changed:,} of {len(planned.findings):,} labels change ({sources})"


def _table(planned: "Plan") -> Iterator[str]:
    from permll.cleaning.apply.corrections import count_changes

    counts = count_changes(planned.corrections)
    width = max((len(f"{before} -> {after}") for before, after in counts), default=0)
    for (before, after), count in counts.items():
        yield f"  {f'{before} -> {after}':<{width}}  {count:,}"


def _export(run: Path, out: Path, tool: str, limit: int | None) -> None:
    from permll.cleaning.apply.review_export import export

    known: Any = tool
    written = export(run, out, known, limit)
    beside = "" if written.config_path is None else f", and how to show them: {written.config_path}"
    typer.echo(f"{written.num_labels:,} labels to look at: {written.path}{beside}")
    for note in written.notes:
        typer.echo(note)
