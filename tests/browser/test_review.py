"""A review in a real browser: by mouse and by keys alone, in two tabs, through a crash, on a phone, in the dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

from permll.cleaning.decisions import Decisions
from permll.findings import Findings
from tests.helpers.review_process import Server
from tests.helpers.review_runs import KINDS, make_run
from tests.review import runs

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
TOLD = "409"  # the page tells its reader
CUT_OFF = "Failed to load resource: net::"  # what was on its way, or asked for, when a review was killed


class Visitor:
    """Somebody who opens addresses, and notes whatever a page complains of or calls outside."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: list[Any] = []
        self.troubles: list[str] = []

    @contextmanager
    def review(self, folder: Path, *options: str) -> Iterator[Server]:
        """Serve a review, and leave before it ends: what a server leaves unfinished is trouble."""
        with Server(folder, *options, "--no-open") as server:
            yield server
            self.leave()

    def blame_the_crash(self) -> None:
        """Forget what a review that was killed could not answer."""
        self.troubles = [one for one in self.troubles if CUT_OFF not in one]

    def leave(self) -> None:
        """Close everything."""
        while self.contexts:
            self.contexts.pop().close()

    def __call__(self, url: str, **options: Any) -> Any:
        """Open an address in a browser of its own."""
        context = self.browser.new_context(**{"viewport": DESK} | options)
        self.contexts.append(context)
        return self.tab(context, url)

    def tab(self, context: Any, url: str) -> Any:
        """Open an address in another tab of a browser."""
        page = context.new_page()
        page.set_default_timeout(60_000)
        home = url.split("/?")[0]
        page.on("console", lambda said: TOLD in said.text or self.troubles.append(said.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(home) or self.troubles.append(asked.url))
        page.goto(url)
        settled(page)
        return page


@pytest.fixture
def visit(browser: Any) -> Iterator[Visitor]:
    """Return somebody who opens addresses; fail if a page complains or calls outside."""
    visitor = Visitor(browser)
    yield visitor
    visitor.leave()
    assert visitor.troubles == []


def settled(page: Any) -> None:
    """Wait until what was asked for is there."""
    page.wait_for_selector("main[aria-busy=false] > *")


def says(page: Any, selector: str, words: str) -> None:
    """Wait until an element says something. (To wait for a script's answer would need what the page forbids.)"""
    page.locator(selector, has_text=words).first.wait_for()


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
        settled(page)


def name_in(page: Any, name: str) -> None:
    page.wait_for_selector("#naming[open]")
    page.fill("#name", name)
    page.keyboard.press("Enter")


def shown(page: Any) -> str:
    return str(page.locator(".one figcaption code").inner_text())


def no_sideways_scroll(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run("texts", tmp_path_factory.mktemp("texts")).folder


@pytest.fixture
def fresh(texts: Path) -> Path:
    """Return the run of texts without decisions."""
    for path in texts.glob("decisions.sqlite*"):
        path.unlink()
    return texts


def test_by_mouse_through_a_reload_two_tabs_and_a_crash(visit: Visitor, fresh: Path) -> None:
    found, decisions = Findings.load(fresh), Decisions(fresh)
    ids = [found.ids[row] for row in found.order.tolist()]
    with visit.review(fresh) as server:
        page = visit(server.url)
        assert "token" not in page.url
        assert shown(page) == ids[0]
        page.get_by_role("button", name="Accept").click()
        name_in(page, "Ada <b>")
        says(page, "#progress", "1 of")
        settled(page)
        assert decisions.current()[ids[0]][1:4] == ("accept", found[int(found.order[0])].proposed, "Ada <b>")
        assert shown(page) == ids[1]
        page.get_by_role("button", name="Keep").click()
        says(page, "#progress", "2 of")
        settled(page)
        page.get_by_role("button", name="Another class").click()  # searched for, and chosen
        third = found[int(found.order[2])]
        (rest,) = set(found.classes) - {third.given, third.proposed}
        page.fill("#search", rest.upper())
        page.get_by_role("option", name=rest).click()
        says(page, "#progress", "3 of")
        settled(page)
        assert decisions.current()[ids[2]].label == rest
        page.locator("#said button").click()  # undo
        says(page, "#progress", "2 of")
        settled(page)
        assert shown(page) == ids[2]
        assert "in the log" in page.locator(".story summary").inner_text()
        page.reload()
        settled(page)
        assert shown(page) == ids[2]
        assert page.locator("#reviewer").inner_text() == "Ada <b>"

        other = visit.tab(page.context, server.url)
        other.goto(page.url)
        settled(other)
        other.keyboard.press("s")
        says(other, "#progress", "1 not sure")
        page.get_by_role("button", name="Accept").click()  # has not seen that
        message = page.locator("#message")
        message.wait_for()
        assert "in the meantime; nothing was overwritten" in message.inner_text()
        settled(page)
        assert "not sure of" in page.locator(".standing").inner_text()
        assert decisions.current()[ids[2]].verdict == "unsure"
        press(page, "a")  # has seen it now
        page.locator("#message").wait_for(state="hidden")
        before = decisions.log()
        server.process.kill()
        server.process.wait(timeout=60)
        page.keyboard.press("k")
        says(page, "#message", "does not answer")
        visit.blame_the_crash()
    assert [entry.verdict for entry in before] == ["accept", "keep", "choose", "undo", "unsure", "accept"]
    assert decisions.log() == before
    with visit.review(fresh) as server:
        again = visit(server.url)
        assert again.locator("#progress").inner_text().startswith("3 of")
        assert shown(again) == ids[3]


def test_an_answer_that_breaks_off_is_told(visit: Visitor, fresh: Path) -> None:
    with visit.review(fresh, "--reviewer", "Bob") as server:
        page = visit(server.url)
        page.route("**/api/list*", lambda route: route.fulfill(body='{"items": [', content_type="application/json"))
        press(page, "ArrowRight")
        says(page, "#message", "does not answer")


def test_by_keyboard_alone(visit: Visitor, fresh: Path) -> None:
    found, decisions = Findings.load(fresh), Decisions(fresh)
    ids = [found.ids[row] for row in found.order.tolist()]
    with visit.review(fresh, "--reviewer", "Bob") as server:
        page = visit(server.url)
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.keyboard.press("a")  # not while the help is open
        page.keyboard.press("Escape")
        assert not page.locator("#keys").is_visible()
        assert decisions.log() == []
        press(page, "a", "k", "s", "3")
        press(page, "c")
        page.keyboard.type("go")
        page.keyboard.press("Escape")  # closes it, whatever was typed
        page.locator("#choosing").wait_for(state="hidden")
        press(page, "c")
        page.keyboard.type("bad")
        page.wait_for_selector("#found li:only-child")
        page.keyboard.press("Enter")
        says(page, "#progress", "4 of")
        settled(page)
        verdicts = [(entry.id, entry.verdict) for entry in decisions.log()]
        third = list(found.class_probs(int(found.order[3])))[2]
        kind = "keep" if third == found[int(found.order[3])].given else "choose"
        last = found[int(found.order[4])]
        chosen = {last.given: "keep", last.proposed: "accept"}.get("bad", "choose")
        assert verdicts == list(zip(ids[:5], ["accept", "keep", "unsure", kind, chosen], strict=True))
        press(page, "u", "u")
        assert shown(page) == ids[3]
        press(page, "ArrowRight", "ArrowRight")
        assert shown(page) == ids[5]
        press(page, "ArrowLeft")
        assert shown(page) == ids[4]

        press(page, "g")  # the grid begins where one was
        first = page.locator(".tile").first
        assert first.get_attribute("aria-label").startswith(f"{ids[4]}:")
        press(page, "x", "ArrowRight", "ArrowRight", "x", "k")
        assert page.locator(".tile .badge").count() == 2
        assert set(decisions.current()) >= {ids[4], ids[6]}
        assert ids[5] not in decisions.current()
        press(page, "u")
        assert page.locator(".tile .badge").count() == 1
        press(page, "x", "ArrowLeft", "x", "a")  # three are decided, the last two together
        page.locator("#said button").click()  # and taken back together
        page.locator(".tile .badge").nth(1).wait_for(state="detached")
        settled(page)
        assert page.locator(".tile .badge").count() == 1
        press(page, "ArrowRight", "Home", "Enter")  # an arrow leads back into the grid
        assert page.locator(".one").is_visible()
        assert shown(page) == ids[4]

        page.keyboard.press("p")  # one pair of classes
        page.wait_for_selector("#found li")
        page.keyboard.press("Enter")
        says(page, "#pair", "→")
        settled(page)
        press(page, "o")
        assert page.locator("input[name=state]:checked").get_attribute("value") == "decided"
        press(page, "f")
        assert page.locator("#everything").is_checked()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_on_a_phone_and_in_the_dark(visit: Visitor, tmp_path: Path, kind: str) -> None:
    with visit.review(make_run(kind, tmp_path).folder, "--reviewer", "<script>") as server:
        page = visit(server.url, viewport=PHONE, color_scheme="dark", reduced_motion="reduce")
        assert no_sideways_scroll(page)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(18, 22, 31)"
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
        if kind == "texts":  # what would be markup is text
            assert "<script>document.title = 'broken'</script>" in page.locator("figure .text").inner_text()
            assert page.locator(".one").locator("script, b:not(.belief b), i, u").count() == 0
            assert page.title() == "run · permll review"
        page.locator("#filter summary").click()
        page.get_by_text("Also labels that are not suspect").click()
        says(page, ".steps", "of 40")
        settled(page)
        assert no_sideways_scroll(page)
        page.get_by_role("radio", name="Grid").check()
        page.wait_for_selector(".tile")
        settled(page)
        assert page.locator(".tile").count() == 24
        assert no_sideways_scroll(page)
        assert page.locator(".bar button").first.is_visible()


BOXES = """() => {
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
def test_on_a_phone_verdicts_name_their_classes_in_full(
    visit: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr(runs, "CLASSES", ("Ankle boot", "o" * 40, "Complaints about late or lost deliveries"))
    with visit.review(make_run("texts", tmp_path).folder, "--reviewer", "Ada") as server:
        page = visit(server.url, viewport={"width": 390, "height": 844}, color_scheme=scheme)
        for _ in range(3):  # each class is given, and proposed
            cut = page.eval_on_selector_all(
                ".verdicts button, .verdicts .name",
                "all => all.filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)"
                ".map(e => e.textContent)",
            )
            assert cut == []
            assert no_sideways_scroll(page)
            press(page, "s")
            told = page.locator("#said").bounding_box()  # does not cover them either
            assert told["y"] + told["height"] <= page.locator(".verdicts").bounding_box()["y"]
        press(page, "g")
        boxes = page.evaluate(BOXES)
        assert len(boxes) > 10
        assert min(boxes) >= 3  # a box that is not ticked is seen


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = rgb(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !element.checkVisibility()) continue;
    const [one, other] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


def test_text_is_readable_in_both_schemes_and_everything_has_a_name(visit: Visitor, fresh: Path) -> None:
    with visit.review(fresh, "--reviewer", "Ada") as server:
        for scheme in ("light", "dark"):
            page = visit(server.url, color_scheme=scheme)
            press(page, "s")  # so that there are remarks, badges and a log
            assert page.evaluate(CONTRAST) == []
            press(page, "o", "o")
            assert page.evaluate(CONTRAST) == []
            unnamed = page.eval_on_selector_all(
                "button, input, img, dialog",
                "all => all.filter(e => !(e.textContent.trim() || e.ariaLabel || e.alt !== undefined"
                " || e.labels?.length || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)",
            )
            assert unnamed == []
            press(page, "g")
            assert page.evaluate(CONTRAST) == []
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"


def test_the_end_of_the_queue_says_so(visit: Visitor, fresh: Path) -> None:
    found = Findings.load(fresh)
    decisions = Decisions(fresh)
    flagged = [found[row] for row in found.order.tolist() if found.is_issue[row]]
    for one in flagged[1:]:
        decisions.add(one.id, "keep", one.given, "Ada", expected=None)
    with visit.review(fresh, "--reviewer", "Ada") as server:
        page = visit(server.url)
        press(page, "a")
        page.get_by_text("All done here").wait_for()
        page.get_by_role("button", name="Any state").click()
        page.wait_for_selector(".one")
        settled(page)
        assert shown(page) == flagged[0].id
