"""Common style of all figures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import ArrayLike

INK = "#1b2333"  # text and default color
MUTED = "#667085"  # secondary text, reference lines
GRID = "#e4e7ec"
ACCENT = "#d9480f"  # errors and highlights; never the only sign of them


class LineStyle(NamedTuple):
    """Color, line style and marker of a series: distinguishable in grayscale and with color blindness."""

    color: str
    linestyle: str | tuple[int, tuple[float, ...]]
    marker: str


# From dark to light in steps of about 15 in CIE lightness (13, 28, 43, 59, 74): ordered in grayscale, too.
# Later styles are dashed, so that a line drawn over an equal one does not hide it.
LINE_STYLES: tuple[LineStyle, ...] = (
    LineStyle("#14213d", "-", "o"),
    LineStyle("#5b2a86", (0, (7, 1.2)), "s"),
    LineStyle("#b92b5d", (0, (6, 1.5, 1.2, 1.5)), "D"),
    LineStyle("#e8663c", (0, (3, 1.8)), "^"),
    LineStyle("#eeaa2f", (0, (1.2, 1.2)), "v"),
)

# For probabilities: light = 0, dark = 1, monotone in grayscale, too.
PROBABILITY_COLORMAP = LinearSegmentedColormap.from_list(
    "permll", ["#f3f6fb", "#c9d9ee", "#7fa3cf", "#3b669f", LINE_STYLES[0].color]
)

RC_PARAMS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: equal figures on all machines
    "font.size": 9.0,
    "text.color": INK,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "lines.linewidth": 1.9,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "savefig.dpi": 200,
    "svg.fonttype": "path",  # no fonts needed
    "svg.hashsalt": "permll",  # deterministic ids
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Use the style of the package inside the block, and restore the caller's settings after it.

    Examples:
        >>> import matplotlib
        >>> before = matplotlib.rcParams["axes.grid"]
        >>> with figure_style():
        ...     matplotlib.rcParams["axes.grid"]
        True
        >>> matplotlib.rcParams["axes.grid"] == before
        True
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams  # typed with literal keys in some versions, str in others
        settings.update(RC_PARAMS)
        yield


def make_figure(width: float, height: float, *, h_pad: float = 0.08, w_pad: float = 0.10) -> Figure:
    """Return an empty figure of a size in inches with constrained layout."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=h_pad, w_pad=w_pad))


def group_style(index: int) -> dict[str, Any]:
    """Return the line style of a group of runs: solid lines, markers that are hollow from the sixth group on."""
    style = LINE_STYLES[2 * index % len(LINE_STYLES)]  # the most different colors first
    fill = style.color if index < len(LINE_STYLES) else "white"
    return {"color": style.color, "marker": style.marker, "markersize": 4.5, "mfc": fill}


def draw_series(
    axes: Axes, x: Sequence[float], y: ArrayLike, index: int, *, num_markers: int = 6, **style: Any
) -> None:
    """Draw a line with a few markers; those of the next series are at other points."""
    every = max(len(x) // num_markers, 1)
    axes.plot(x, y, markevery=(index % every, every), **style)


def draw_ring(axes: Axes, x: float, y: float, color: str, size: float) -> None:
    """Draw a circle around a point."""
    axes.plot(x, y, "o", markersize=size, markerfacecolor="none", markeredgecolor=color, zorder=5)


def draw_level(axes: Axes, value: float, text: str, *, below: bool) -> None:
    """Draw a dotted horizontal reference line with a text below or above it."""
    axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    options: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate(text, (1, value), (0, -10 if below else 3), ha="right", fontsize=8, color=MUTED, **options)


def panel_title(axes: Axes, letter: str, title: str, subtitle: str) -> None:
    """Set letter, title and subtitle of a panel."""
    axes.set_title(f"({letter})  {title}", fontweight="bold", pad=20)
    axes.annotate(subtitle, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", color=MUTED)


def save(figure: Figure, out_dir: Path, name: str) -> list[Path]:
    """Write ``name``.png and ``name``.svg into ``out_dir``, created if missing, and return both paths.

    Equal figures give identical SVG files.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    png, svg = out_dir / f"{name}.png", out_dir / f"{name}.svg"
    with figure_style():
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
