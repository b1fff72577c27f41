"""Samples on the page: an image, a text, the cells of a row, a vector as bars. Long ones are cut, and it says so."""

from collections.abc import Mapping, Sequence
from typing import Any

from permll.report.findings.html_text import counted, prose
from permll.report.page.html import escape

Look = Mapping[str, Any]
"""``kind`` (image, text, cells, vector, none), its content (``address`` and ``small``, ``text``, ``cells`` as pairs of
name and value, ``values``), and ``more``: how much was left out already. Made by ``permll.cleaning.preview``."""

TEXT, CELL, CELLS, VALUES = 500, 80, 8, 64  # how much is shown: characters, of a cell, cells, numbers
WRITTEN = 16  # up to so many numbers are written out: on different scales, bars would show only the largest


def draw_look(look: Look, name: str) -> str:
    """Return how a sample looks.

    Args:
        look: what was made of it.
        name: its id.

    Examples:
        >>> draw_look({"kind": "text", "text": "so <b>good</b>", "more": 0}, "a")
        '<div class="look of-text"><p class="text" dir="auto">so &lt;b&gt;good&lt;/b&gt;</p></div>'
    """
    kind = look["kind"]
    if kind == "image":
        small = ' class="small"' * look["small"]
        content = f'<img{small} src="{escape(look["address"])}" alt="{escape(name)}">'
    elif kind == "text":
        content = _text(look)
    elif kind == "cells":
        content = _cells(look["cells"], look["more"])
    elif kind == "vector":
        content = _numbers(look["values"]) if len(look["values"]) <= WRITTEN else _bars(look["values"], look["more"])
    else:
        content = '<p class="quiet">It cannot be shown.</p>'
    return f'<div class="look of-{kind}">{content}</div>'


def _text(look: Look) -> str:
    text, more = look["text"], look["more"]
    cut = text[:TEXT].rstrip() + " …" if more or len(text) > TEXT else text
    return f'<p class="text" dir="auto">{prose(cut)}</p>'


def _cells(cells: Sequence[Sequence[str]], more: int) -> str:
    lines = "".join(_line(head, _cell(value) or "<i>empty</i>") for head, value in cells[:CELLS])
    return f'<table class="cells"><tbody>{lines}</tbody></table>{_rest(more + len(cells[CELLS:]), "column")}'


def _numbers(values: Sequence[float]) -> str:
    lines = "".join(_line(str(place), f"{value:.4g}") for place, value in enumerate(values))
    return f'<table class="cells numbers"><tbody>{lines}</tbody></table>'


def _line(head: str, value: str) -> str:
    return f'<tr><th scope="row">{_cell(head)}</th><td>{value}</td></tr>'


def _cell(value: str) -> str:
    return prose(value if len(value) <= CELL else f"{value[: CELL - 1]}…")


def _bars(values: Sequence[float], more: int) -> str:
    shown, more = values[:VALUES], more + len(values[VALUES:])
    high, low = max(*shown, 0.0), min(*shown, 0.0)
    scale = 96 / (high - low) if high > low else 0.0
    zero = 2 + high * scale
    bars = "".join(
        f'<rect class="{"below" if value < 0 else "above"}" x="{place + 0.08:g}" width=".84" '
        f'y="{zero - max(value, 0) * scale:.4g}" height="{max(abs(value) * scale, 0.4):.4g}"/>'
        for place, value in enumerate(shown)
    )
    return (
        f'<svg viewBox="0 0 {len(shown)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{len(shown)} numbers as bars">{bars}</svg>{_rest(more, "number")}'
    )


def _rest(more: int, what: str) -> str:
    return f'<p class="quiet">and {counted(more, f"more {what}")}</p>' if more else ""
