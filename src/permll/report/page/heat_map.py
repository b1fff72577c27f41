"""Figure 3 on the page: right labels over η and m, a table whose cells are as dark as they are good."""

import statistics
from collections.abc import Iterable, Sequence

from permll.report.page.html import escape
from permll.report.tables.titles import Point, Row, point, setting_title

LIGHT, DARK = (243, 246, 251), (20, 33, 61)  # the ends of the figures' shades
BLACK, WHITE = "#000000", "#ffffff"
HALF = 0.179  # the luminance at which black and white letters are equally legible, 4.6 : 1


def heat_maps(rows: Iterable[Row]) -> str:
    """Return a map for each setting in which η and m were varied; nothing without such cells."""
    found: dict[tuple[str, str, str], dict[Point, list[float]]] = {}
    for row in rows:
        where = point(row)
        if where is not None and row.get("right_after") is not None:
            setting = (row["tier"], row["data"], row["noise"])
            found.setdefault(setting, {}).setdefault(where, []).append(row["right_after"])
    return "\n".join(_map(setting, cells) for setting, cells in sorted(found.items()))


def shade(part: float) -> tuple[str, str]:
    """Return background and letters for a part of the way from light to dark.

    Examples:
        >>> shade(0.0), shade(1.0)
        (('#f3f6fb', '#000000'), ('#14213d', '#ffffff'))
    """
    mixed = [round(light + part * (dark - light)) for light, dark in zip(LIGHT, DARK, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed), BLACK if luminance(mixed) > HALF else WHITE


def luminance(color: Sequence[int]) -> float:
    """Return the relative luminance of a colour of three channels from 0 to 255, as WCAG defines it.

    Examples:
        >>> luminance((0, 0, 0)), luminance((255, 255, 255))
        (0.0, 1.0)
    """
    parts = (channel / 255 for channel in color)
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 12)


def _map(setting: tuple[str, str, str], cells: dict[Point, list[float]]) -> str:
    tier, data, noise = setting
    means = {where: statistics.fmean(shares) for where, shares in cells.items()}
    etas, ms = sorted({where.eta for where in means}, reverse=True), sorted({where.m for where in means})
    low, high = min(means.values()), max(means.values())
    ridge = {max((where for where in means if where.m == m), key=means.__getitem__) for m in ms}
    lines = []
    for eta in etas:
        line = [f'<th scope="row">{eta:g}</th>']
        for m in ms:
            share = means.get(Point(eta, m))
            if share is None:
                line.append('<td class="empty">-</td>')
                continue
            back, letters = shade((share - low) / (high - low) if high > low else 0.0)
            name = ' class="ridge"' if Point(eta, m) in ridge else ""
            line.append(f'<td{name} style="background:{back};color:{letters}">{100 * share:.1f}</td>')
        lines.append(f"<tr>{''.join(line)}</tr>")
    heads = "".join(f'<th scope="col">{m:g}</th>' for m in ms)
    title = f"{setting_title(data, noise)}, tier {tier}"
    said = "right training labels after the last epoch in per cent; down: η, across: m; framed: the best η for each m."
    name = f"heat-{escape(tier)}-{escape(data)}-{escape(noise)}"
    return (
        f'<figure class="heat"><figcaption id="{name}"><strong>{escape(title)}</strong>: {said}</figcaption>'
        f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0"><table aria-labelledby="{name}">'
        f'<thead><tr><th scope="col">η \\ m</th>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
        "</figure>"
    )
