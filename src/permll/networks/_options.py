"""Which options a network takes, and what is said about one that it does not take."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from permll.utils.messages import did_you_mean


def options_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that have a default.

    Examples:
        >>> options_of(sorted)
        ['key', 'reverse']
    """
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is not one.empty]


def refuse_unknown(network: str, options: Iterable[str], taken: Sequence[str]) -> None:
    """Raise for the first of ``options`` that is not among ``taken``, with the nearest that is.

    Examples:
        >>> refuse_unknown("mlp", ["width"], ["widths", "dropout"])
        Traceback (most recent call last):
        TypeError: mlp has no option 'width', did you mean widths? It takes widths, dropout.
    """
    for option in options:
        if option not in taken:
            hint = did_you_mean(option, taken) or "."
            raise TypeError(f"{network} has no option {option!r}{hint} It takes {', '.join(taken) or 'none'}.")
