"""The page of findings in a real browser: it filters, copies, fits a phone, prints, and complains of nothing."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from permll.cleaning.html_report import write_report
from permll.cleaning.source_data import load_source
from permll.findings import Findings
from tests.browser.test_bench_page import CONTRAST, DESK, PHONE
from tests.helpers.review_runs import KINDS, make_run
from tests.report.test_findings_page import some, written

Open = Callable[..., Any]
COMMAND = "permll apply runs/photos-permll-0 --auto --min-probability 0.95 --out new-photos --skip-unreadable"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a page of 100 of 140 flagged labels in three classes."""
    folder = tmp_path_factory.mktemp("findings")
    classes = ("ant", "bee, the " + "very " * 20 + "long", "<b>cat</b>")
    ids = [f"{'x' * 150}/{row}.jpg" for row in range(400)]
    written(
        folder, some(400, classes, wrong=140, ids=ids, duplicates=((0, 1),), metadata={"transition": [[1 / 3] * 3] * 3})
    )
    return folder


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page of 100 of 140 flagged labels in twelve classes, with names of several words and of one long one."""
    folder = tmp_path_factory.mktemp("wide")
    classes = ("3", "8", "Ankle boot", "T-shirt/top", "W" * 40, *(f"kind of thing {k}" for k in range(7)))
    written(folder, some(400, classes, wrong=140), commands=[("Next:", COMMAND)])
    return folder / "report.html"


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Return a function that opens a file without a network; fail if a page complains or asks for anything else."""
    contexts: list[Any] = []
    troubles: list[str] = []

    def open_page(path: Path, **options: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": DESK, "offline": True} | options))
        page = contexts[-1].new_page()
        address = path.as_uri()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda asked: None if asked.url == address or asked.url.startswith("data:") else troubles.append(asked.url),
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(visit: Open, folder: Path) -> Any:
    return visit(folder / "report.html")


def pairs(page: Any) -> list[str]:
    """Return the pairs of the cards that are to be seen."""
    found: list[str] = page.eval_on_selector_all(
        ".card", "all => all.filter(c => c.offsetParent).map(c => c.dataset.pair)"
    )
    return found


def test_a_click_on_the_matrix_shows_its_samples(page: Any) -> None:
    every = pairs(page)
    assert len(every) == 100
    cell = page.locator("td[data-pair] button").first
    words = cell.get_attribute("aria-label")
    pair = page.locator("td[data-pair]").first.get_attribute("data-pair")
    cell.click()
    assert cell.get_attribute("aria-pressed") == "true"
    assert pairs(page) == [one for one in every if one == pair]
    assert page.locator("#pair").input_value() == pair
    count, flagged = every.count(pair), re.search(r"(\d+) labels$", words)
    assert flagged is not None
    assert page.inner_text("#filtered") == f"{count} of 100 shown; {flagged[1]} are flagged in all"
    assert page.evaluate("document.getElementById('suspects').getBoundingClientRect().top") < DESK["height"] / 3
    cell.press("Enter")  # by keyboard, and again is back
    assert pairs(page) == every
    assert page.inner_text("#filtered") == ""


def test_a_number_whose_samples_are_not_shown_says_so(visit: Open, wide: Path) -> None:
    page = visit(wide)
    cells = page.locator("td.few")
    assert cells.count() > 0
    assert cells.locator("button").count() == 0
    assert str(cells.first.get_attribute("title")).endswith(", none of them among the 100 shown")
    assert cells.first.evaluate("cell => getComputedStyle(cell).cursor") == "default"
    said = page.inner_text("#mixed-up-said")
    assert said.endswith("Of the others none is among the 100 shown below; findings.csv has them.")


def test_every_number_has_samples_and_nothing_is_excused(page: Any) -> None:
    assert page.locator("td.few").count() == 0
    assert page.inner_text("#mixed-up-said").endswith("A click on a bold number shows its samples.")


@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_labels_on_cards_stand_in_two_lines_whatever_their_names(visit: Open, wide: Path, width: int) -> None:
    page = visit(wide, viewport={"width": width, "height": 844})
    untidy = page.eval_on_selector_all(
        ".judged",
        """all => all.filter(judged => {
          const [given, arrow, proposed] = [...judged.children].map(part => part.getBoundingClientRect());
          const names = [...judged.querySelectorAll("bdi")], chances = [...judged.querySelectorAll("small")];
          const top = (part) => part.getClientRects()[0].top;
          return judged.scrollWidth > judged.clientWidth || arrow.top < given.bottom || arrow.right > proposed.left
            || Math.abs(arrow.top - proposed.top) > 4
            || names.some((name, k) => Math.abs(top(name) - top(chances[k])) > 6);
        }).map(judged => judged.textContent)""",
    )
    assert untidy == []


def test_on_a_phone_a_wide_table_fades_on_the_side_where_more_is(visit: Open, wide: Path) -> None:
    page = visit(wide, viewport=PHONE)
    box = page.locator(".heat .scroll").first
    faded = "box => getComputedStyle(box).maskImage"
    edge = "box => getComputedStyle(box.querySelector('tbody th')).boxShadow"
    page.wait_for_selector(".heat .scroll.further")
    assert "linear-gradient" in box.evaluate(faded)
    assert box.evaluate(edge) == "none"
    box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    page.wait_for_selector(".heat .scroll.onward:not(.further)")
    assert box.evaluate(faded) == "none"
    assert "inset" in box.evaluate(edge)
    page.set_viewport_size({"width": 2000, "height": 900})  # where all of it is seen, nothing fades
    page.wait_for_selector(".heat .scroll:not(.onward):not(.further)")


def test_a_command_breaks_between_words_only_and_is_still_one(visit: Open, wide: Path) -> None:
    page = visit(wide, viewport=PHONE)
    words = page.locator(".next code span")
    assert words.all_inner_texts() == COMMAND.split()
    assert words.evaluate_all("all => all.every(word => word.offsetHeight < 1.5 * all[0].offsetHeight)")
    assert page.locator(".next code").evaluate("code => code.offsetHeight > 2 * code.firstChild.offsetHeight")
    selected = "getSelection().selectAllChildren(document.querySelector('.next code')), getSelection().toString()"
    assert page.evaluate(selected) == COMMAND


def test_samples_are_found_by_id_and_class_and_all_come_back(page: Any) -> None:
    page.fill("#words", "x/77.JPG")
    assert len(pairs(page)) == 1
    assert page.inner_text("#filtered") == "1 of 100 shown"
    page.fill("#words", "x/77.jpg nobody")
    assert pairs(page) == []
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function("document.querySelectorAll('.card:not([hidden])').length === 100")
    page.fill("#words", "<b>cat")
    assert pairs(page)
    assert all("2" in pair.split("-") for pair in pairs(page))
    page.fill("#words", "")
    page.select_option("#pair", "0-1")
    assert set(pairs(page)) == {"0-1"}
    assert page.locator("td[data-pair='0-1'] button").get_attribute("aria-pressed") == "true"


def test_a_command_is_copied_and_classes_sort(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("button.copy").first.click()
    page.locator("button.copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "permll review run"
    page.get_by_role("button", name="Flagged").click()
    counts = page.eval_on_selector_all(
        ".classes tbody tr", "rows => rows.map(row => Number(row.cells[2].dataset.value))"
    )
    assert counts == sorted(counts, reverse=True)


def test_without_scripts_everything_is_shown(visit: Open, folder: Path) -> None:
    page = visit(folder / "report.html", java_script_enabled=False)
    assert page.locator(".card").count() == 100
    assert page.locator(".card").last.is_visible()
    for gone in (".filter", ".copy", ".hint"):
        assert not page.locator(gone).first.is_visible()
    assert page.locator("td[data-pair]").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_tables_scroll_and_the_page_does_not(visit: Open, folder: Path, scheme: str) -> None:
    page = visit(folder / "report.html", viewport=PHONE, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.evaluate(CONTRAST) == []
    page.locator("td[data-pair] button").first.click()
    assert page.evaluate(CONTRAST) == []
    assert page.eval_on_selector_all(
        ".scroll", "all => all.every(box => box.tabIndex === 0)"
    )  # the keyboard reaches them
    papers = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 31)"}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == papers[scheme]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_is_seen(visit: Open, kind: str, tmp_path: Path) -> None:
    run = make_run(kind, tmp_path)
    page = visit(write_report(run.folder, Findings.load(run.folder), load_source(run)), viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    content = {"images": "img", "texts": ".text", "table": ".cells", "vectors": ".numbers"}
    assert page.locator(f".card {content[kind]}").first.is_visible()
    if kind == "images":
        assert page.evaluate("document.querySelector('.card img').decode().then(() => true)")
        assert page.evaluate("document.querySelector('.card img').naturalWidth") == 120
    if kind == "texts":  # what would be markup is text
        assert "<script>document.title = 'broken'</script>" in page.locator(".card .text").first.inner_text()
        assert page.locator(".card").locator("script, b, i, u").count() == 0
        assert page.title() == "14 of 40 labels are flagged · texts"


def test_on_paper_all_is_open_and_nothing_scrolls(page: Any) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.eval_on_selector_all("details", "all => all.every(part => part.open)")
    assert page.eval_on_selector_all(
        ".scroll", "all => all.every(box => getComputedStyle(box).overflowX === 'visible')"
    )
    for gone in ("#pair", "nav", ".copy", ".hint"):
        assert not page.locator(gone).first.is_visible()
