"""The benchmark page as a file: self-contained, complete and escaped."""

import re
from pathlib import Path
from typing import Any

from permll.report.bench_page import write_page
from permll.report.bench_plots import shade
from permll.report.metric_curves import read_metrics
from tests.helpers.bench_rows import grid, row, write_runs
from tests.helpers.html_pages import PageParser, parse_page


def write(rows: list[dict[str, Any]], folder: Path, **more: Any) -> PageParser:
    return parse_page(write_page(rows, folder / "report", **{"failures": [], "title": "A benchmark", **more}))


def test_bench_page_is_self_contained(tmp_path: Path) -> None:
    rows = write_runs(grid(("ce", "elr", "permll"), ("sym-60", "asym-40"), seeds=2), tmp_path / "mini") + [
        row("permll", variant=f"m{m:g}-eta{eta:g}", right_after=m) for m in (0.25, 0.5) for eta in (6, 24)
    ]
    page = write(rows, tmp_path)
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attributes
        assert not (attributes.get("href") or "").startswith(("http", "/", "file"))
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    references = [str(attributes["aria-labelledby"]) for _, attributes in page.tags if "aria-labelledby" in attributes]
    references += [
        str(attributes["href"])[1:] for _, attributes in page.tags if str(attributes.get("href")).startswith("#")
    ]
    assert set(references) <= set(names)
    headings = [tag for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}


def test_bench_page_lists_runs_with_commands(tmp_path: Path) -> None:
    rows = write_runs(grid(("ce", "permll"), ("sym-60",), seeds=2), tmp_path / "a b#c")
    lost = row("elr")
    page = write([*rows, lost], tmp_path)
    text = (tmp_path / "report" / "index.html").read_text()
    for job in rows:
        assert job["command"] in page.text
        assert f'href="../a%20b%23c/{Path(job["folder"]).name}"' in text
    assert lost["command"] in page.text
    assert f'title="{lost["folder"]}"' in text  # a missing run is named, not linked


def test_bench_page_draws_available_curves(tmp_path: Path) -> None:
    rows = write_runs(grid(("ce", "permll"), ("sym-60", "asym-40")), tmp_path / "mini")
    page = write([*rows, row("elr", "sym-60")], tmp_path)
    labels = [attributes["aria-label"] for tag, attributes in page.tags if tag == "svg" and "aria-label" in attributes]
    assert len(labels) == 4  # two methods in two settings; ELR has no file
    ce = next(text for text in labels if text and text.startswith("Cross-entropy"))
    assert re.fullmatch(r"Cross-entropy: test accuracy over 40 epochs, best [\d.]+ % in epoch 13, last [\d.]+ %", ce)
    assert "Accuracy over the epochs" not in write([row()], tmp_path).text


def test_read_metrics_stops_at_damaged_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1}\n{"epoch": 2}\n{"epo')
    assert read_metrics(tmp_path) == [{"epoch": 1}, {"epoch": 2}]
    assert read_metrics(tmp_path / "nowhere") == []


def test_bench_page_lists_failures_first(tmp_path: Path) -> None:
    failure = {"tier": "mini", "data": "digits", "noise": "sym-80", "method": "sop", "seed": 2,
               "sentence": "the loss is not finite.", "command": "permll train x", "traceback": None}  # fmt: skip
    page = write(grid(("ce", "permll"), ("sym-60",)), tmp_path, failures=[failure])
    headings = re.findall(r'<h2 id="(\w+)"', (tmp_path / "report" / "index.html").read_text())
    assert headings[0] == "failures"
    assert "the loss is not finite." in page.text
    assert "permll train x" in page.text
    assert "; 1 failed." in page.text


def test_bench_page_without_rows(tmp_path: Path) -> None:
    page = write([], tmp_path)
    assert "No job is finished yet." in page.text
    assert not [tag for tag, _ in page.tags if tag in ("table", "section")]


def test_bench_page_escapes_names(tmp_path: Path) -> None:
    bad = '<script>alert("x")</script>&amp;'
    job = row("ce", data=bad, command=bad, folder=bad, variant=bad, tier=bad)
    page = write([job], tmp_path, title=bad, failures=[{"method": bad, "sentence": bad, "command": bad}])
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert page.text.count(bad) > 8


def test_heat_map_marks_best_eta(tmp_path: Path) -> None:
    shares = {(6, 0.25): 0.5, (24, 0.25): 0.75, (6, 0.5): 0.625, (24, 0.5): 0.5625}
    write([row(variant=f"m{m:g}-eta{eta:g}", right_after=share) for (eta, m), share in shares.items()], tmp_path)
    text = (tmp_path / "report" / "index.html").read_text()
    cells = re.findall(r'<td( class="best-eta")? style="background:#\w+;color:#\w+">([\d.]+)</td>', text)
    assert cells == [
        (' class="best-eta"', "75.0"),
        ("", "56.2"),
        ("", "50.0"),
        (' class="best-eta"', "62.5"),
    ]  # rows by descending η
    assert 'id="table1"' not in text  # points of Figure 3 are not lines of a table


def luminance(color: str) -> float:
    """Return the relative luminance of a color #rrggbb, as WCAG defines it."""
    values = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_heat_map_text_has_contrast() -> None:
    for step in range(1001):
        back, letters = map(luminance, shade(step / 1000))
        assert (max(back, letters) + 0.05) / (min(back, letters) + 0.05) >= 4.5
