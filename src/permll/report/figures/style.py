"""The one look of all figures. Nothing here touches matplotlib before a figure is drawn: it is an optional extra."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

INK = "#1b2333"  # text, and whatever is simply there
MUTED = "#667085"  # second-rank text, reference lines
GRID = "#e4e7ec"
ACCENT = "#d9480f"  # what is wrong, or what to look at; never the only sign of it


class Stroke(NamedTuple):
    """How one series is drawn: three signs, so that a grey print or a colour-blind eye still tells them apart."""

    color: str
    linestyle: str | tuple[int, tuple[float, ...]]
    marker: str


# From dark to light in steps of about 15 in CIE lightness (13, 28, 43, 59, 74): an order in grey as well as in colour.
# Later strokes leave gaps, so that one drawn over an earlier one that it coincides with hides nothing.
STROKES: tuple[Stroke, ...] = (
    Stroke("#14213d", "-", "o"),
    Stroke("#5b2a86", (0, (7, 1.2)), "s"),
    Stroke("#b92b5d", (0, (6, 1.5, 1.2, 1.5)), "D"),
    Stroke("#e8663c", (0, (3, 1.8)), "^"),
    Stroke("#eeaa2f", (0, (1.2, 1.2)), "v"),
)

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same figure on every machine
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
    "svg.fonttype": "path",  # no font is needed to read the file
    "svg.hashsalt": "permll",  # otherwise ids are drawn at random and no two files are equal
}


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise ImportError("figures need matplotlib: pip install 'permll[plots]'") from missing


@contextmanager
def look() -> Iterator[None]:
    """Draw in the package's look inside the block, whatever the caller's own settings, and give those back after it.

    Examples:
        >>> import matplotlib
        >>> before = matplotlib.rcParams["axes.grid"]
        >>> with look():
        ...     matplotlib.rcParams["axes.grid"]
        True
        >>> matplotlib.rcParams["axes.grid"] == before
        True
    """
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams  # typed by literal keys in some versions, by str in others
        settings.update(RC)
        yield


def shades() -> "Colormap":
    """Return the colours of cells that hold a probability: light = 0, dark = 1, monotone in grey too."""
    require_matplotlib()
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("permll", ["#f3f6fb", "#c9d9ee", "#7fa3cf", "#3b669f", STROKES[0].color])


def panel_title(axes: "Axes", letter: str, title: str, seen: str) -> None:
    """Head a panel with its letter and title and, in a second line, what one sees in it."""
    axes.set_title(f"({letter})  {title}", fontweight="bold", pad=20)
    axes.annotate(seen, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", color=MUTED)


def save(figure: "Figure", out_dir: Path, name: str) -> list[Path]:
    """Write ``name``.png and ``name``.svg into ``out_dir``, made if missing, and return both paths.

    The same figure gives the same SVG byte for byte, so a changed file means a changed figure.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    png, svg = out_dir / f"{name}.png", out_dir / f"{name}.svg"
    with look():
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
