"""``permll bench``: the paper's tables and figures, by one command."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permll.cli.train import StoppedError, setting

if TYPE_CHECKING:
    from permll.bench.grid import Plan
    from permll.bench.jobs import Standing

Option = typer.Option
Standings = list["Standing"]


def bench(
    what: Annotated[str, typer.Argument(help="table1, table2, figure3 or all.")] = "table1",
    tier: Annotated[str, Option(help="tiny (seconds a cell), mini, lite or paper: permll recipes list.")] = "mini",
    methods: Annotated[
        list[str] | None, Option(help="Which, with commas: permll,permll-label,ce. Default: all, permll methods.")
    ] = None,
    noise: Annotated[list[str] | None, Option(help="Which columns: sym-60,cifar10-asym-40. Default: all.")] = None,
    seeds: Annotated[list[str] | None, Option(help="Which, with commas. Default: 1,2,3.")] = None,
    jobs: Annotated[int, Option(help="So many processes, with one thread each.", min=1)] = 1,
    out: Annotated[Path, Option(help="The folder of runs, bench.csv and report.")] = Path("runs/bench"),
    root: Annotated[Path | None, Option(help="The folder of built-in data sets.")] = None,
    data: Annotated[
        list[Path] | None, Option(help="For table2 below tier paper: .npz files of real noisy labels.")
    ] = None,
    set_: Annotated[list[str] | None, Option("--set", help="In every recipe: --set training.epochs=2")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan and the commands, and train nothing.")] = False,
    only_render: Annotated[bool, Option("--only-render", help="Train nothing, render what is finished.")] = False,
) -> None:
    """Train what is missing of a table or figure, then render it. Ctrl-C saves; the same command goes on."""
    if dry_run and only_render:
        raise ValueError("choose one of --dry-run and --only-render.")
    numbers = [_whole(word) for word in _words(seeds)]
    from permll.bench.executor import read_failures, run
    from permll.bench.grid import SEEDS, plan
    from permll.bench.progress import default_watcher
    from permll.bench.rendering import render

    grid = plan(
        what,
        tier=tier,
        methods=_words(methods),
        noise=_words(noise),
        seeds=numbers or SEEDS,
        out=out,
        root=root,
        data=data or (),
        settings=dict(map(setting, set_ or [])),
    )
    standings = [cell.standing for cell in grid.cells]
    typer.echo(_shown(grid, standings, jobs))
    if dry_run:
        for cell, standing in zip(grid.cells, standings, strict=True):
            if standing in ("begun", "missing"):
                typer.echo(cell.command)
        return
    if any(cell.part == "figure3" for cell in grid.cells):
        from permll.report.figures.style import require_matplotlib

        require_matplotlib()  # better missed before the work than after it
    if not only_render:
        try:
            run(grid, jobs, default_watcher())
        except KeyboardInterrupt as stopped:
            raise StoppedError(str(stopped)) from None
    rendered = render(grid)
    for table in ("table1", "table2"):
        if table in rendered.texts:
            typer.echo(f"\n{rendered.texts[table]}")
    typer.echo(f"{rendered.rows} cells in {rendered.csv}; open {rendered.page}")
    failures = read_failures(grid)
    for failure in failures:
        typer.echo(f"permll: {failure['folder']}: {failure['sentence']}", err=True)
    if failures and not only_render:
        raise typer.Exit(1)


def _shown(grid: "Plan", standings: Standings, jobs: int) -> str:
    """Return the plan in words: what is there, what is to be done, for how long."""
    from permll.bench.eta import cell_seconds, duration
    from permll.bench.results import collect

    counts: Counter[str] = Counter(standings)
    open_ = [cell for cell, standing in zip(grid.cells, standings, strict=True) if standing in ("begun", "missing")]
    known = collect(grid.out) if open_ else []
    seconds = [cell_seconds(cell, known) for cell in open_]
    lines = [f"{grid.what} at tier {grid.tier} in {grid.out}: {len(grid.cells)} cells", *_matrix(grid, standings)]
    words = {"finished": "finished", "begun": "begun", "missing": "to begin", "other": "of another recipe"}
    stand = ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key])
    # A plan ends when its longest cell does, at the earliest.
    expected = max([sum(seconds) / jobs, *seconds]) if open_ else 0.0
    with_jobs = f"about {duration(expected)} with {jobs} job{'s' * (jobs > 1)}" if open_ else "nothing to train"
    return "\n".join([*lines, f"{stand or 'none'}; {with_jobs}.", *grid.left_out])


def _matrix(grid: "Plan", standings: Standings) -> list[str]:
    """Return a line for every method, with how many cells of each column are finished."""
    from permll.bench.jobs import spelled

    done: Counter[tuple[str, str]] = Counter()
    all_: Counter[tuple[str, str]] = Counter()
    for cell, standing in zip(grid.cells, standings, strict=True):
        name = "permll, figure 3" if cell.part == "figure3" else spelled(cell.method, cell.variant)
        place = name, f"{cell.data} {cell.noise}"
        all_[place] += 1
        done[place] += standing == "finished"
    columns = list(dict.fromkeys(column for _, column in all_))
    sets = {column.split()[0] for column in columns}
    heads = {column: column.split()[1] if len(sets) == 1 else column for column in columns}
    room = max((len(name) for name, _ in all_), default=0) + 2
    lines = ["  " + " " * room + "  ".join(heads.values())] if columns else []
    for name in dict.fromkeys(name for name, _ in all_):
        cells = [
            f"{f'{done[name, column]}/{all_[name, column]}' if all_[name, column] else '':>{len(head)}}"
            for column, head in heads.items()
        ]
        lines.append(f"  {name:<{room}}" + "  ".join(cells).rstrip())
    return lines


def _words(values: list[str] | None) -> list[str]:
    return [word.strip() for value in values or [] for word in value.split(",") if word.strip()]


def _whole(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(f"--seeds takes whole numbers with commas, 1,2,3; got {word!r}.")
    return int(word)
