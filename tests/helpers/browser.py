"""Pages in a real browser: viewports, contrast check, and a review that is served and clicked through."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.helpers.review_client import TOKEN
from tests.helpers.review_process import Server
from tests.helpers.review_runs import make_session

PHONE, DESKTOP = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
EXPECTED_CONFLICT = "409"  # logged by the browser, and shown by the page
CONNECTION_LOST = "Failed to load resource: net::"  # logged when a server is killed

# All visible text against the backgrounds behind it: WCAG asks for a contrast of 4.5 : 1.
FIND_LOW_CONTRAST = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const background = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      layers.unshift(channels(getComputedStyle(one).backgroundColor));
      if ((layers[0][3] ?? 1) === 1) break;
    }
    return layers.reduce((below, [r, g, b, alpha = 1]) => [r, g, b].map((c, k) => alpha * c + (1 - alpha) * below[k]));
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || element.closest("script, svg") || !element.checkVisibility()) continue;
    const colors = [channels(getComputedStyle(element).color), background(element)];
    const [dark, light] = colors.map(luminance).sort((a, b) => a - b);
    if ((light + 0.05) / (dark + 0.05) < 4.5) low.push(element.outerHTML.slice(0, 100));
  }
  return low;
}"""


class Reviewer:
    """Opens pages of reviews, and collects console messages, errors and requests to other hosts."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: list[Any] = []
        self.problems: list[str] = []

    @contextmanager
    def serve(self, folder: Path, reviewer: str = "") -> Iterator[str]:
        """Serve a review in this process; yield its URL. Pages are closed before the server stops."""
        import uvicorn

        from permll.review.app import make_app
        from permll.training.run import Run

        session = make_session(Run(folder))
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
            app = make_app(session, token=TOKEN, port=port, title=folder.resolve().name, reviewer=reviewer)
            config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=2)
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
            thread.start()
            while not server.started:
                time.sleep(0.01)
            try:
                yield f"http://127.0.0.1:{port}/?token={TOKEN}"
                self.close_pages()
            finally:
                server.should_exit = True
                thread.join()

    @contextmanager
    def serve_process(self, folder: Path, *options: str) -> Iterator[Server]:
        """Serve a review as a process that can be killed. Pages are closed before the server stops."""
        with Server(folder, *options, "--no-open") as server:
            yield server
            self.close_pages()

    def forget_lost_connections(self) -> None:
        """Drop the messages that a killed server causes."""
        self.problems = [problem for problem in self.problems if CONNECTION_LOST not in problem]

    def close_pages(self) -> None:
        """Close all pages."""
        while self.contexts:
            self.contexts.pop().close()

    def open(self, url: str, **options: Any) -> Any:
        """Open a URL in a new browser context."""
        context = self.browser.new_context(**{"viewport": DESKTOP} | options)
        self.contexts.append(context)
        return self.open_tab(context, url)

    def open_tab(self, context: Any, url: str) -> Any:
        """Open a URL in a new tab of a context."""
        page = context.new_page()
        page.set_default_timeout(60_000)
        origin = url.split("/?")[0]
        page.on("console", lambda message: EXPECTED_CONFLICT in message.text or self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: request.url.startswith(origin) or self.problems.append(request.url))
        page.goto(url)
        wait_until_idle(page)
        return page


def wait_until_idle(page: Any) -> None:
    """Wait until the page has handled all requests."""
    page.wait_for_selector("main[aria-busy=false] > *")


def wait_for_text(page: Any, selector: str, text: str) -> None:
    """Wait until an element contains a text. (The page's policy forbids waiting for the result of a script.)"""
    page.locator(selector, has_text=text).first.wait_for()


def press(page: Any, *keys: str) -> None:
    """Press keys, and wait after each."""
    for key in keys:
        page.keyboard.press(key)
        wait_until_idle(page)


def enter_name(page: Any, name: str) -> None:
    """Fill in the dialog that asks for the reviewer's name."""
    page.wait_for_selector("#name-dialog[open]")
    page.fill("#name", name)
    page.keyboard.press("Enter")


def current_id(page: Any) -> str:
    """Return the id of the sample in the single view."""
    return str(page.locator(".sample figcaption code").inner_text())


def fits_width(page: Any) -> bool:
    """Return whether the page does not scroll sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
