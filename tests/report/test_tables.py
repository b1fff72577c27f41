"""Benchmark tables: numbers, captions, notes, and all formats."""

import csv
import io
import itertools
import math
import random
import re
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from permll.report.paper_numbers import PAPER_RESULTS, PaperResult
from permll.report.tables import TABLE_SPECS, WRITERS, build_tables, render_tables
from permll.report.tables.significance import best_methods, paired_interval
from permll.report.tables.writers import escape_latex, write_terminal
from tests.helpers.bench_rows import grid, row

SCORES = st.dictionaries(st.integers(1, 5), st.floats(0, 1), max_size=5)
COLUMNS = st.dictionaries(st.sampled_from("abcdef"), SCORES, min_size=1)


def cells(text: str) -> dict[tuple[str, ...], dict[str, str]]:
    lines = csv.DictReader(io.StringIO(text))
    return {
        tuple(line[name] for name in ("tier", "method", "variant", "data", "noise", "quantity")): line for line in lines
    }


def test_table_means_and_deviations() -> None:
    rows = grid(seeds=3)
    table_cells = cells(render_tables(rows, table="table1", format="csv"))
    assert len(table_cells) == 7 * 6
    for (tier, method, variant, data, noise, quantity), line in table_cells.items():
        values = [one["last"] for one in rows if (one["method"], one["noise"]) == (method, noise)]
        assert (tier, variant, data, quantity, line["n"]) == ("mini", "", "fashion_mnist", "last", "3")
        assert float(line["mean"]) == pytest.approx(sum(values) / 3, rel=1e-15)
        assert float(line["sd"]) == pytest.approx(
            math.sqrt(sum((v - sum(values) / 3) ** 2 for v in values) / 2), rel=1e-12
        )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_csv_table_has_full_precision(values: list[float]) -> None:
    rows = [row(seed=seed, last=value) for seed, value in enumerate(values)]
    (line,) = cells(render_tables(rows, table="table1", format="csv")).values()
    assert float(line["mean"]) == statistics.fmean(values)


@pytest.mark.parametrize("table", TABLE_SPECS)
@pytest.mark.parametrize("format_", WRITERS)
def test_tables_ignore_row_order(table: str, format_: str) -> None:
    rows = [*grid(("ce", "sop", "permll"), ("sym-60", "asym-40")), row("permll", variant="label"), row("elr", "real")]
    mixed = random.Random(0).sample(rows, len(rows))
    assert render_tables(mixed, table=table, format=format_) == render_tables(rows, table=table, format=format_)


def test_table_order_of_columns_and_lines() -> None:
    names = itertools.product(
        ("permll", "ce", "mine:Own"), ("asym-40", "sym-80", "sym-20"), ("cifar100", "fashion_mnist")
    )
    rows = [row(method, noise, data=data) for method, noise, data in names]
    (table,) = build_tables(rows, "table1")
    assert [(column.group, column.title) for column in table.columns] == [
        (f"{data}, {kind}", rate)
        for data in ("Fashion-MNIST", "CIFAR-100")
        for kind, rate in (("symmetric", "20 %"), ("symmetric", "80 %"), ("asymmetric", "40 %"))
    ]
    assert [line.title for line in table.lines] == ["Cross-entropy", "PermLL", "Own"]


def test_tables_by_tier() -> None:
    tables = build_tables(
        [row(tier="paper", data="cifar10"), row(tier="mini"), row(tier="lite", data="cifar10")], "table1"
    )
    assert [table.tier for table in tables] == ["mini", "lite", "paper"]
    assert "Tier mini: Fashion-MNIST. In parentheses: the paper's numbers for CIFAR-10" in tables[0].caption
    assert "a larger network and longer training than tier lite" in tables[1].caption
    assert tables[2].caption.endswith("Tier paper: CIFAR-10. In parentheses: the paper's numbers.")


def test_table_shows_paper_results_beside_ours() -> None:
    rows = [
        row("permll", "sym-60", last=0.5),
        row("ce", "asym-40", last=0.5),
        row("permll", "asym-40", variant="label"),
    ]
    (table,) = build_tables(rows, "table1")
    table_cells = {
        (line.title, column.noise): cell
        for line in table.lines
        for column, cell in zip(table.columns, line.cells, strict=True)
    }
    assert (
        table_cells["PermLL", "sym-60"].paper
        == PAPER_RESULTS["table1", "permll", "cifar10", "sym-60"]
        == PaperResult(87.94, 0.21)
    )
    assert (table_cells["PermLL", "asym-40"].mean, table_cells["PermLL", "asym-40"].paper) == (
        None,
        PaperResult(86.09, 0.23),
    )
    assert table_cells["PermLL (label)", "asym-40"].paper is None  # the paper's is the other variant
    text = render_tables(rows, table="table1", format="markdown")
    assert "| **50.00** (87.94) | - (86.09) |" in text
    assert "-: not run" in text


def test_table2_has_real_noise() -> None:
    rows = [row("ce", "real", data="labelme", last=0.75), row("ce", "sym-60")]
    (table,) = build_tables(rows, "table2")
    assert [column.title for column in table.columns] == ["Clothing1M", "LabelMe"]
    first, second = table.lines[0].cells
    assert (first.mean, first.paper, second.mean, second.paper) == (None, PaperResult(69.10), 0.75, None)
    assert [column.noise for column in build_tables(rows, "table1")[0].columns] == ["sym-60"]
    paper = build_tables([row("ce", "real", data="clothing1m", tier="paper")], "table2")[0]
    assert [column.title for column in paper.columns] == ["Clothing1M"]
    assert paper.lines[0].cells[0].paper == PaperResult(69.10)


def test_table_notes_fewer_seeds() -> None:
    (table,) = build_tables(
        [*grid(("ce",), ("sym-60",)), row("elr", seed=1), row("elr", seed=2, last=None)], "table1", {}
    )
    ce, elr = (line.cells[0] for line in table.lines)
    assert (ce.n, ce.note, elr.n, elr.sd, elr.note) == (3, "", 1, None, "n=1")
    assert "over 1 to 3 seeds" in table.caption
    assert any(note.startswith("n= marks") for note in table.notes)
    alone = build_tables([row()], "table1", {})[0]
    assert (alone.lines[0].cells[0].note, alone.notes[1:]) == ("", ())
    assert "over one seed" in alone.caption


def test_table_refuses_two_recipes() -> None:
    once, again = row(last=0.5), row(last=0.5, folder="runs/again")
    assert build_tables([once, again], "table1")[0].lines[0].cells[0].n == 1
    with pytest.raises(
        ValueError, match=r"mini fashion_mnist sym-60 ce, seed 1, has runs of two recipes, .*: remove one"
    ):
        build_tables([once, again | {"recipe_hash": "other"}], "table1")


@given(COLUMNS, st.sampled_from((-1, 1)))
def test_best_methods_contain_the_best(column: dict[str, dict[int, float]], better: int) -> None:
    bold = best_methods(column, better)
    means = {
        name: better * statistics.fmean(scores[s] for s in sorted(scores)) for name, scores in column.items() if scores
    }
    assert bold >= {name for name, mean in means.items() if mean == max(means.values())}
    assert bold <= means.keys()
    assert best_methods(column, 0) == set()


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6))
def test_paired_interval_equals_t_interval(pairs: list[tuple[float, float]]) -> None:
    one, other = ({seed: pair[side] for seed, pair in enumerate(pairs)} for side in (0, 1))
    interval = paired_interval({**one, 99: 0.5}, {**other, 98: 0.5})
    differences = [a - b for a, b in pairs]
    mean, n = sum(differences) / len(pairs), len(pairs)
    spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / (n - 1))
    reach = stats.t.ppf(0.975, n - 1) * spread / math.sqrt(n)
    assert interval == pytest.approx((mean - reach, mean + reach), abs=1e-9)


def test_table_marks_ties_bold() -> None:
    last = {"ce": (0.50, 0.52, 0.51), "elr": (0.80, 0.83, 0.81), "permll": (0.82, 0.82, 0.80), "sop": (0.60,)}
    rows = [row(method, seed=seed, last=value) for method, values in last.items() for seed, value in enumerate(values)]
    (table,) = build_tables(rows, "table1")
    assert {line.method for line in table.lines if line.cells[0].bold} == {"elr", "permll"}
    assert table.notes[0].startswith("Bold: the best mean, and every method whose difference")


def test_table_marks_methods_with_trusted_rows() -> None:
    (table,) = build_tables([row("glc", last=0.9), row("ce", last=0.5)], "table1")
    assert [(line.title, line.cells[0].bold) for line in table.lines] == [("Cross-entropy", True), ("GLC †", False)]
    assert any(note.startswith("† uses some rows with trusted labels") for note in table.notes)


QUANTITIES = {
    "detection": {"auroc": 0.9, "average_precision": 0.85, "f1": 0.8},
    "correction": {"right_before": 0.46, "right_after": 0.5, "correction_precision": 0.8, "correction_recall": 0.7},
    "calibration": {"ece": 0.1, "nll": 0.9, "brier": 0.3},
    "memorization": {"last_minus_best": -0.25},
    "time": {"relative_time": 1.5},
}


@pytest.mark.parametrize(("table", "numbers"), QUANTITIES.items())
def test_table_quantities(table: str, numbers: dict[str, float]) -> None:
    rows = [
        row("permll", last=0.5, memorization=0.25, seconds=30.0),
        row("ce", seconds=10.0),
        row("ce", seed=2, seconds=30.0),
    ]
    table_cells = cells(render_tables(rows, table=table, format="csv"))
    assert {key[-1]: float(line["mean"]) for key, line in table_cells.items() if key[1] == "permll"} == pytest.approx(
        numbers
    )
    built = build_tables(rows, table)[0]
    assert all(cell.paper is None for line in built.lines for cell in line.cells)


def test_table_respects_direction() -> None:
    rows = [row("ce", ece=0.3, memorization=0.2, seconds=1.0), row("permll", ece=0.1, memorization=0.0, seconds=2.0)]
    for table, bold in (("calibration", {"permll"}), ("memorization", {"permll"}), ("time", set())):
        built = build_tables(rows, table)[0]
        assert {line.method for line in built.lines if line.cells[0].bold} == bold
    assert "* oracle: the best epoch" in " ".join(build_tables(rows, "memorization")[0].notes)


def test_time_table_needs_baseline() -> None:
    (table,) = build_tables(
        [row("ce", "sym-20"), row("permll", "sym-20", seconds=10.0), row("permll", "sym-60")], "time"
    )
    assert [cell.mean for cell in table.lines[1].cells] == [0.5, None]
    (none,) = build_tables([row("permll")], "time")
    assert none.lines[0].cells[0].mean is None
    assert "No run of ce to compare with." in none.notes


def test_tables_exclude_figure3() -> None:
    rows = [row("permll"), row("permll", variant="m0.75-eta24"), row("permll", variant="m0.5-eta1.5")]
    assert [line.variant for line in build_tables(rows, "table1")[0].lines] == [""]


@pytest.mark.parametrize("table", TABLE_SPECS)
def test_latex_table_is_balanced(table: str) -> None:
    rows = [*grid(), row("glc"), row("ce", "real", data="a_b%&#{}~^\\$")]
    text = render_tables(rows, table=table, format="latex")
    for name in ("table*", "tabular", "minipage"):
        assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}") > 0
    bare = re.sub(r"\\[\\{}%&#_$]", "", text)
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert "%" not in bare.removeprefix("%")
    assert "#" not in bare
    assert "±" not in text
    for part in re.findall(r"\\begin\{tabular\}\{l(r+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        body = part[1].split("\\midrule")[1].split("\\bottomrule")[0].replace("\\&", "")
        assert {line.count("&") for line in body.split("\\\\") if line.strip()} == {len(part[0])}


@given(st.text("ab\\&%$#_{}~^<>±†", max_size=12))
def test_latex_escapes_special_characters(text: str) -> None:
    special = r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]|\$(<|>|\\pm|\\dagger)\$"
    escaped = re.sub(special, "", escape_latex(text))
    assert set(escaped) <= {"a", "b"}


def test_markdown_table() -> None:
    lines = render_tables(grid(), table="table1", format="markdown").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 7
    assert {line.count("|") for line in table} == {8}
    assert all(line.count("**") == 12 for line in table if line.startswith("| PermLL"))


def test_terminal_table_fits_width() -> None:
    tables = build_tables(grid(), "correction")
    for width in (60, 80, 200):
        text = write_terminal(tables, width)
        assert max(map(len, text.splitlines())) <= width
        assert text.count("right after") == 6 + 1  # once for each noise, and in the caption
        assert "• marks bold." in text


def test_html_table() -> None:
    rows = grid(("ce", "permll"), ("sym-60",))
    text = render_tables(rows, table="table1", format="html")
    for tag in ("figure", "figcaption", "table", "thead", "tbody", "tr", "td", "th", "b"):
        assert len(re.findall(rf"<{tag}[ >]", text)) == text.count(f"</{tag}>") > 0
    mean = build_tables(rows, "table1")[0].lines[0].cells[0].mean
    assert f'data-value="{mean!r}"' in text
    assert "<script" in render_tables([row(data="<script")], table="detection", format="csv")
    assert "<script" not in render_tables([row(data="<script"), row()], table="detection", format="html")


@pytest.mark.parametrize("arguments", [{"table": "table3", "format": "csv"}, {"table": "table1", "format": "docx"}])
def test_render_tables_refuses_unknown_names(arguments: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"unknown (table 'table3'|format 'docx'): choose one of (table1, table2|terminal, )"
    ):
        render_tables([row()], **arguments)


@pytest.mark.parametrize("format_", WRITERS)
def test_render_tables_without_rows(format_: str) -> None:
    assert render_tables([], table="table1", format=format_) == ""
    assert render_tables([row()], table="ranks", format=format_) == ""
