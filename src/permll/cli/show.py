"""``permll show``: what runs came to, in words, as curves in the terminal, and as a picture."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from permll.training.run import Run

_CURVES = {
    "test_accuracy": "Test accuracy",
    "noisy_validation_accuracy": "Accuracy on noisy validation",
    "turned": "Turned training labels",
}
_BLOCKS = " ▁▂▃▄▅▆▇█"
NARROWEST = 60
HEIGHT = 4  # lines of a curve
SPARK = 24  # signs of one in a single line


def show(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, finished or not.", metavar="RUN...")],
    picture: Annotated[
        Path | None, typer.Option(help="Draw the curves, as PNG and SVG, into this folder.", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what a run came to; of several, the means over their seeds."""
    if picture is not None:
        from permll.report.figures.style import require_matplotlib

        require_matplotlib()
    from permll.report.run_summary import compare, run_facts

    found = [_find(folder) for folder in dict.fromkeys(runs)]
    facts = [run_facts(run, _protocol(run)) for run in found]
    groups = compare(facts)
    if as_json:
        typer.echo(json.dumps({"runs": facts, "groups": groups}, indent=2))
    elif len(found) == 1:
        _show_one(found[0])
    else:
        _show_several(found, facts, groups)
    if picture is not None:
        _draw(found, groups, picture, silent=as_json)


def chart(
    values: Sequence[float | None], columns: int, height: int = HEIGHT, scale: tuple[float, float] | None = None
) -> list[str]:
    """Return a curve as lines of blocks, from the lowest value to the highest, or from and to those of ``scale``.

    Where there are more values than columns, a column is the mean of some; what was not measured stays empty.

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


def _find(folder: Path) -> "Run":
    from permll.training.run import Run

    run = Run(folder)
    if run.exists:
        return run
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no run {folder}: permll train makes one.")
    inside = sum(1 for _ in folder.glob("*/recipe.toml"))
    if inside:
        raise ValueError(f"{folder} is no run, but holds {inside}: permll show {folder}/*")
    raise ValueError(f"{folder} is no run: it has no recipe.toml; permll train makes one.")


def _protocol(run: "Run") -> Any:
    """Return which epochs may be reported; None where no test data were."""
    from permll.evaluation.protocol import select_from_metrics

    metrics = run.metrics
    measured = any(row.get("test_accuracy") is not None for row in metrics)
    return select_from_metrics(metrics) if measured else None


def _width() -> int:
    import shutil

    return max(shutil.get_terminal_size().columns, NARROWEST)  # 80 where there is no terminal


def _show_one(run: "Run") -> None:
    from permll.report.figures.curves import curve
    from permll.report.run_summary import run_summary

    width = _width()
    typer.echo(run_summary(run, _protocol(run), width))
    metrics = run.metrics
    curves = {name: points for name in _CURVES if len(points := curve(metrics, name)) > 1}
    if "test_accuracy" in curves:
        curves.pop("noisy_validation_accuracy", None)  # stands in for it
    for name, points in curves.items():
        typer.echo("\n".join(_plot(_CURVES[name], points, width)))


def _plot(title: str, points: Mapping[int, float], width: int) -> list[str]:
    """Return a chart with its axes: per cent at the left, epochs below; what never moved is a line of text."""
    low, high = _scale(points.values())
    if low == high:
        return [f"{title}, %: {100 * low:.1f} in every epoch"]
    lines = chart(list(points.values()), min(width - 10, 72))
    marks = {0: f"{100 * high:.1f}", len(lines) - 1: f"{100 * low:.1f}"}
    body = [f"{marks.get(row, ''):>7} │{line.rstrip()}" for row, line in enumerate(lines)]
    first, last = f"{min(points)}", f"epoch {max(points)}"
    return [f"{title}, %", *body, f"{'':>8} {first}{last:>{max(len(lines[0]) - len(first), len(last) + 1)}}"]


def _show_several(runs: "Sequence[Run]", facts: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]]) -> None:
    """Show the means, then each run with its test accuracy as a line of blocks, all on one scale."""
    from permll.report.figures.curves import curve
    from permll.report.run_summary import comparison_text

    width = _width()
    typer.echo(comparison_text(groups, width))
    curves = [list(curve(run.metrics, "test_accuracy").values()) for run in runs]
    scale = _scale(value for values in curves for value in values) if any(curves) else (0.0, 1.0)
    if any(curves):
        typer.echo("Test accuracy over the epochs, from {:.1f} to {:.1f} %".format(*(100 * end for end in scale)))
    counted = {folder for group in groups for folder in group["folders"]}
    for values, about in zip(curves, facts, strict=True):
        line = chart(values, SPARK, 1, scale)[0] if values else ""
        fits = len(about["folder"]) <= width - SPARK - 4
        typer.echo(f"  {line:<{SPARK}}{'  ' if fits else chr(10) + '    '}{about['folder']}")
        if not about["finished"]:
            typer.echo(
                f"    {about['epochs_done']} of {about['epochs']} epochs; permll train {about['folder']} goes on"
            )
        if about["folder"] not in counted:
            typer.echo("    the same training as another one: it counts once")


def _draw(runs: "Sequence[Run]", groups: Sequence[dict[str, Any]], folder: Path, *, silent: bool) -> None:
    from permll.report.figures.curves import draw_curves
    from permll.report.figures.style import save

    metrics = {str(run.folder): run.metrics for run in runs}
    figure = draw_curves({group["label"]: [metrics[name] for name in group["folders"]] for group in groups})
    name = f"{runs[0].folder.resolve().name}-curves" if len(runs) == 1 else "curves"
    for path in save(figure, folder, name):
        if not silent:
            typer.echo(path)
