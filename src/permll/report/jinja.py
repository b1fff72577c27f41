"""Jinja environment of the HTML pages: autoescaping templates, their filters, and inlined styles and scripts."""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from permll.report.text import printable, shorten

_SEPARATOR = re.compile(r"(?<=[/\\_.:;,=&@+])(?=[^/\\_.:;,=&@+])")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and lone surrogates


def render(template: str, **context: Any) -> str:
    """Return a template of ``permll/report/templates`` filled in."""
    return _environment().get_template(template).render(context)


def asset(*names: str) -> Markup:
    """Return style sheets or scripts, concatenated, to be inlined as they are."""
    folder = files("permll.report") / "templates"
    return Markup("".join((folder / name).read_text(encoding="utf-8") for name in names))


def percent(probability: float) -> Markup:
    """Return a probability in percent, never as 0 or 100.

    Examples:
        >>> percent(0.5), percent(0.001), percent(1.0)
        (Markup('50&nbsp;%'), Markup('&lt;&nbsp;1&nbsp;%'), Markup('&gt;&nbsp;99&nbsp;%'))
    """
    if probability < 0.01:
        return Markup("&lt;&nbsp;1&nbsp;%")
    return Markup("&gt;&nbsp;99&nbsp;%" if probability > 0.99 else f"{100 * probability:.0f}&nbsp;%")


def multiline(text: str) -> Markup:
    r"""Return escaped text that keeps its line breaks.

    Examples:
        >>> multiline("so <b>good</b>\n\x00& cheap")
        Markup('so &lt;b&gt;good&lt;/b&gt;\n&amp; cheap')
    """
    return escape(_UNPRINTABLE.sub("", text))


def breakable(text: str) -> Markup:
    r"""Return escaped text that breaks after separators, as in a path, rather than within a word.

    Examples:
        >>> breakable("cat/img_<1>.png\x00")
        Markup('cat/<wbr>img_<wbr>&lt;1&gt;.<wbr>png')
    """
    return Markup("<wbr>").join(_SEPARATOR.split(printable(text)))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("permll.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # Markup stays as it is
    )
    environment.filters |= {"percent": percent, "multiline": multiline, "shorten": shorten, "breakable": breakable}
    return environment
