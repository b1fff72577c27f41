"""The review page in a real browser: dropping, new classes, keys of classes, search, orders, matrix, narrow screens."""

import csv
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from tests.helpers import review_runs
from tests.helpers.browser import (
    FIND_LOW_CONTRAST,
    Reviewer,
    current_id,
    fits_width,
    press,
    wait_for_text,
    wait_until_idle,
)
from tests.helpers.review_process import run_here
from tests.helpers.review_runs import KINDS, ROWS, make_run

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run("texts", tmp_path).folder


def ranked_ids(folder: Path) -> list[str]:
    findings = Findings.load(folder)
    return [findings.ids[row] for row in findings.order.tolist()]


def candidate_keys(page: Any) -> dict[str, str]:
    """Return the keys on the buttons of candidates by class."""
    rows = page.locator(".candidate").evaluate_all(
        "all => all.map(one => [one.querySelector('.name').firstChild.textContent,"
        " one.querySelector('.key').textContent, one.getAttribute('aria-keyshortcuts')])"
    )
    assert all(key == shortcut.removeprefix("Shift+") for _, key, shortcut in rows if key)
    return {name: key for name, key, _ in rows}


def type_in_picker(page: Any, text: str) -> None:
    page.wait_for_selector("#picker[open]")
    page.fill("#search", text)


def test_drop_by_button_and_key_with_undo(reviewer: Reviewer, folder: Path) -> None:
    ids, decisions = ranked_ids(folder), Decisions(folder)
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        page.get_by_role("button", name="No class").click()
        wait_for_text(page, "#toast", f"{ids[0]}: belongs to no class.")
        wait_until_idle(page)
        press(page, "d")
        assert [(entry.id, entry.verdict, entry.label) for entry in decisions.log()] == [
            (ids[0], "drop", ""),
            (ids[1], "drop", ""),
        ]
        press(page, "u")
        assert current_id(page) == ids[1]
        assert "undid “no class”" in page.locator(".history li").nth(1).text_content()
        press(page, "o")
        assert current_id(page) == ids[0]
        assert page.locator(".decision").inner_text().startswith("Ada: belongs to no class,")
        press(page, "o", "o", "g", "x", "ArrowRight", "x", "d")  # two at once, in the grid
        assert page.locator(".badge", has_text="no class").count() == 2
        page.locator("#toast button").click()
        page.locator(".badge").nth(1).wait_for(state="detached")
        wait_until_idle(page)
        assert set(decisions.current()) == {ids[0]}  # its earlier decision is in force again


def test_class_is_added_chosen_by_key_and_undone(reviewer: Reviewer, folder: Path) -> None:
    ids, decisions = ranked_ids(folder), Decisions(folder)
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "c")
        type_in_picker(page, " owl ")
        page.get_by_role("option", name="Add “owl”").wait_for()
        page.keyboard.press("Enter")
        wait_for_text(page, "#toast", f"{ids[0]}: chose “owl”")
        wait_until_idle(page)
        assert page.locator(".candidate.added").inner_text().split() == ["4", "owl", "added"]
        press(page, "4")  # the next key
        assert [(entry.id, entry.verdict, entry.label) for entry in decisions.log()] == [
            (ids[0], "choose", "owl"),
            (ids[1], "choose", "owl"),
        ]
        press(page, "c")
        type_in_picker(page, "oWL")  # not a second time
        page.locator("#options li:only-child", has_text="owl").wait_for()
        assert page.get_by_role("option").all_inner_texts() == ["owl\n4"]
        page.keyboard.press("Escape")
        page.reload()
        wait_until_idle(page)
        assert candidate_keys(page)["owl"] == "4"
        press(page, "u", "u")
        assert page.locator(".candidate.added").count() == 0
        press(page, "4")  # not a class any more
        assert len(decisions.log()) == 4
        assert decisions.current() == {}


def test_similar_class_comes_before_new_one(reviewer: Reviewer, folder: Path) -> None:
    decisions = Decisions(folder)
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "c")
        type_in_picker(page, "goood")
        page.locator("#options li.extra").wait_for()
        assert page.get_by_role("option").all_inner_texts() == [
            "good\nsimilar name\n2",
            "Add “goood”\nsimilar to “good”",
        ]
        assert page.locator("#options li").first.get_attribute("aria-selected") == "true"
        page.keyboard.press("Enter")  # chooses the class, which is not new
        wait_for_text(page, "#progress", "1 of")
        wait_until_idle(page)
        assert decisions.log()[0].label == "good"
        press(page, "c")
        type_in_picker(page, "goood")
        page.locator("#options li.extra").wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        wait_for_text(page, "#progress", "2 of")
        wait_until_idle(page)
        assert decisions.log()[1].label == "goood"


def test_fast_typist_gets_the_typed_class(reviewer: Reviewer, folder: Path) -> None:
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "c")
        page.wait_for_selector("#options li")
        page.keyboard.insert_text("good")
        page.keyboard.press("Enter")  # before the options of the text arrive
        wait_for_text(page, "#progress", "1 of")
        assert Decisions(folder).log()[0].label == "good"


def test_keys_of_classes_are_fixed_and_listed(
    reviewer: Reviewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = tuple(f"class {number:02}" for number in range(13))
    monkeypatch.setattr(review_runs, "CLASSES", classes)
    monkeypatch.setattr(review_runs, "ROWS", 52)
    monkeypatch.setattr(review_runs, "write_source", write_many_classes)
    folder = make_run("vectors", tmp_path).folder
    expected = dict(zip(classes, "1234567890ABC", strict=True))
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        for _ in range(3):
            assert candidate_keys(page).items() <= expected.items()
            press(page, "ArrowRight")
        page.reload()
        wait_until_idle(page)
        assert candidate_keys(page).items() <= expected.items()
        press(page, "?")
        assert page.locator("#class-keys li").all_inner_texts() == [f"{key}\n{name}" for name, key in expected.items()]
        page.keyboard.press("Escape")
        press(page, "Shift+C", "0")
        log = Decisions(folder).log()
        assert [entry.label for entry in log] == ["class 12", "class 09"]
        page.keyboard.press("CapsLock")
        press(page, "K")  # as browsers report k while Caps Lock is on: keep, not class 20
        assert Decisions(folder).log()[2].verdict == "keep"
        press(page, "f", "g", "x", "ArrowRight", "x", "2")  # two samples at once
        assert [entry.label for entry in Decisions(folder).log()[3:]] == ["class 01"] * 2


def write_many_classes(_: str, folder: Path) -> Path:
    """Write vectors of 13 classes with four rows each."""
    import numpy as np

    labels = [review_runs.CLASSES[row % 13] for row in range(52)]
    np.savez(folder / "vectors.npz", X=np.eye(13, dtype=np.float32)[np.arange(52) % 13], y=np.array(labels))
    return folder / "vectors.npz"


def test_search_by_id_opens_one_sample_or_all_matches(reviewer: Reviewer, folder: Path) -> None:
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "/")
        type_in_picker(page, "r39")  # the least suspect label, which is not flagged
        page.get_by_role("option", name="r39").wait_for()
        page.keyboard.press("Enter")
        wait_for_text(page, ".sample figcaption", "r39")
        wait_until_idle(page)
        assert "does not match the filter" in page.locator(".steps").inner_text()
        page.get_by_role("button", name="Find an id").click()
        type_in_picker(page, "R1")
        page.get_by_role("option", name="Show all 11 in the grid").click()
        page.wait_for_selector(".tile")
        wait_until_idle(page)
        shown = page.locator(".tile .id").all_inner_texts()
        assert len(shown) == 11
        assert all("r1" in name for name in shown)
        page.reload()
        wait_until_idle(page)
        assert page.locator(".tile .id").all_inner_texts() == shown
        page.get_by_role("button", name="All ids").click()
        wait_for_text(page, ".steps", f"of {ROWS}")
        page.keyboard.press("/")
        type_in_picker(page, "no such id")
        wait_for_text(page, "#no-options", "No matches.")
        page.keyboard.press("Enter")  # does nothing
        assert page.locator("#picker").is_visible()
        page.keyboard.press("Escape")


def test_orders_by_confidence_and_pair(reviewer: Reviewer, folder: Path) -> None:
    findings = Findings.load(folder)
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "g")
        suspicion = page.locator(".tile .id").all_inner_texts()
        press(page, "t")
        assert page.locator("input[name=sort]:checked").get_attribute("value") == "confidence"
        rows = [findings.ids.index(name) for name in page.locator(".tile .id").all_inner_texts()]
        confidences = findings.confidence[rows].tolist()
        assert confidences == sorted(confidences, reverse=True)
        page.get_by_role("radio", name="Class pair").check()
        wait_until_idle(page)
        rows = [findings.ids.index(name) for name in page.locator(".tile .id").all_inner_texts()]
        pairs = [(int(findings.given_labels[row]), int(findings.proposed_labels[row])) for row in rows]
        assert len({pairs.index(pair) for pair in pairs}) == 3
        assert pairs == sorted(pairs, key=pairs.index)  # each pair in one piece
        page.locator(".tile").first.focus()
        press(page, "Enter")
        first = current_id(page)
        press(page, "a")
        assert current_id(page) == findings.ids[rows[1]]  # the next one in this order
        press(page, "u")
        assert current_id(page) == first
        page.reload()
        wait_until_idle(page)
        assert page.locator("input[name=sort]:checked").get_attribute("value") == "pair"
        press(page, "t", "g")
        assert page.locator(".tile .id").all_inner_texts() == suspicion


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run with 150 flagged labels, more than the report shows first."""
    monkeypatch.setattr(review_runs, "ROWS", 450)
    run = make_run("texts", tmp_path)
    assert int(Findings.load(run.folder).is_issue.sum()) > 100
    return run.folder


def test_every_cell_of_the_matrix_opens_its_samples(reviewer: Reviewer, many: Path) -> None:
    findings = Findings.load(many)
    with reviewer.serve(many, "Ada") as url:
        page = reviewer.open(url)
        press(page, "m")
        cells = page.locator(".matrix button")
        numbers = {cell.get_attribute("aria-label"): int(cell.inner_text()) for cell in cells.all()}
        assert sum(numbers.values()) == int(findings.is_issue.sum())
        assert cells.evaluate_all("all => all.filter(one => one.tabIndex === 0).length") == 1
        press(page, "ArrowRight")  # to the first number
        first = page.evaluate("document.activeElement.getAttribute('aria-label')")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        last = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert first != last
        page.keyboard.press("Enter")
        page.wait_for_selector(".tile")
        wait_until_idle(page)
        given, proposed = re.match("(.*) → (.*): ", last).groups()
        seen: set[str] = set()
        while True:  # all pages
            seen |= set(page.locator(".tile .id").all_inner_texts())
            assert {tuple(text.split("\n→\n")) for text in page.locator(".tile .labels").all_inner_texts()} == {
                (given, proposed)
            }
            if page.get_by_role("button", name="Next page").is_disabled():
                break
            press(page, "]")
        assert len(seen) == numbers[last] > 24
        assert last == f"{given} → {proposed}: {len(seen)} samples"
        press(page, "m")
        assert page.locator("#pair").inner_text() == "All class pairs"
        assert page.locator(".matrix button").count() == len(numbers)
        page.reload()
        wait_until_idle(page)
        assert page.locator(".matrix button").count() == len(numbers)
        press(page, "a", "d", "1")  # nothing to decide on
        assert Decisions(many).log() == []
        assert page.evaluate(FIND_LOW_CONTRAST) == []


def test_page_tells_how_many_wrong_labels_are_left(reviewer: Reviewer, folder: Path) -> None:
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "a")
        wait_for_text(page, "#estimate", "1 label reviewed, 1 of them wrong; about")
        press(page, "k")
        wait_for_text(page, "#estimate", "2 labels reviewed, 1 of them wrong; about")
        press(page, "u", "u")
        page.locator("#estimate", has_text=re.compile("^$")).wait_for(state="attached")


@pytest.mark.parametrize("kind", KINDS)
def test_bar_on_phone_leaves_candidates_visible(reviewer: Reviewer, tmp_path: Path, kind: str) -> None:
    with reviewer.serve(make_run(kind, tmp_path).folder, "Ada") as url:
        for scheme in ("light", "dark"):
            page = reviewer.open(url, viewport=PHONE, color_scheme=scheme)
            press(page, "s")  # for a toast
            assert page.evaluate("scrollY") == 0
            top = page.locator("#dock").bounding_box()["y"]
            for element in (*page.locator(".candidate").all(), page.locator(".sample > .panel > .labels")):
                box = element.bounding_box()
                assert box["y"] + box["height"] <= top
            assert page.locator("#toast button").is_visible()
            assert page.evaluate(FIND_LOW_CONTRAST) == []
            names = page.locator(".verdicts button").evaluate_all("all => all.map(one => one.ariaLabel)")
            assert [name.split()[0] for name in names] == ["Accept", "Keep", "Another", "No", "Not"]
            assert len({round(button.bounding_box()["y"]) for button in page.locator(".verdicts button").all()}) == 1
            assert fits_width(page)


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_toast_covers_nothing_at_the_end_of_the_page(reviewer: Reviewer, folder: Path, width: int) -> None:
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url, viewport={"width": width, "height": 844})
        press(page, "g", "s")
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        dock = page.locator("#dock").bounding_box()
        last = page.locator(".tile").last.bounding_box()
        assert page.locator("#toast button").is_visible()
        assert last["y"] + last["height"] <= dock["y"]
        toast, toolbar = page.locator("#toast").bounding_box(), page.locator(".toolbar").bounding_box()
        assert toast["y"] + toast["height"] <= toolbar["y"]
        assert fits_width(page)


def test_ids_break_at_separators(reviewer: Reviewer, tmp_path: Path) -> None:
    run = make_run("images", tmp_path)
    long = "a_folder_of_photos/taken_in_the_summer/IMG_20240501_103000.jpg"
    with reviewer.serve(run.folder, "Ada") as url:
        page = reviewer.open(url, viewport=PHONE)
        page.route(
            "**/api/samples?*",
            lambda route: route.fulfill(json=rename(route.fetch().json(), long)),
        )
        press(page, "g")
        code = page.locator(".tile .id code").first
        assert code.inner_text() == long
        lines = code.evaluate(
            """code => {
              const lines = [];
              for (const part of code.childNodes) {
                if (part.nodeType !== 3) continue;
                const range = document.createRange();
                range.selectNode(part);
                lines.push(new Set([...range.getClientRects()].map(box => box.top)).size);
              }
              return lines;
            }"""
        )
        assert len(lines) > 5
        assert set(lines) == {1}  # no part is divided between lines
        assert code.evaluate("code => code.getClientRects().length") > 1


def rename(response: dict[str, Any], name: str) -> dict[str, Any]:
    return {**response, "items": [{**item, "id": name} for item in response["items"]]}


@pytest.mark.parametrize("kind", ["images", "table"])
def test_apply_writes_dropped_samples_and_new_classes(reviewer: Reviewer, tmp_path: Path, kind: str) -> None:
    run = make_run(kind, tmp_path)
    first, second = ranked_ids(run.folder)[:2]
    with reviewer.serve(run.folder, "Ada") as url:
        page = reviewer.open(url)
        press(page, "d", "c")
        type_in_picker(page, "Straßenbahn")
        page.get_by_role("option", name="Add “Straßenbahn”").click()
        wait_for_text(page, "#progress", "2 of")
        wait_until_idle(page)
    out = tmp_path / ("new.csv" if kind == "table" else "new")
    text = run_here("apply", str(run.folder), "--out", str(out))
    assert "Straßenbahn" in text
    if kind == "images":
        assert (out / "Straßenbahn" / Path(second).name).exists()
        assert not (out / first).exists()
        assert len(list(out.rglob("*.png"))) == ROWS - 1
    else:
        with out.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == ROWS - 1
        assert [row["label_source"] for row in rows if row["label"] == "Straßenbahn"] == ["chosen"]


def test_dates_and_booleans_of_a_table_are_shown_as_such(
    reviewer: Reviewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_runs, "write_source", write_dates)
    with reviewer.serve(make_run("table", tmp_path).folder, "Ada") as url:
        page = reviewer.open(url)
        assert page.locator("figure .cells td").all_inner_texts() == ["2024-01-01", "2024-01-01 08:30:00", "true", "7"]
        press(page, "g")
        assert page.locator(".tile").nth(1).locator(".cells td").all_inner_texts()[:3] == [
            "2024-01-03",
            "2024-01-03 08:30:00",
            "false",
        ]


def write_dates(_: str, folder: Path) -> Path:
    """Write a table with a date, a time, a boolean and a number."""
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["born", "seen", "paid", "size", "label"])
        for row in range(ROWS):
            day = date(2024, 1, 1) + timedelta(days=2 * row)
            writer.writerow([day, f"{day} 08:30:00", row % 2 == 0, 7 + row % 5, review_runs.CLASSES[row % 3]])
    return folder / "table.csv"


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_and_matrix_fit_and_have_contrast(reviewer: Reviewer, folder: Path, width: int, scheme: str) -> None:
    with reviewer.serve(folder, "Ada") as url:
        page = reviewer.open(url, viewport={"width": width, "height": 844}, color_scheme=scheme)
        for keys, opened in (("c", "goood"), ("/", "r1"), ("p", ""), ("?", "")):
            press(page, keys)
            if opened:
                type_in_picker(page, opened)
                page.locator("#options li.extra").wait_for()
            assert page.evaluate(FIND_LOW_CONTRAST) == []
            box = page.locator("dialog[open]").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            if keys == "?":
                assert page.locator("#help-heading").bounding_box()["y"] > box["y"]  # it opens at its start
            page.keyboard.press("Escape")
        press(page, "m")
        assert page.evaluate(FIND_LOW_CONTRAST) == []
        assert fits_width(page)
        page.locator(".matrix button").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
