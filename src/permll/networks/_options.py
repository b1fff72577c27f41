"""Options of networks, and messages about failures of other libraries."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from permll.utils.messages import did_you_mean


def option_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that have a default.

    Examples:
        >>> option_names(sorted)
        ['key', 'reverse']
    """
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is not one.empty]


def check_options(network: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError for the first of ``options`` that is not among ``known``, with the nearest known name.

    Examples:
        >>> check_options("mlp", ["width"], ["widths", "dropout"])
        Traceback (most recent call last):
        TypeError: mlp has no option 'width', did you mean widths? It takes widths, dropout.
    """
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) or "."
            raise TypeError(f"{network} has no option {option!r}{hint} It takes {', '.join(known) or 'none'}.")


def first_line(error: Exception) -> str:
    r"""Return the first line of an error's message without its period, or its type.

    Examples:
        >>> first_line(ValueError("Wrong size.\nMore."))
        'Wrong size'
    """
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
