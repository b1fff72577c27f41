"""The review page in a real browser: mouse and keyboard, two tabs, a crash, phones, and dark mode."""

from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from tests.helpers import review_runs
from tests.helpers.browser import (
    FIND_LOW_CONTRAST,
    PHONE,
    Reviewer,
    current_id,
    enter_name,
    fits_width,
    press,
    wait_for_text,
    wait_until_idle,
)
from tests.helpers.review_runs import KINDS, make_run


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run("texts", tmp_path_factory.mktemp("texts")).folder


@pytest.fixture
def fresh(texts: Path) -> Path:
    """Return the run of texts without decisions."""
    for path in texts.glob("decisions.sqlite*"):
        path.unlink()
    return texts


def test_review_by_mouse_with_reload_and_two_tabs(reviewer: Reviewer, fresh: Path) -> None:
    findings, decisions = Findings.load(fresh), Decisions(fresh)
    ids = [findings.ids[row] for row in findings.order.tolist()]
    with reviewer.serve(fresh) as url:
        page = reviewer.open(url)
        assert "token" not in page.url
        assert current_id(page) == ids[0]
        page.get_by_role("button", name="Accept").click()
        enter_name(page, "Ada <b>")
        wait_for_text(page, "#progress", "1 of")
        wait_until_idle(page)
        assert decisions.current()[ids[0]][1:4] == (
            "accept",
            findings[int(findings.order[0])].proposed_label,
            "Ada <b>",
        )
        assert current_id(page) == ids[1]
        page.get_by_role("button", name="Keep").click()
        wait_for_text(page, "#progress", "2 of")
        wait_until_idle(page)
        page.get_by_role("button", name="Another class").click()
        third = findings[int(findings.order[2])]
        (rest,) = set(findings.classes) - {third.given_label, third.proposed_label}
        page.fill("#search", rest.upper())
        page.get_by_role("option", name=rest).click()
        wait_for_text(page, "#progress", "3 of")
        wait_until_idle(page)
        assert decisions.current()[ids[2]].label == rest
        page.locator("#toast button").click()  # undo
        wait_for_text(page, "#progress", "2 of")
        wait_until_idle(page)
        assert current_id(page) == ids[2]
        assert page.locator(".history summary").inner_text() == "History (2 entries)"
        page.reload()
        wait_until_idle(page)
        assert current_id(page) == ids[2]
        assert page.locator("#reviewer").inner_text() == "Ada <b>"

        other = reviewer.open_tab(page.context, url)
        other.goto(page.url)
        wait_until_idle(other)
        other.keyboard.press("s")
        wait_for_text(other, "#progress", "1 not sure")
        page.get_by_role("button", name="Accept").click()  # without having seen that
        wait_for_text(page, "#message", "in the meantime; nothing was overwritten")
        wait_until_idle(page)
        assert "Ada <b>: not sure about" in page.locator(".decision").inner_text()
        assert decisions.current()[ids[2]].verdict == "unsure"
        press(page, "a")  # having seen it
        page.locator("#message").wait_for(state="hidden")
    assert [entry.verdict for entry in decisions.log()] == ["accept", "keep", "choose", "undo", "unsure", "accept"]


@pytest.mark.slow
def test_review_resumes_after_server_was_killed(reviewer: Reviewer, fresh: Path) -> None:
    findings, decisions = Findings.load(fresh), Decisions(fresh)
    with reviewer.serve_process(fresh, "--reviewer", "Ada") as server:
        page = reviewer.open(server.url)
        press(page, "a", "k", "s")
        before = decisions.log()
        server.process.kill()
        server.process.wait(timeout=60)
        page.keyboard.press("k")
        wait_for_text(page, "#message", "No response")
        reviewer.forget_lost_connections()
    assert [entry.verdict for entry in before] == ["accept", "keep", "unsure"]
    assert decisions.log() == before
    with reviewer.serve(fresh) as url:
        page = reviewer.open(url)
        assert page.locator("#progress").inner_text().startswith("2 of")
        assert current_id(page) == findings.ids[findings.order[3]]


def test_review_reports_truncated_response(reviewer: Reviewer, fresh: Path) -> None:
    with reviewer.serve(fresh, "Bob") as url:
        page = reviewer.open(url)
        page.route("**/api/samples*", lambda route: route.fulfill(body='{"items": [', content_type="application/json"))
        press(page, "ArrowRight")
        wait_for_text(page, "#message", "No response")


def test_review_by_keyboard(reviewer: Reviewer, fresh: Path) -> None:
    findings, decisions = Findings.load(fresh), Decisions(fresh)
    ids = [findings.ids[row] for row in findings.order.tolist()]
    with reviewer.serve(fresh, "Bob") as url:
        page = reviewer.open(url)
        page.keyboard.press("?")
        assert page.locator("#help-dialog").is_visible()
        page.keyboard.press("a")  # not while the help is open
        page.keyboard.press("Escape")
        assert not page.locator("#help-dialog").is_visible()
        assert decisions.log() == []
        press(page, "a", "k", "s", "3")
        press(page, "c")
        page.keyboard.type("go")
        page.keyboard.press("Escape")
        page.locator("#picker").wait_for(state="hidden")
        press(page, "c")
        page.keyboard.type("bad")
        page.wait_for_selector("#options li:only-child")
        page.keyboard.press("Enter")
        wait_for_text(page, "#progress", "4 of")
        wait_until_idle(page)
        verdicts = [(entry.id, entry.verdict) for entry in decisions.log()]
        keyed, typed = (
            {findings[row].given_label: "keep", findings[row].proposed_label: "accept"}.get(label, "choose")
            for row, label in zip(findings.order[3:5].tolist(), (findings.classes[2], "bad"), strict=True)
        )
        assert verdicts == list(zip(ids[:5], ["accept", "keep", "unsure", keyed, typed], strict=True))
        press(page, "u", "u")
        assert current_id(page) == ids[3]
        press(page, "ArrowRight", "ArrowRight")
        assert current_id(page) == ids[5]
        press(page, "ArrowLeft")
        assert current_id(page) == ids[4]

        press(page, "g")  # starts at the same sample
        first = page.locator(".tile").first
        assert first.get_attribute("aria-label").startswith(f"{ids[4]}:")
        press(page, "x", "ArrowRight", "ArrowRight", "x", "k")
        assert page.locator(".tile .badge").count() == 2
        assert set(decisions.current()) >= {ids[4], ids[6]}
        assert ids[5] not in decisions.current()
        press(page, "u")
        assert page.locator(".tile .badge").count() == 1
        press(page, "x", "ArrowLeft", "x", "a")  # three decisions, the last two at once
        page.locator("#toast button").click()  # undo both
        page.locator(".tile .badge").nth(1).wait_for(state="detached")
        wait_until_idle(page)
        assert page.locator(".tile .badge").count() == 1
        press(page, "ArrowRight", "Home", "Enter")  # an arrow key moves the focus back into the grid
        assert page.locator(".sample").is_visible()
        assert current_id(page) == ids[4]

        page.keyboard.press("p")
        page.wait_for_selector("#options li")
        page.keyboard.press("Enter")
        wait_for_text(page, "#pair", "→")
        wait_until_idle(page)
        press(page, "o")
        assert page.locator("input[name=state]:checked").get_attribute("value") == "decided"
        press(page, "f")
        assert page.locator("#unflagged").is_checked()


@pytest.mark.parametrize("kind", KINDS)
def test_review_shows_all_kinds_on_phone_in_dark_mode(reviewer: Reviewer, tmp_path: Path, kind: str) -> None:
    with reviewer.serve(make_run(kind, tmp_path).folder, "<script>") as url:
        page = reviewer.open(url, viewport=PHONE, color_scheme="dark", reduced_motion="reduce")
        assert fits_width(page)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(18, 22, 31)"
        assert page.locator("#reviewer").inner_text() == "<script>"
        content = {
            "images": "figure img",
            "texts": "figure .text",
            "table": "figure .cells",
            "vectors": "figure svg rect",
        }
        assert page.locator(content[kind]).count() >= 1
        if kind == "images":
            assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
            assert page.evaluate("document.querySelector('figure img').naturalWidth") == 120
        if kind == "texts":  # markup is escaped
            assert "<script>document.title = 'broken'</script>" in page.locator("figure .text").inner_text()
            assert page.locator(".sample").locator("script, b:not(.quality b), i, u").count() == 0
            assert page.title() == "run · permll review"
        page.locator("#filter summary").click()
        page.get_by_text("Include unflagged labels").click()
        wait_for_text(page, ".steps", "of 40")
        wait_until_idle(page)
        assert fits_width(page)
        page.get_by_role("radio", name="Grid").check()
        page.wait_for_selector(".tile")
        wait_until_idle(page)
        assert page.locator(".tile").count() == 24
        assert fits_width(page)
        assert page.locator(".toolbar button").first.is_visible()


CHECKBOX_CONTRAST = """() => {
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((value) => linear(Number(value) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll("input[type=checkbox]:not(:checked)")].map((box) => {
    const { borderColor, backgroundColor } = getComputedStyle(box);
    const [one, other] = [light(borderColor), light(backgroundColor)].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_review_shows_full_class_names_on_phone(
    reviewer: Reviewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr(review_runs, "CLASSES", ("Ankle boot", "o" * 40, "Complaints about late or lost deliveries"))
    with reviewer.serve(make_run("texts", tmp_path).folder, "Ada") as url:
        page = reviewer.open(url, viewport={"width": 390, "height": 844}, color_scheme=scheme)
        for _ in range(3):  # each class is given, and proposed
            cut = page.eval_on_selector_all(
                ".verdicts button, .verdicts .name",
                "all => all.filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)"
                ".map(e => e.textContent)",
            )
            assert cut == []
            assert fits_width(page)
            press(page, "s")
            toast = page.locator("#toast").bounding_box()
            assert toast["y"] + toast["height"] <= page.locator(".verdicts").bounding_box()["y"]
        press(page, "g")
        boxes = page.evaluate(CHECKBOX_CONTRAST)
        assert len(boxes) > 10
        assert min(boxes) >= 3


def test_review_is_accessible_in_both_color_schemes(reviewer: Reviewer, fresh: Path) -> None:
    with reviewer.serve(fresh, "Ada") as url:
        for scheme in ("light", "dark"):
            page = reviewer.open(url, color_scheme=scheme)
            press(page, "s")  # for a toast, a badge and a history
            assert page.evaluate(FIND_LOW_CONTRAST) == []
            press(page, "o", "o")
            assert page.evaluate(FIND_LOW_CONTRAST) == []
            unnamed = page.eval_on_selector_all(
                "button, input, img, dialog",
                "all => all.filter(e => !(e.textContent.trim() || e.ariaLabel || e.alt !== undefined"
                " || e.labels?.length || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)",
            )
            assert unnamed == []
            press(page, "g")
            assert page.evaluate(FIND_LOW_CONTRAST) == []
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"


def test_review_reports_end_of_queue(reviewer: Reviewer, fresh: Path) -> None:
    findings = Findings.load(fresh)
    decisions = Decisions(fresh)
    flagged = [findings[row] for row in findings.order.tolist() if findings.is_issue[row]]
    for finding in flagged[1:]:
        decisions.add(finding.id, "keep", finding.given_label, "Ada", expected=None)
    with reviewer.serve(fresh, "Ada") as url:
        page = reviewer.open(url)
        press(page, "a")
        page.get_by_text("All done").wait_for()
        page.get_by_role("button", name="Any state").click()
        page.wait_for_selector(".sample")
        wait_until_idle(page)
        assert current_id(page) == flagged[0].id
