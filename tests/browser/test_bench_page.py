"""The page of a benchmark in a real browser: it sorts, filters, copies, fits a phone, and complains of nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from permll.report.bench_page import write_page
from tests.helpers.bench_rows import grid, row, write_runs

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
TABLE = "#table1-mini table"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bench")
    rows = write_runs(grid(("ce", "elr", "permll"), ("sym-20", "sym-60", "asym-40"), seeds=2), folder / "mini")
    rows += [row("sop", "sym-60", 1, 0.99)]  # in one column alone, and without a folder
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
    """Open the page without a network, and fail if it complains or asks for anything beyond itself."""
    context = browser.new_context(viewport=DESK, offline=True)
    opened = context.new_page()
    troubles: list[str] = []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda request: troubles.append(request.url) if request.url != address else None)
    opened.goto(address)
    yield opened
    context.close()
    assert troubles == []


def shown(page: Any, place: int) -> list[str]:
    """Return the cells of a column of Table 1 from above, those that are to be seen."""
    return page.eval_on_selector_all(
        f"{TABLE} tbody tr:not([hidden])", f"rows => rows.map(row => row.cells[{place}].textContent.trim())"
    )


def head(page: Any, place: int) -> Any:
    return page.locator(f"{TABLE} thead tr:last-child th").nth(place)


def test_columns_sort_by_click_and_by_keyboard_and_say_so(page: Any) -> None:
    before = shown(page, 0)
    assert before == ["Cross-entropy", "ELR", "SOP", "PermLL"]
    column = head(page, 2)  # symmetric 60 %, where SOP is best
    assert column.get_attribute("aria-sort") is None
    column.locator("button").click()
    assert column.get_attribute("aria-sort") == "descending"
    assert shown(page, 0) == ["SOP", "PermLL", "ELR", "Cross-entropy"]
    column.locator("button").press("Enter")
    assert column.get_attribute("aria-sort") == "ascending"
    assert shown(page, 0) == ["Cross-entropy", "ELR", "PermLL", "SOP"]
    other = head(page, 1)
    for direction in ("descending", "ascending"):
        other.locator("button").press("Space")
        assert other.get_attribute("aria-sort") == direction
        assert shown(page, 0)[-1] == "SOP"  # without a number there: last in both directions
    assert column.get_attribute("aria-sort") is None
    head(page, 0).locator("button").click()
    assert shown(page, 0) == sorted(before)


def test_the_filter_keeps_what_is_asked_for_everywhere(page: Any) -> None:
    page.fill("#filter", "permll, EL")
    assert shown(page, 0) == ["ELR", "PermLL"]
    assert page.inner_text("#filtered") == "2 of 5 methods"
    names = page.eval_on_selector_all(".panel:not([hidden])", "all => all.map(one => one.dataset.method)")
    assert set(names) == {"elr  elr", "permll  permll"}
    page.fill("#filter", "")
    assert len(shown(page, 0)) == 4


def test_a_command_is_copied_as_it_is(page: Any, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line = page.locator(".of-runs tbody tr").first
    line.locator("button.copy").click()
    line.locator("button.copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == line.locator("code").inner_text()


def test_a_number_leads_to_its_runs_and_these_to_their_folders(page: Any) -> None:
    page.locator(f"{TABLE} tbody tr", has_text="PermLL").locator("td a").first.click()
    line = page.locator(".of-runs tr:target")
    assert "PermLL" in line.inner_text()
    folder = Path(page.evaluate("decodeURIComponent(new URL(document.querySelector('tr:target a').href).pathname)"))
    assert (folder / "metrics.jsonl").is_file()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_tables_scroll_and_the_page_does_not(page: Any, scheme: str) -> None:
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    boxes = page.eval_on_selector_all(
        ".scroll", "all => all.map(box => [box.scrollWidth, box.clientWidth, box.tabIndex])"
    )
    assert any(wide > seen for wide, seen, _ in boxes)
    assert all(seen <= PHONE["width"] and order == 0 for _, seen, order in boxes)  # and the keyboard reaches them


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    faint = page.evaluate(CONTRAST)
    assert faint == []


def test_on_paper_all_is_open_and_nothing_scrolls(page: Any) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.eval_on_selector_all("details", "all => all.every(part => part.open)")
    assert page.eval_on_selector_all(
        ".scroll", "all => all.every(box => getComputedStyle(box).overflowX === 'visible')"
    )
    assert not page.locator("#filter").is_visible()


# Every text that is seen, against all backgrounds behind it: 4.5 : 1, as WCAG asks of normal text.
CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      layers.unshift(channels(getComputedStyle(one).backgroundColor));
      if ((layers[0][3] ?? 1) === 1) break;
    }
    const mixed = (below, [r, g, b, alpha = 1]) => [r, g, b].map((c, k) => alpha * c + (1 - alpha) * below[k]);
    return layers.reduce(mixed);
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("script, svg") || !element.offsetParent) continue;
    const [one, other] = [channels(getComputedStyle(element).color), behind(element)].map(light).sort((a, b) => a - b);
    if ((other + 0.05) / (one + 0.05) < 4.5) faint.push(element.outerHTML.slice(0, 100));
  }
  return faint;
}"""
