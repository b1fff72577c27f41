"""``permll apply``: write the corrected data set."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permll.cli.common import MovedData, move_data

if TYPE_CHECKING:
    from permll.cleaning.apply.api import ApplyResult, Plan

Option = typer.Option
MAX_PREVIEW_ROWS = 10
DROPPED = "(no class)"  # label of a dropped sample


def apply(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of permll clean.")],
    out: Annotated[Path | None, Option(help="New file or folder; it must not exist.")] = None,
    auto: Annotated[bool, Option("--auto", help="Also apply proposals that were not reviewed.")] = False,
    min_probability: Annotated[
        float | None, Option(help="Minimum probability of those proposals. Default: 0.8.", show_default=False)
    ] = None,
    as_: Annotated[
        str, Option("--as", help="Output for a folder of images: link, copy or hardlink files, or a csv of paths.")
    ] = "link",
    data: MovedData = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the changes without writing anything.")] = False,
    from_: Annotated[
        Path | None,
        Option("--from", help="Decisions made in Label Studio, exported as JSON; they are added to those of the run."),
    ] = None,
    export: Annotated[
        str | None,
        Option(help="Write the flagged labels for review instead, for label-studio, argilla or fiftyone, or as csv."),
    ] = None,
    limit: Annotated[
        int | None, Option(help="Maximum number of exported labels. Default: all flagged.", min=1, show_default=False)
    ] = None,
) -> None:
    """Write the corrected data set in its original format. The input data are never changed."""
    if min_probability is not None and not auto:
        raise ValueError("--min-probability requires --auto.")
    if limit is not None and export is None:
        raise ValueError("--limit requires --export.")
    if out is None and not dry_run:
        raise ValueError("give the new file or folder with --out, or preview the changes with --dry-run.")
    move_data(run, data)
    if export is not None:
        if auto or dry_run or as_ != "link" or from_ is not None or out is None:
            raise ValueError("--export can only be combined with --out and --limit.")
        _export(run, out, export, limit)
        return
    from permll.cleaning.apply.api import check_output, execute, plan
    from permll.cleaning.apply.corrections import DEFAULT_MIN_PROBABILITY

    output_format: Any = as_
    planned = plan(
        run,
        auto=auto,
        min_probability=DEFAULT_MIN_PROBABILITY if min_probability is None else min_probability,
        annotations=from_,
    )
    if out is not None:
        check_output(planned, out, output_format)
    if dry_run or out is None:
        typer.echo("\n".join(preview(planned)))
    else:
        typer.echo("\n".join(summary(planned, execute(planned, out, output_format))))


def preview(planned: "Plan") -> Iterator[str]:
    """Yield the lines of a dry run: counts, changes by class pair, and the first changed labels."""
    yield from _counts(planned, "; nothing was written.")
    changing = [correction for correction in planned.corrections if correction.is_change]
    first = changing[:MAX_PREVIEW_ROWS]
    if first:
        yield f"The first {len(first)}:"
    width = max((len(correction.id) for correction in first), default=0)
    for correction in first:
        probability = "" if correction.probability is None else f", probability {correction.probability:.3g}"
        reviewer = f" by {correction.reviewer}" if correction.reviewer else ""
        change = f"{correction.before} -> {correction.after or DROPPED}"
        yield f"  {correction.id:<{width}}  {change}  ({correction.source}{reviewer}{probability})"


def summary(planned: "Plan", applied: "ApplyResult") -> Iterator[str]:
    """Yield the lines after writing: counts, changes by class pair, paths, and the command to train on the result."""
    yield from _counts(planned, ".")
    yield from _left_proposals(planned)
    yield from applied.notes
    moved = "" if applied.dropped_path is None else f"; dropped images: {applied.dropped_path}"
    yield f"Written: {applied.path}; changes: {applied.changes_path}{moved}"
    if applied.commands:
        yield "Train on it:"
        yield from (f"  {command}" for command in applied.commands)
    else:
        yield "It contains labels by id: pass it with your samples to permll.data.load(..., labels=...)."


def _counts(planned: "Plan", end: str) -> Iterator[str]:
    """Yield the number of changes by source, then by class pair."""
    from permll.cleaning.apply.corrections import count_changes, count_sources

    sources = ", ".join(f"{count:,} {source}" for source, count in count_sources(planned.corrections).items())
    dropped = f", {planned.num_dropped:,} dropped" if planned.num_dropped else ""
    yield f"{planned.num_changed:,} of {len(planned.findings):,} labels change{dropped} ({sources}){end}"
    changes = count_changes(planned.corrections).items()
    counts = {f"{before} -> {after or DROPPED}": count for (before, after), count in changes}
    width = max(map(len, counts), default=0)
    for pair, count in counts.items():
        yield f"  {pair:<{width}}  {count:,}"


def _left_proposals(planned: "Plan") -> Iterator[str]:
    """Yield a sentence about the proposals that are not certain enough, if labels were changed automatically."""
    has_auto = any(correction.source == "auto" for correction in planned.corrections)
    decided = {correction.row for correction in planned.corrections}
    left = len(set(planned.findings.has_proposal.nonzero()[0].tolist()) - decided)
    if has_auto and left:
        yield (
            f"{left:,} other proposals are less certain, since the network may confuse these classes. Review them: "
            f"permll review {planned.run.folder}"
        )


def _export(run: Path, out: Path, tool: str, limit: int | None) -> None:
    from permll.cleaning.apply.review_export import export
    from permll.data.readers.raw_data import pluralize

    format_: Any = tool
    written = export(run, out, format_, limit)
    config = "" if written.config_path is None else f"; labeling configuration: {written.config_path}"
    typer.echo(f"{pluralize(written.num_labels, 'label')} for review: {written.path}{config}")
    for note in written.notes:
        typer.echo(note)
