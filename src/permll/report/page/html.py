"""What several parts of the page share: escaped text, what the filter finds, where a cell's runs are listed."""

import re
from html import escape as _escape

from permll.report.tables.titles import Key, method_title
from permll.report.text import printable


def escape(value: object) -> str:
    """Return a value as text that stands for itself, in and outside of attributes.

    Examples:
        >>> escape('<a href="b">')
        '&lt;a href=&quot;b&quot;&gt;'
    """
    return _escape(printable(str(value)), quote=True)


def filtered_by(key: Key) -> str:
    """Return the attribute that the filter looks at.

    Examples:
        >>> filtered_by(("permll", "label"))
        'data-method="permll label permll (label)"'
    """
    return f'data-method="{escape(" ".join((*key, method_title(key))).lower())}"'


def anchor(tier: str, key: Key, data: str, noise: str) -> str:
    """Return the name of the place where the runs of a cell are listed.

    Examples:
        >>> anchor("mini", ("permll", ""), "fashion_mnist", "sym-60")
        'runs-mini-permll--fashion_mnist-sym-60'
    """
    return re.sub(r"[^\w.-]", "_", "-".join(("runs", tier, *key, data, noise)))
