"""Comparison of methods: test accuracy of the last and of the best epoch, for all seeds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from permll.report.figures.style import ACCENT, INK, MUTED, figure_style, make_figure, panel_title

HIGHLIGHT = "permll"  # in the accent color
BASELINE = "ce"  # its last accuracy is drawn as a vertical line


class Scores(NamedTuple):
    """Test accuracies of one method in [0, 1], one per seed."""

    last: Sequence[float]
    best: Sequence[float]


Panels = Mapping[str, Mapping[str, Scores]]  # by title, then by method


def rank_by_accuracy(panels: Panels) -> list[str]:
    """Return the methods by mean accuracy of the last epoch over their panels, the highest first.

    Examples:
        >>> rank_by_accuracy({"a": {"ce": Scores([0.5], [0.7]), "elr": Scores([0.6, 0.8], [0.7, 0.8])}})
        ['elr', 'ce']
    """
    means: dict[str, list[float]] = {}
    for methods in panels.values():
        for name, scores in methods.items():
            means.setdefault(name, []).append(statistics.mean(scores.last))
    return sorted(means, key=lambda name: -statistics.mean(means[name]))


@figure_style()
def draw_comparison(panels: Panels, titles: Mapping[str, str]) -> Figure:
    """Draw a row per method and a panel per problem: dots for the last epoch, a ring for the best.

    Args:
        panels: scores by panel title and method name.
        titles: titles of the methods.
    """
    order = rank_by_accuracy(panels)
    if not order:
        raise ValueError("there is nothing to draw: no method has a result.")
    figure = make_figure(1.6 + 3.3 * len(panels), 1.1 + 0.215 * len(order), w_pad=0.08)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for letter, (title, methods), axes in zip("abcdefgh", panels.items(), grid, strict=False):
        _draw_panel(axes, methods, order)
        panel_title(axes, letter, title, "dot: last epoch, all seeds; ring: best epoch")
    grid[0].set_yticks(range(len(order)), [titles.get(name, name) for name in order])
    grid[0].set_ylim(len(order) - 0.4, -0.6)
    for label, name in zip(grid[0].get_yticklabels(), order, strict=True):
        label.set_fontweight("bold" if name == HIGHLIGHT else "normal")
    return figure


def _draw_panel(axes: Axes, methods: Mapping[str, Scores], order: Sequence[str]) -> None:
    if BASELINE in methods:
        level = 100 * statistics.mean(methods[BASELINE].last)
        axes.axvline(level, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    for row, name in enumerate(order):
        if name not in methods:
            continue
        last, best = ([100 * value for value in values] for values in methods[name])
        color = ACCENT if name == HIGHLIGHT else INK
        axes.plot([statistics.mean(last), statistics.mean(best)], [row, row], color=color, linewidth=0.8, alpha=0.6)
        axes.plot(statistics.mean(best), row, "o", markersize=5.5, markerfacecolor="white", markeredgecolor=color)
        axes.plot(last, [row] * len(last), "o", markersize=3.2, color=color, alpha=0.8)
    axes.set_xlabel("test accuracy, %")
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.04)
