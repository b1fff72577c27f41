"""Previews of samples on cards: cut to size, and vectors drawn as bars."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from permll.report.text import pluralize

MAX_TEXT_LENGTH, MAX_CELL_LENGTH, MAX_CELLS, MAX_BARS = 500, 80, 8, 64
MAX_NUMBERS = 16  # numbers of a vector that are written out: on different scales, bars would show only the largest

Preview = Mapping[str, Any]
"""Sample as ``permll.cleaning.preview`` returns it: ``kind`` (image, text, cells, vector or none), its content
(``address`` and ``small``, ``text``, ``cells`` as name and value, ``values``), and ``more``, the amount cut off."""


def limit_preview(preview: Preview) -> dict[str, Any]:
    """Return a preview cut to the size of a card; ``rest`` says how much is missing.

    Examples:
        >>> limit_preview({"kind": "cells", "cells": [["age", "31"]], "more": 3})
        {'kind': 'cells', 'cells': [('age', '31')], 'more': 3, 'rest': '3 more columns'}
    """
    kind, rest = preview["kind"], ""
    content = dict(preview)
    if kind == "text" and (preview["more"] or len(preview["text"]) > MAX_TEXT_LENGTH):
        content["text"] = f"{preview['text'][:MAX_TEXT_LENGTH].rstrip()} …"
    elif kind == "cells":
        content["cells"] = [(_cut(name), _cut(value)) for name, value in preview["cells"][:MAX_CELLS]]
        rest = _rest(preview["more"] + len(preview["cells"][MAX_CELLS:]), "more column")
    elif kind == "vector" and len(preview["values"]) <= MAX_NUMBERS:
        content["cells"] = [(str(k), f"{value:.4g}") for k, value in enumerate(preview["values"])]
    elif kind == "vector":
        content |= {"cells": [], "bars": vector_bars(preview["values"][:MAX_BARS])}
        rest = _rest(preview["more"] + len(preview["values"][MAX_BARS:]), "more number")
    return content | {"rest": rest}


def _cut(value: str) -> str:
    return value if len(value) <= MAX_CELL_LENGTH else f"{value[: MAX_CELL_LENGTH - 1]}…"


def _rest(count: int, noun: str) -> str:
    return pluralize(count, noun) if count else ""


def vector_bars(values: Sequence[float]) -> Markup:
    """Return the values of a vector as bars above and below zero."""
    high, low = max(*values, 0.0), min(*values, 0.0)
    scale = 96 / (high - low) if high > low else 0.0
    zero = 2 + high * scale
    bars = "".join(
        f'<rect class="{"below" if value < 0 else "above"}" x="{k + 0.08:g}" width=".84" '
        f'y="{zero - max(value, 0) * scale:.4g}" height="{max(abs(value) * scale, 0.4):.4g}"/>'
        for k, value in enumerate(values)
    )
    return Markup(
        f'<svg viewBox="0 0 {len(values)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{len(values)} numbers as bars">{bars}</svg>'
    )
