"""The report of findings in a real browser: filtering, copying, phones, print."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from permll.cleaning.html_report import make_report
from permll.cleaning.source import load_source
from permll.findings import Findings
from permll.report import findings_page
from tests.helpers.browser import DESKTOP, FIND_LOW_CONTRAST, PHONE
from tests.helpers.findings_data import make_findings, write_findings_page
from tests.helpers.review_runs import KINDS, make_run

OpenPage = Callable[..., Any]
COMMAND = "permll apply runs/photos-permll-0 --auto --min-probability 0.95 --out new-photos --skip-unreadable"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a page of 100 of 140 flagged labels in three classes."""
    folder = tmp_path_factory.mktemp("findings")
    classes = ("ant", "bee, the " + "very " * 20 + "long", "<b>cat</b>")
    ids = [f"{'x' * 150}/{row}.jpg" for row in range(400)]
    metadata = {"transition": [[1 / 3] * 3] * 3}
    findings = make_findings(400, classes, wrong=140, ids=ids, duplicates=((0, 1),), metadata=metadata)
    write_findings_page(folder, findings)
    return folder


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page of 100 of 140 flagged labels in twelve classes, with names of several words and of one long one."""
    folder = tmp_path_factory.mktemp("wide")
    classes = ("3", "8", "Ankle boot", "T-shirt/top", "W" * 40, *(f"kind of thing {k}" for k in range(7)))
    write_findings_page(folder, make_findings(400, classes, wrong=140), commands=[("Next:", COMMAND)])
    return folder / "report.html"


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Return a function that opens a file offline; fail if a page logs something or requests anything else."""
    contexts: list[Any] = []
    problems: list[str] = []

    def open_file(path: Path, **options: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": DESKTOP, "offline": True} | options))
        page = contexts[-1].new_page()
        address = path.as_uri()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if request.url == address or request.url.startswith("data:") else problems.append(request.url)
            ),
        )
        page.goto(address)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def page(open_page: OpenPage, folder: Path) -> Any:
    return open_page(folder / "report.html")


def pairs(page: Any) -> list[str]:
    """Return the pairs of the visible cards."""
    found: list[str] = page.eval_on_selector_all(
        ".card", "all => all.filter(c => c.offsetParent).map(c => c.dataset.pair)"
    )
    return found


def test_report_filters_by_matrix_cell(page: Any) -> None:
    every = pairs(page)
    assert len(every) == 100
    cell = page.locator("td[data-pair] button").first
    words = cell.get_attribute("aria-label")
    pair = page.locator("td[data-pair]").first.get_attribute("data-pair")
    cell.click()
    assert cell.get_attribute("aria-pressed") == "true"
    shown, flagged = pairs(page), int(re.search(r"(\d+) labels$", words)[1])
    assert set(shown) == {pair}
    assert every.count(pair) <= len(shown) <= flagged
    assert page.locator("#pair").input_value() == pair
    all_shown = "" if len(shown) == flagged else f" of {flagged} flagged labels"
    assert page.inner_text("#filtered") == f"{len(shown)}{all_shown or ' flagged'}"
    assert page.evaluate("document.getElementById('issues').getBoundingClientRect().top") < DESKTOP["height"] / 3
    cell.press("Enter")  # by keyboard; resets the filter
    assert pairs(page) == every
    assert page.inner_text("#filtered") == ""


def test_every_cell_opens_its_samples(open_page: OpenPage, wide: Path) -> None:
    page = open_page(wide)
    assert page.locator("td.not-shown").count() == 0
    cells = page.locator("td[data-pair]")
    numbers = [int(text) for text in cells.all_inner_texts()]
    assert sum(numbers) == 140  # all flagged labels
    hidden = 0
    for place, number in enumerate(numbers):
        before = set(pairs(page))
        cells.nth(place).locator("button").click()
        assert pairs(page) == [cells.nth(place).get_attribute("data-pair")] * number
        hidden += cells.nth(place).get_attribute("data-pair") not in before
        cells.nth(place).locator("button").click()
    assert hidden > 0  # not all of them have samples among the first


def test_report_marks_cells_without_cards(open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_page, "MAX_MORE_CARDS", 3)
    write_findings_page(tmp_path, make_findings(400, tuple(f"kind {k}" for k in range(12)), wrong=140))
    page = open_page(tmp_path / "report.html")
    cells = page.locator("td.not-shown")
    assert cells.count() > 0
    assert cells.locator("button").count() == 0
    assert str(cells.first.get_attribute("title")).endswith("; none of them among the samples below")
    assert cells.first.evaluate("cell => getComputedStyle(cell).cursor") == "default"
    caption = page.inner_text("#confusion-matrix-caption")
    assert caption.endswith("The samples of the other numbers are in findings.csv and in the matrix of permll review.")


def test_report_has_no_remark_if_all_cells_have_cards(page: Any) -> None:
    assert page.locator("td.not-shown").count() == 0
    assert page.inner_text("#confusion-matrix-caption").endswith("Click a bold number to see its samples.")


@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_report_aligns_labels_of_cards(open_page: OpenPage, wide: Path, width: int) -> None:
    page = open_page(wide, viewport={"width": width, "height": 844})
    untidy = page.eval_on_selector_all(
        ".card:not([hidden]) .labels",
        """all => all.filter(labels => {
          const [given, arrow, proposed] = [...labels.children].map(part => part.getBoundingClientRect());
          const names = [...labels.querySelectorAll("bdi")], chances = [...labels.querySelectorAll("small")];
          const top = (part) => part.getClientRects()[0].top;
          return labels.scrollWidth > labels.clientWidth || arrow.top < given.bottom || arrow.right > proposed.left
            || Math.abs(arrow.top - proposed.top) > 4
            || names.some((name, k) => Math.abs(top(name) - top(chances[k])) > 6);
        }).map(labels => labels.textContent)""",
    )
    assert untidy == []


def test_report_fades_wide_table_on_phone(open_page: OpenPage, wide: Path) -> None:
    page = open_page(wide, viewport=PHONE)
    box = page.locator(".heat .scroll").first
    faded = "box => getComputedStyle(box).maskImage"
    edge = "box => getComputedStyle(box.querySelector('tbody th')).boxShadow"
    page.wait_for_selector(".heat .scroll.more-right")
    assert "linear-gradient" in box.evaluate(faded)
    assert box.evaluate(edge) == "none"
    box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    page.wait_for_selector(".heat .scroll.more-left:not(.more-right)")
    assert box.evaluate(faded) == "none"
    assert "inset" in box.evaluate(edge)
    page.set_viewport_size({"width": 2000, "height": 900})
    page.wait_for_selector(".heat .scroll:not(.more-left):not(.more-right)")


def test_report_wraps_command_between_words(open_page: OpenPage, wide: Path) -> None:
    page = open_page(wide, viewport=PHONE)
    words = page.locator(".next code span")
    assert words.all_inner_texts() == COMMAND.split()
    assert words.evaluate_all("all => all.every(word => word.offsetHeight < 1.5 * all[0].offsetHeight)")
    assert page.locator(".next code").evaluate("code => code.offsetHeight > 2 * code.firstChild.offsetHeight")
    selected = "getSelection().selectAllChildren(document.querySelector('.next code')), getSelection().toString()"
    assert page.evaluate(selected) == COMMAND


def test_report_searches_ids_and_classes(page: Any) -> None:
    page.fill("#words", "x/77.JPG")
    assert len(pairs(page)) == 1
    assert page.inner_text("#filtered") == "1 found"
    page.fill("#words", "x/139.jpg")  # beyond the first 100
    assert len(pairs(page)) == 1
    page.fill("#words", "x/77.jpg nothing")
    assert pairs(page) == []
    page.get_by_role("button", name="Show all").click()
    page.locator(".card:not([hidden])").nth(99).wait_for()
    assert page.locator(".card:visible").count() == 100
    page.fill("#words", "<b>cat")
    assert pairs(page)
    assert all("2" in pair.split("-") for pair in pairs(page))
    page.fill("#words", "")
    page.select_option("#pair", "0-1")
    assert set(pairs(page)) == {"0-1"}
    assert page.locator("td[data-pair='0-1'] button").get_attribute("aria-pressed") == "true"


def test_report_copies_command_and_sorts_classes(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("button.copy").first.click()
    page.locator("button.copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "permll review run"
    page.get_by_role("button", name="Flagged").click()
    counts = page.eval_on_selector_all(
        ".classes tbody tr", "rows => rows.map(row => Number(row.cells[2].dataset.value))"
    )
    assert counts == sorted(counts, reverse=True)


def test_report_shows_everything_without_scripts(open_page: OpenPage, folder: Path) -> None:
    page = open_page(folder / "report.html", java_script_enabled=False)
    assert page.locator(".card:visible").count() == 100
    for gone in (".filter", ".copy", ".hint"):
        assert not page.locator(gone).first.is_visible()
    assert page.locator("td[data-pair]").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_fits_phone(open_page: OpenPage, folder: Path, scheme: str) -> None:
    page = open_page(folder / "report.html", viewport=PHONE, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.evaluate(FIND_LOW_CONTRAST) == []
    page.locator("td[data-pair] button").first.click()
    assert page.evaluate(FIND_LOW_CONTRAST) == []
    assert page.eval_on_selector_all(".scroll", "all => all.every(box => box.tabIndex === 0)")  # reachable by keyboard
    papers = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 31)"}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == papers[scheme]


@pytest.mark.parametrize("kind", KINDS)
def test_report_shows_all_kinds(open_page: OpenPage, kind: str, tmp_path: Path) -> None:
    run = make_run(kind, tmp_path)
    path = run.folder / "report.html"
    path.write_text(make_report(run, Findings.load(run.folder), load_source(run)), encoding="utf-8")
    page = open_page(path, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    content = {"images": "img", "texts": ".text", "table": ".cells", "vectors": ".numbers"}
    assert page.locator(f".card {content[kind]}").first.is_visible()
    if kind == "images":
        assert page.evaluate("document.querySelector('.card img').decode().then(() => true)")
        assert page.evaluate("document.querySelector('.card img').naturalWidth") == 120
    if kind == "texts":  # markup is escaped
        assert "<script>document.title = 'broken'</script>" in page.locator(".card .text").first.inner_text()
        assert page.locator(".card").locator("script, b, i, u").count() == 0
        assert page.title() == "14 of 40 labels are flagged · texts"


def test_report_prints_everything(page: Any) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.eval_on_selector_all("details", "all => all.every(part => part.open)")
    assert page.eval_on_selector_all(
        ".scroll", "all => all.every(box => getComputedStyle(box).overflowX === 'visible')"
    )
    for gone in ("#pair", "nav", ".copy", ".hint"):
        assert not page.locator(gone).first.is_visible()
