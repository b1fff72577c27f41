"""The runs behind the numbers: each with its folder and the command that repeats it; and those that failed."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from permll.report.page.html import anchor, escape, filtered_by
from permll.report.tables.builder import setting_order
from permll.report.tables.titles import (
    TIERS,
    Row,
    data_title,
    method_key,
    method_order,
    method_title,
    noise_titles,
    point,
)

HEADS = ("Method", "LabeledData", "Noise", "Seed", "Last, %", "Best*, %", "Epochs", "Seconds", "Run", "Command")
WORDS = {"Method", "LabeledData", "Noise", "Run", "Command", "Setting", "What happened"}  # heads of columns of words


def runs_table(rows: Iterable[Row], page: Path) -> str:
    """Return all cells as a table; links lead from the page's folder to the runs that are there."""
    lines, named = [], set()
    for row in sorted(rows, key=_order):
        name = anchor(row["tier"], method_key(row), row["data"], row["noise"])
        lines.append(_line(row, page, "" if name in named else f' id="{name}"'))
        named.add(name)
    heads = "".join(_head(head, sort=head != "Command") for head in HEADS)
    return (
        '<div class="scroll tall" role="region" aria-labelledby="runs-caption" tabindex="0">'
        f'<table class="sortable" aria-labelledby="runs-caption"><thead><tr>{heads}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + '\n</tbody></table></div>\n<ul class="notes"><li>* an oracle\'s choice: the best epoch is picked by the test '
        "labels, which no user has.</li></ul>"
    )


def failures_table(failures: Sequence[Mapping[str, Any]], page: Path) -> str:
    """Return what failed: which cell, why, and the command that tries it again."""
    lines = []
    for one in failures:
        key = (str(one.get("method") or "?"), str(one.get("variant") or ""))
        where = " ".join(str(one[name]) for name in ("tier", "data", "noise") if one.get(name))
        trace = _link(one["traceback"], page, "traceback") if one.get("traceback") else ""
        cells = [
            f'<th scope="row">{escape(method_title(key))}</th>',
            f'<td class="words">{escape(where)}</td>',
            f"<td>{escape(one.get('seed', ''))}</td>",
            f'<td class="words long">{escape(one.get("sentence") or "")} {trace}</td>',
            f'<td class="words">{_command(one.get("command"))}</td>',
        ]
        lines.append(f"<tr {filtered_by(key)}>{''.join(cells)}</tr>")
    heads = "".join(_head(head, sort=False) for head in ("Method", "Setting", "Seed", "What happened", "Command"))
    return (
        '<div class="scroll" role="region" aria-labelledby="failures" tabindex="0"><table aria-labelledby="failures">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _head(head: str, *, sort: bool) -> str:
    words = ' class="words"' if head in WORDS else ""
    return f'<th scope="col"{words}{" data-sort" * sort}>{head}</th>'


def _order(row: Row) -> tuple[Any, ...]:
    tier = TIERS.index(row["tier"]) if row["tier"] in TIERS else len(TIERS)
    return tier, row["tier"], method_order(method_key(row)), setting_order((row["data"], row["noise"])), row["seed"]


def _line(row: Row, page: Path, name: str) -> str:
    key = method_key(row)
    cells = [
        f'<td class="words">{escape(data_title(row["data"]))}</td>',
        f'<td class="words">{escape(" ".join(noise_titles(row["noise"])))}</td>',
        f'<td data-value="{escape(row["seed"])}">{escape(row["seed"])}</td>',
        _number(row.get("last"), 100, 2),
        _number(row.get("best_test"), 100, 2),
        _number(row.get("epochs"), 1, 0),
        _number(row.get("seconds"), 1, 1),
        f'<td class="words">{_link(row["folder"], page, Path(row["folder"]).name) if row.get("folder") else "-"}</td>',
        f'<td class="words">{_command(row.get("command"))}</td>',
    ]
    found_by = filtered_by((key[0], "") if point(row) else key)  # settings of Figure 3 are no methods of their own
    return f'<tr{name} {found_by}><th scope="row">{escape(method_title(key))}</th>{"".join(cells)}</tr>'


def _number(value: float | None, scale: float, digits: int) -> str:
    if value is None:
        return '<td class="empty">-</td>'
    return f'<td data-value="{value!r}">{scale * value:.{digits}f}</td>'


def _link(target: str, page: Path, text: str) -> str:
    """Return a link to a file or folder, or its name where there is none: a page may travel without its runs."""
    if not Path(target).exists():
        return f'<span title="{escape(target)}">{escape(text)}</span>'
    relative = Path(os.path.relpath(Path(target).resolve(), page.resolve())).as_posix()
    return f'<a href="{escape(quote(relative))}">{escape(text)}</a>'


def _command(command: str | None) -> str:
    if not command:
        return "-"
    button = '<button type="button" class="copy">Copy</button>'
    return f'<span class="command">{button}<code>{escape(command)}</code></span>'
