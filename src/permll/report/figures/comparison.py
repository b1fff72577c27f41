"""Methods side by side: the accuracy each ends with, what it had at its best, and how far seeds differ."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from permll.report.figures.style import ACCENT, INK, MUTED, look, panel_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Scores(NamedTuple):
    """Test accuracies of one method, in [0, 1], one for each seed."""

    last: Sequence[float]
    best: Sequence[float]


Panels = Mapping[str, Mapping[str, Scores]]  # by title, then by method


def ranking(panels: Panels) -> list[str]:
    """Return the methods by the mean of their last accuracies over the panels they are in, the highest first.

    Examples:
        >>> ranking({"a": {"ce": Scores([0.5], [0.7]), "elr": Scores([0.6, 0.8], [0.7, 0.8])}})
        ['elr', 'ce']
    """
    means: dict[str, list[float]] = {}
    for methods in panels.values():
        for name, scores in methods.items():
            means.setdefault(name, []).append(statistics.mean(scores.last))
    return sorted(means, key=lambda name: -statistics.mean(means[name]))


def draw_comparison(panels: Panels, titles: Mapping[str, str], *, ours: str = "permll", base: str = "ce") -> "Figure":
    """Draw a row for each method and a panel for each problem: a dot where training ends, a ring at its best epoch.

    Args:
        panels: what to draw, by the title of a panel and the name of a method.
        titles: what to call the methods.
        ours: the method that is set off.
        base: the method whose last accuracy is drawn through all rows.
    """
    order = ranking(panels)
    if not order:
        raise ValueError("there is nothing to draw: no method has a result.")
    with look():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        size = (1.6 + 3.3 * len(panels), 1.1 + 0.215 * len(order))
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for letter, (title, methods), axes in zip("abcdefgh", panels.items(), grid, strict=False):
            _draw_panel(axes, methods, order, ours, base)
            panel_title(axes, letter, title, "dot: last epoch, all seeds; ring: best epoch")
        grid[0].set_yticks(range(len(order)), [titles.get(name, name) for name in order])
        grid[0].set_ylim(len(order) - 0.4, -0.6)
        for label, name in zip(grid[0].get_yticklabels(), order, strict=True):
            label.set_fontweight("bold" if name == ours else "normal")
    return figure


def _draw_panel(axes: "Axes", methods: Mapping[str, Scores], order: Sequence[str], ours: str, base: str) -> None:
    if base in methods:
        level = 100 * statistics.mean(methods[base].last)
        axes.axvline(level, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    for row, name in enumerate(order):
        if name not in methods:
            continue
        last, best = ([100 * value for value in values] for values in methods[name])
        color = ACCENT if name == ours else INK
        axes.plot([statistics.mean(last), statistics.mean(best)], [row, row], color=color, linewidth=0.8, alpha=0.6)
        axes.plot(statistics.mean(best), row, "o", markersize=5.5, markerfacecolor="white", markeredgecolor=color)
        axes.plot(last, [row] * len(last), "o", markersize=3.2, color=color, alpha=0.8)
    axes.set_xlabel("test accuracy, %")
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.04)
