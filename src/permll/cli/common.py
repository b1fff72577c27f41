"""Options and helpers that several commands share."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_WIDTH = 60

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a recipe value: --set optimizer.lr=0.1"),
]
Root = Annotated[
    Path | None,
    typer.Option(
        help="Folder of built-in data sets. Default: $PERMLL_DATA, else ~/.cache/permll/data.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


class RunInterruptedError(Exception):
    """Training was interrupted by Ctrl-C; the message says how to resume."""


def parse_overrides(texts: list[str] | None) -> dict[str, Any]:
    """Parse the values of ``--set``: TOML values, or else strings.

    Examples:
        >>> parse_overrides(["optimizer.lr=0.1", "method.on=label"])
        {'optimizer.lr': 0.1, 'method.on': 'label'}
    """
    return dict(map(_parse_override, texts or []))


def terminal_width() -> int:
    """Return the number of columns of the terminal, at least 60; 80 without a terminal."""
    return max(shutil.get_terminal_size().columns, MIN_WIDTH)


def require_matplotlib(picture: Path | None) -> None:
    """Raise before any work if figures are requested without matplotlib."""
    if picture is not None:
        import permll.report.figures  # noqa: F401  # fails without matplotlib


def save_figure(figure: "Figure", folder: Path, name: str, *, silent: bool = False) -> None:
    """Write a figure as PNG and SVG, and print their paths."""
    from permll.report.figures.style import save

    for path in save(figure, folder, name):
        if not silent:
            typer.echo(path)


def _parse_override(text: str) -> tuple[str, Any]:
    import tomllib

    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set takes KEY=VALUE, such as optimizer.lr=0.1; got {text!r}.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value
