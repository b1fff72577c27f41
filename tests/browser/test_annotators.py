"""Answers of several annotators on the review page and in the report."""

from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

import permll
from permll.findings import Findings
from permll.report.findings_text import findings_facts
from tests.helpers.annotated_files import ACCURACY, Annotated, annotated, write_wide
from tests.helpers.browser import FIND_LOW_CONTRAST, PHONE, Reviewer, current_id, fits_width, wait_until_idle


@pytest.fixture(scope="module")
def data() -> Annotated:
    return annotated(120)


@pytest.fixture(scope="module")
def run(data: Annotated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("annotated")
    path = write_wide(folder, data)
    names = {"ann_1": "<b>Ann</b>", "ann_5": "an annotator with a very long name " * 3}
    head, *lines = path.read_text().splitlines()
    for old, new in names.items():
        head = head.replace(old, new.strip())
    path.write_text("\n".join([head, *lines]) + "\n")
    annotators = [names.get(name, name).strip() for name in ACCURACY]
    permll.clean(path, annotators=annotators, epochs=6, callbacks=[], out=folder / "run")
    return folder / "run"


@pytest.mark.parametrize("size", [None, PHONE])
def test_review_shows_the_answers_to_a_sample(
    reviewer: Reviewer, run: Path, data: Annotated, size: dict[str, int] | None
) -> None:
    with reviewer.serve(run, "Ada") as url:
        page = reviewer.open(url) if size is None else reviewer.open(url, viewport=size)
        wait_until_idle(page)
        cells = data.cells(int(current_id(page).removeprefix("s")))
        text = page.locator(".answers").inner_text()
        assert text.startswith("Answers: ")
        for name, label in zip(("<b>Ann</b>", "ann_2", "ann_3", "ann_4"), cells, strict=False):
            assert (f"{name}: {label}" in text) == bool(label)
        assert fits_width(page)
        assert page.evaluate(FIND_LOW_CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_has_a_table_of_annotators(browser: object, run: Path, scheme: str) -> None:
    page = browser.new_page(viewport=PHONE, color_scheme=scheme)  # type: ignore[attr-defined]
    page.goto((run / "report.html").as_uri())
    table = page.locator(".section-annotators table")
    quality = findings_facts(Findings.load(run))["annotators"]
    assert table.locator("tbody tr").count() == len(quality) == 6
    assert table.locator("tbody tr").last.locator("th").inner_text() == "the network"
    table.locator("thead th").nth(1).click()
    counts = [int(text) for text in table.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert counts in (sorted(counts), sorted(counts, reverse=True))
    assert page.locator(".card .answers").first.is_visible()
    assert page.locator(".card .answers b").count() == 0  # names are text
    assert fits_width(page)
    assert page.evaluate(FIND_LOW_CONTRAST) == []
    page.close()
