"""``permll show``: results of runs as text, curves in the terminal, or figures."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permll.cli.common import AsJson, require_matplotlib, save_figure, terminal_width

if TYPE_CHECKING:
    from permll.training.run import Run

_CURVES = {
    "test_accuracy": "Test accuracy",
    "noisy_validation_accuracy": "Accuracy on noisy validation",
    "corrected": "Corrected training labels",
}
_BLOCKS = " ▁▂▃▄▅▆▇█"
CHART_HEIGHT = 4  # lines
SPARKLINE_WIDTH = 24  # characters


def show(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, finished or not.", metavar="RUN")],
    picture: Annotated[
        Path | None, typer.Option(help="Draw the curves as PNG and SVG in this folder.", metavar="DIR")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of a run; for several runs, means over seeds."""
    from permll.report.run_summary import compare, run_facts

    require_matplotlib(picture)
    opened = [_open_run(folder) for folder in dict.fromkeys(runs)]
    facts = [run_facts(run, _protocol(run)) for run in opened]
    groups = compare(facts)
    if as_json:
        typer.echo(json.dumps({"runs": facts, "groups": groups}, indent=2))
    elif len(opened) == 1:
        _show_one(opened[0])
    else:
        _show_several(opened, facts, groups)
    if picture is not None:
        _draw(opened, groups, picture, silent=as_json)


def chart(
    values: Sequence[float | None], columns: int, height: int = CHART_HEIGHT, scale: tuple[float, float] | None = None
) -> list[str]:
    """Return a curve as lines of block characters, scaled to its range or to ``scale``.

    If there are more values than columns, each column is the mean of several; missing values are blank.

    Examples:
        >>> print("|".join(chart([0, 1, None, 4, 8], columns=5, height=2)))
           ▁█|▁▃ ██
        >>> chart([3, 3], columns=9, height=1)
        ['▁▁']
    """
    columns = min(columns, len(values))
    edges = [round(len(values) * column / columns) for column in range(columns + 1)]
    parts = [[value for value in values[start:end] if value is not None] for start, end in pairwise(edges)]
    means = [sum(part) / len(part) if part else None for part in parts]
    low, high = scale or _scale(means)
    steps = (8 * height - 1) / (high - low) if high > low else 0.0
    levels = [0 if mean is None else 1 + round(steps * (mean - low)) for mean in means]  # in eighths of a line
    return ["".join(_BLOCKS[min(max(level - 8 * row, 0), 8)] for level in levels) for row in reversed(range(height))]


def _scale(values: Iterable[float | None]) -> tuple[float, float]:
    known = [value for value in values if value is not None]
    return min(known), max(known)


def _open_run(folder: Path) -> "Run":
    from permll.training.run import Run

    run = Run(folder)
    if run.exists:
        return run
    if not folder.is_dir():
        raise FileNotFoundError(f"run folder {folder} does not exist: permll train creates one.")
    inside = sum(1 for _ in folder.glob("*/recipe.toml"))
    if inside:
        raise ValueError(f"{folder} is not a run but contains {inside}: permll show {folder}/*")
    raise ValueError(f"{folder} is not a run, since it has no recipe.toml: permll train creates one.")


def _protocol(run: "Run") -> Any:
    """Return the selected epochs by evaluation protocol; None without test accuracy."""
    from permll.evaluation.protocol import select_from_metrics

    metrics = run.metrics
    measured = any(row.get("test_accuracy") is not None for row in metrics)
    return select_from_metrics(metrics) if measured else None


def _show_one(run: "Run") -> None:
    from permll.report.metric_curves import curve
    from permll.report.run_summary import run_summary

    width = terminal_width()
    typer.echo(run_summary(run, _protocol(run), width))
    metrics = run.metrics
    curves = {name: points for name in _CURVES if len(points := curve(metrics, name)) > 1}
    if "test_accuracy" in curves:
        curves.pop("noisy_validation_accuracy", None)  # only a substitute for it
    for name, points in curves.items():
        typer.echo("\n".join(_plot(_CURVES[name], points, width)))


def _plot(title: str, points: Mapping[int, float], width: int) -> list[str]:
    """Return a chart with axes, or a line of text if the values are constant."""
    low, high = _scale(points.values())
    if low == high:
        return [f"{title}, %: {100 * low:.1f} in every epoch"]
    lines = chart(list(points.values()), min(width - 10, 72))
    marks = {0: f"{100 * high:.1f}", len(lines) - 1: f"{100 * low:.1f}"}
    body = [f"{marks.get(row, ''):>7} │{line.rstrip()}" for row, line in enumerate(lines)]
    first, last = f"{min(points)}", f"epoch {max(points)}"
    return [f"{title}, %", *body, f"{'':>8} {first}{last:>{max(len(lines[0]) - len(first), len(last) + 1)}}"]


def _show_several(runs: "Sequence[Run]", facts: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]]) -> None:
    """Show the means, then each run with a sparkline of its test accuracy, all on one scale."""
    from permll.report.metric_curves import curve
    from permll.report.run_summary import comparison_text

    width = terminal_width()
    typer.echo(comparison_text(groups, width))
    curves = [list(curve(run.metrics, "test_accuracy").values()) for run in runs]
    scale = _scale(value for values in curves for value in values) if any(curves) else (0.0, 1.0)
    if any(curves):
        typer.echo("Test accuracy over the epochs, from {:.1f} to {:.1f} %".format(*(100 * end for end in scale)))
    counted = {folder for group in groups for folder in group["folders"]}
    for values, fact in zip(curves, facts, strict=True):
        line = chart(values, SPARKLINE_WIDTH, 1, scale)[0] if values else ""
        fits = len(fact["folder"]) <= width - SPARKLINE_WIDTH - 4
        typer.echo(f"  {line:<{SPARKLINE_WIDTH}}{'  ' if fits else chr(10) + '    '}{fact['folder']}")
        if not fact["finished"]:
            typer.echo(f"    {fact['epochs_done']} of {fact['epochs']} epochs; resume with {fact['resume']}")
        if fact["folder"] not in counted:
            typer.echo("    duplicate of another run, counted once")


def _draw(runs: "Sequence[Run]", groups: Sequence[dict[str, Any]], folder: Path, *, silent: bool) -> None:
    from permll.report.figures.curves import draw_curves

    metrics = {str(run.folder): run.metrics for run in runs}
    figure = draw_curves({group["label"]: [metrics[name] for name in group["folders"]] for group in groups})
    name = f"{runs[0].folder.resolve().name}-curves" if len(runs) == 1 else "curves"
    save_figure(figure, folder, name, silent=silent)
