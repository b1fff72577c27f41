"""A real browser for pages: Debian's Chromium, led by Playwright. Without one of them, tests skip and say so."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
