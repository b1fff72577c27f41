"""``permll bench``: run the experiments of the paper's tables and figures."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permll.cli.common import Overrides, Root, RunInterruptedError, parse_overrides

if TYPE_CHECKING:
    from permll.bench.grid import Plan
    from permll.bench.jobs import JobStatus

Option = typer.Option


def bench(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="table1, table2, figure3 or all.")] = "table1",
    tier: Annotated[str, Option(help="Size: tiny (seconds per job), mini, lite or paper.")] = "mini",
    methods: Annotated[
        list[str] | None, Option(help="Comma-separated: permll,permll-label,ce. Default: all (see permll methods).")
    ] = None,
    noise: Annotated[list[str] | None, Option(help="Comma-separated: sym-60,cifar10-asym-40. Default: all.")] = None,
    seeds: Annotated[list[str] | None, Option(help="Comma-separated. Default: 1,2,3.")] = None,
    jobs: Annotated[int, Option(help="Number of jobs to run in parallel, with one thread each.", min=1)] = 1,
    out: Annotated[Path, Option(help="Folder of runs, bench.csv and report.")] = Path("runs/bench"),
    root: Root = None,
    data: Annotated[
        list[Path] | None, Option(help="Files (.npz) of real noisy labels, for table2 below tier paper.")
    ] = None,
    set_: Overrides = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan and its commands without training.")] = False,
    only_render: Annotated[bool, Option("--only-render", help="Render the finished jobs without training.")] = False,
) -> None:
    """Run the unfinished jobs of a table or figure and render it. Ctrl-C saves checkpoints; run it again to resume."""
    if dry_run and only_render:
        raise ValueError("--dry-run and --only-render exclude each other.")
    chosen_seeds = [_parse_seed(word) for word in _split_commas(seeds)]
    from permll.bench.executor import read_failures, run
    from permll.bench.grid import DEFAULT_SEEDS, plan
    from permll.bench.progress import Progress
    from permll.bench.rendering import render

    grid = plan(
        experiment,
        tier=tier,
        methods=_split_commas(methods),
        noise=_split_commas(noise),
        seeds=chosen_seeds or DEFAULT_SEEDS,
        out=out,
        root=root,
        data=data or (),
        overrides=parse_overrides(set_),
    )
    statuses = [job.status for job in grid.jobs]
    typer.echo(_describe_plan(grid, statuses, jobs))
    if dry_run:
        for job, status in zip(grid.jobs, statuses, strict=True):
            if status in ("started", "pending"):
                typer.echo(job.command)
        return
    if any(job.experiment == "figure3" for job in grid.jobs):
        import permll.report.figures  # noqa: F401  # without matplotlib, fail before training and not after it
    if not only_render:
        try:
            run(grid, jobs, Progress())
        except KeyboardInterrupt as interrupt:
            raise RunInterruptedError(str(interrupt)) from None
    rendered = render(grid)
    for table in ("table1", "table2"):
        if table in rendered.texts:
            typer.echo(f"\n{rendered.texts[table]}")
    typer.echo(f"{rendered.num_rows} jobs in {rendered.csv}; open {rendered.page}")
    failures = read_failures(grid)
    for failure in failures:
        typer.echo(f"permll: {failure['folder']}: {failure['sentence']}", err=True)
    if failures and not only_render:
        raise typer.Exit(1)


def _describe_plan(grid: "Plan", statuses: "list[JobStatus]", num_workers: int) -> str:
    """Return the plan as text: finished jobs by method and setting, and the estimated time of the others."""
    from permll.bench.results import collect
    from permll.bench.time_estimate import estimate_seconds, format_duration

    counts: Counter[str] = Counter(statuses)
    unfinished = [job for job, status in zip(grid.jobs, statuses, strict=True) if status in ("started", "pending")]
    rows = collect(grid.out) if unfinished else []
    seconds = [estimate_seconds(job, rows) for job in unfinished]
    titles = {"finished": "finished", "started": "started", "pending": "pending", "conflict": "of another recipe"}
    summary = ", ".join(f"{counts[status]} {title}" for status, title in titles.items() if counts[status]) or "none"
    if unfinished:  # a plan takes at least as long as its longest job
        total = format_duration(max([sum(seconds) / num_workers, *seconds]))
        remaining = f"about {total} with {num_workers} parallel job{'s' * (num_workers > 1)}"
    else:
        remaining = "nothing to train"
    head = f"{grid.experiment} at tier {grid.tier} in {grid.out}: {len(grid.jobs)} jobs"
    return "\n".join([head, *_status_table(grid, statuses), f"{summary}; {remaining}.", *grid.skipped])


def _status_table(grid: "Plan", statuses: "list[JobStatus]") -> list[str]:
    """Return a line per method, with the finished and total jobs of each setting."""
    from permll.bench.jobs import format_method

    finished: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for job, status in zip(grid.jobs, statuses, strict=True):
        name = "permll, figure 3" if job.experiment == "figure3" else format_method(job.method, job.variant)
        key = name, f"{job.data} {job.noise}"
        total[key] += 1
        finished[key] += status == "finished"
    settings = list(dict.fromkeys(setting for _, setting in total))
    data_sets = {setting.split()[0] for setting in settings}
    heads = {setting: setting.split()[1] if len(data_sets) == 1 else setting for setting in settings}
    width = max((len(name) for name, _ in total), default=0) + 2
    lines = ["  " + " " * width + "  ".join(heads.values())] if settings else []
    for name in dict.fromkeys(name for name, _ in total):
        counts = {key: f"{finished[name, key]}/{total[name, key]}" if total[name, key] else "" for key in heads}
        cells = [f"{counts[key]:>{len(head)}}" for key, head in heads.items()]
        lines.append(f"  {name:<{width}}" + "  ".join(cells).rstrip())
    return lines


def _split_commas(values: list[str] | None) -> list[str]:
    return [word.strip() for value in values or [] for word in value.split(",") if word.strip()]


def _parse_seed(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(f"--seeds takes comma-separated integers such as 1,2,3; got {word!r}.")
    return int(word)
