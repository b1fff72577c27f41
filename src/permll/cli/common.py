"""Options and helpers that several commands share."""

import re
import shutil
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_WIDTH = 60
_QUOTES = "\"'"
_FLAGS = {"no_label": "missing-label", 'no_label=""': "drop-empty"}
_KEYWORD = re.compile(
    r"""(?<![\w.-])(?P<keyword>annotat(?:ors|ions|ion_columns)|classes|drop_empty|features|ids?|image|image_size|labels?|merge_similar_labels|no_label|rare"""
    r"""|skip_unreadable|split|text)=(?P<value>"[^"]*"|'[^']*'|\[[^]]*\]|True|-?\d+|\(\))?"""
)

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
MovedData = Annotated[
    Path | None, typer.Option("--data", help="The data, if they were moved since the training.", show_default=False)
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


def move_data(run: Path, data: Path | None) -> None:
    """Record the new path of the data of a run, if they were moved."""
    if data is not None:
        from permll.cleaning.source import move_source
        from permll.training.run import Run

        move_source(Run.open(run), data)


def to_cli_words(message: str, flags: Container[str]) -> str:
    """Return a message about keywords of ``permll.data.load`` with the options of a command instead.

    Args:
        message: of an error or a warning.
        flags: options of the command, such as "--label".

    Examples:
        >>> to_cli_words("choose it with label=. Or pass rare='drop', image_size=.", {"--label", "--rare", "--set"})
        'choose it with --label. Or pass --rare drop, --set data.options.image_size=.'
    """

    def replace(match: re.Match[str]) -> str:
        keyword, value = match["keyword"], match["value"] or ""
        flag = f"--{_FLAGS.get(match[0]) or _FLAGS.get(keyword) or keyword.replace('_', '-')}"
        if flag not in flags:
            value = "[]" if value == "()" else value
            return f"--set data.options.{keyword}={value}" if "--set" in flags else match[0]
        return flag if value in ("", "True") or match[0] in _FLAGS else f"{flag} {value.strip(_QUOTES)}"

    return _KEYWORD.sub(replace, message)


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
