"""Debian's Chromium, driven by Playwright. Without one of them, the tests are skipped."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.browser import Reviewer

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return the browser, started once for all tests."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def reviewer(browser: Any) -> Iterator[Reviewer]:
    """Return an object that opens reviews; fail if a page logs something or calls another host."""
    reviewer = Reviewer(browser)
    yield reviewer
    reviewer.close_pages()
    assert reviewer.problems == []
