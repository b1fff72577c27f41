"""Parser for the HTML pages that tests write."""

from html.parser import HTMLParser
from pathlib import Path

VOID_TAGS = {"meta", "input", "img", "polyline", "polygon", "path", "circle", "rect", "wbr"}


class PageParser(HTMLParser):
    """Collects the tags and the text of a page; fails if a tag is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID_TAGS:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parse_page(path: Path) -> PageParser:
    """Return the tags and the text of a page."""
    page = PageParser()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    return page
