"""Words and numbers on the page of findings, as HTML."""

import re
from html import escape as _escape

from permll.report.page.html import escape
from permll.report.text import short

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters, and halves of characters


def percent(share: float) -> str:
    """Return a probability in per cent. Nothing is certain and nothing impossible, so 0 and 100 are never said.

    Examples:
        >>> percent(0.5), percent(0.001), percent(1.0)
        ('50&nbsp;%', '&lt;&nbsp;1&nbsp;%', '&gt;&nbsp;99&nbsp;%')
    """
    if share < 0.01:
        return "&lt;&nbsp;1&nbsp;%"
    return "&gt;&nbsp;99&nbsp;%" if share > 0.99 else f"{100 * share:.0f}&nbsp;%"


def prose(text: str) -> str:
    r"""Return a text that stands for itself, its lines kept.

    Examples:
        >>> prose("so <b>good</b>\n\x00& cheap")
        'so &lt;b&gt;good&lt;/b&gt;\n&amp; cheap'
    """
    return _escape(_UNSEEN.sub("", text), quote=True)


def name(label: str, kind: str = "") -> str:
    """Return a class's name, shortened, the whole of it to be read on hovering; in any script beside any other.

    Examples:
        >>> name("<cat>", "was")
        '<bdi class="was">&lt;cat&gt;</bdi>'
    """
    marks = f' class="{kind}"' if kind else ""
    shown = short(label)
    if shown != label:
        marks += f' title="{escape(label[:200])}"'
    return f"<bdi{marks}>{escape(shown)}</bdi>"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number of things.

    Examples:
        >>> counted(1, "label"), counted(1200, "class", "classes")
        ('1 label', '1,200 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
