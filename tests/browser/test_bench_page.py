"""The benchmark page in a real browser: sorting, filtering, copying, phones, print."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from permll.report.bench_page import write_page
from tests.helpers.bench_rows import grid, row, write_runs
from tests.helpers.browser import DESKTOP, FIND_LOW_CONTRAST, PHONE

TABLE = "#table1-mini table"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bench")
    rows = write_runs(grid(("ce", "elr", "permll"), ("sym-20", "sym-60", "asym-40"), seeds=2), folder / "mini")
    rows += [row("sop", "sym-60", 1, 0.99)]  # in one column only, and without a folder
    rows += [row("permll", variant=f"m{m:g}-eta{eta:g}", right_after=m) for m in (0.25, 0.5) for eta in (6, 24)]
    failure = {
        "method": "unicon",
        "tier": "mini",
        "sentence": "the loss is not finite.",
        "command": "permll train " + "x" * 300,
    }
    return write_page(rows, folder / "report", failures=[failure], title="table1 at tier mini").as_uri()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """Open the page offline; fail if it logs something or requests anything else."""
    context = browser.new_context(viewport=DESKTOP, offline=True)
    tab = context.new_page()
    problems: list[str] = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: problems.append(request.url) if request.url != address else None)
    tab.goto(address)
    yield tab
    context.close()
    assert problems == []


def visible_cells(page: Any, column: int) -> list[str]:
    """Return the visible cells of a column of Table 1."""
    return page.eval_on_selector_all(
        f"{TABLE} tbody tr:not([hidden])", f"rows => rows.map(row => row.cells[{column}].textContent.trim())"
    )


def heading(page: Any, column: int) -> Any:
    return page.locator(f"{TABLE} thead tr:last-child th").nth(column)


def test_bench_page_sorts_by_mouse_and_keyboard(page: Any) -> None:
    before = visible_cells(page, 0)
    assert before == ["Cross-entropy", "ELR", "SOP", "PermLL"]
    column = heading(page, 2)  # symmetric 60 %, where SOP is best
    assert column.get_attribute("aria-sort") is None
    column.locator("button").click()
    assert column.get_attribute("aria-sort") == "descending"
    assert visible_cells(page, 0) == ["SOP", "PermLL", "ELR", "Cross-entropy"]
    column.locator("button").press("Enter")
    assert column.get_attribute("aria-sort") == "ascending"
    assert visible_cells(page, 0) == ["Cross-entropy", "ELR", "PermLL", "SOP"]
    other = heading(page, 1)
    for direction in ("descending", "ascending"):
        other.locator("button").press("Space")
        assert other.get_attribute("aria-sort") == direction
        assert visible_cells(page, 0)[-1] == "SOP"  # without a number: last in both directions
    assert column.get_attribute("aria-sort") is None
    heading(page, 0).locator("button").click()
    assert visible_cells(page, 0) == sorted(before)


def test_bench_page_filters_methods(page: Any) -> None:
    page.fill("#filter", "permll, EL")
    assert visible_cells(page, 0) == ["ELR", "PermLL"]
    assert page.inner_text("#filtered") == "2 of 5 methods"
    names = page.eval_on_selector_all(".panel:not([hidden])", "all => all.map(one => one.dataset.method)")
    assert set(names) == {"elr  elr", "permll  permll"}
    page.fill("#filter", "")
    assert len(visible_cells(page, 0)) == 4


def test_bench_page_copies_command(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line = page.locator(".section-runs tbody tr").first
    line.locator("button.copy").click()
    line.locator("button.copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == line.locator("code").inner_text()


def test_bench_page_links_numbers_to_runs(page: Any) -> None:
    page.locator(f"{TABLE} tbody tr", has_text="PermLL").locator("td a").first.click()
    line = page.locator(".section-runs tr:target")
    assert "PermLL" in line.inner_text()
    folder = Path(page.evaluate("decodeURIComponent(new URL(document.querySelector('tr:target a').href).pathname)"))
    assert (folder / "metrics.jsonl").is_file()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bench_page_fits_phone(page: Any, scheme: str) -> None:
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    boxes = page.eval_on_selector_all(
        ".scroll", "all => all.map(box => [box.scrollWidth, box.clientWidth, box.tabIndex])"
    )
    assert any(wide > seen for wide, seen, _ in boxes)
    assert all(seen <= PHONE["width"] and order == 0 for _, seen, order in boxes)  # reachable by keyboard


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bench_page_text_has_contrast(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    low = page.evaluate(FIND_LOW_CONTRAST)
    assert low == []


def test_bench_page_prints_everything(page: Any) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.eval_on_selector_all("details", "all => all.every(part => part.open)")
    assert page.eval_on_selector_all(
        ".scroll", "all => all.every(box => getComputedStyle(box).overflowX === 'visible')"
    )
    assert not page.locator("#filter").is_visible()
