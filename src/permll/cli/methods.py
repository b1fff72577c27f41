"""``permll methods``: list the methods, or show one with its parameters."""

import dataclasses
import inspect
import json
import re
import textwrap
from collections import ChainMap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from permll.cli.common import AsJson, terminal_width

if TYPE_CHECKING:
    from permll.methods import MethodInfo

MIN_WIDTH_OF_ALL_COLUMNS = 80
_NEEDS = {
    "index": "the index of each sample, for per-sample state",
    "validation": "a held-out set with noisy labels",
    "trusted": "samples with verified labels",
    "noise_rate": "the fraction of wrong labels, given or estimated",
}


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this method with its settings.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or show one with its settings."""
    from permll.methods._registry import METHODS, find_method

    chosen = [find_method(name)] if name else list(METHODS.values())
    if as_json:
        facts = [dataclasses.asdict(info) | ({"settings": settings(info)} if name else {}) for info in chosen]
        typer.echo(json.dumps(facts[0] if name else facts, indent=2))
        return
    width = terminal_width()
    hint = "permll methods NAME shows details of one; permll train RECIPE --method NAME trains with it."
    if name:
        blocks = [_description(chosen[0], width), *_settings_text(chosen[0], width)]
    else:
        blocks = [_table(chosen, width), _wrap("", hint, width)]
    typer.echo("\n\n".join("\n".join(block) for block in blocks))


def settings(info: "MethodInfo") -> list[dict[str, Any]]:
    """Return a method's settings: name, default, allowed values (or None), and description.

    Examples:
        >>> from permll.methods import find_method
        >>> settings(find_method("ce"))[0]["name"], settings(find_method("ce"))[0]["default"]
        ('label_smoothing', 0.0)
    """
    # A class inherits settings, and their descriptions.
    docstrings = (inspect.cleandoc(base.__doc__ or "") for base in info.method_class.__mro__)
    descriptions = ChainMap(*map(parse_docstring_args, docstrings))
    return [
        {
            "name": name,
            "required": parameter.default is parameter.empty,
            "default": None if parameter.default is parameter.empty else parameter.default,
            "words": list(get_args(parameter.annotation)) if get_origin(parameter.annotation) is Literal else None,
            "meaning": descriptions.get(name, ""),
        }
        for name, parameter in inspect.signature(info.method_class).parameters.items()
    ]


def parse_docstring_args(docstring: str) -> dict[str, str]:
    r"""Return the entries under ``Args:`` of a docstring, by argument, each as one line.

    Examples:
        >>> parse_docstring_args("Does.\n\nArgs:\n    a: one,\n        or two.\n    b: three.\n\nMore.")
        {'a': 'one, or two.', 'b': 'three.'}
    """
    _, _, rest = docstring.partition("\nArgs:\n")
    section = re.split(r"^\S", rest, maxsplit=1, flags=re.MULTILINE)[0]  # the next section is not indented
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _table(chosen: "Sequence[MethodInfo]", width: int) -> list[str]:
    """Return one entry per method, wrapped to the width; the cost is relative to a step of cross-entropy."""
    rows = [
        ("name", "year", "idea", "needs", "cost"),
        *((info.name, str(info.year or ""), info.summary, ", ".join(info.needs), f"{info.cost:g}") for info in chosen),
    ]
    if width < MIN_WIDTH_OF_ALL_COLUMNS:  # append the needs to the idea
        rows = [(name, year, f"{idea}; {needs}" if needs else idea, "", cost) for name, year, idea, needs, cost in rows]
    name_width, needs_width = (max(len(row[column]) for row in rows) for column in (0, 3))
    idea_width = width - name_width - needs_width - 16
    lines = []
    for name, year, idea, needs, cost in rows:
        first, *rest = textwrap.wrap(idea, idea_width, break_on_hyphens=False) or [""]
        line = f"{name:<{name_width}}  {year:<4}  {first:<{idea_width}}  {needs:<{needs_width}}  {cost:>4}"
        lines += [line.rstrip(), *(" " * (name_width + 8) + more for more in rest)]
    return lines


def _description(info: "MethodInfo", width: int) -> list[str]:
    needs = "; ".join(f"{need}: {_NEEDS[need]}" if need in _NEEDS else need for need in info.needs)
    facts = {
        "idea": info.summary,
        "paper": info.paper,
        "needs": needs or "given labels only",
        "state": info.state if info.state == "none" else f"{info.state} per sample",
        "networks": str(info.networks),
        "cost": f"{info.cost:g} times a step of cross-entropy",
        "processes": f"one: it {info.single_process_reason}" if info.single_process_reason else "any number",
    }
    lines = (line for key, text in facts.items() for line in _wrap(f"  {key:<10}", text, width))
    return [f"{info.name}: {info.title}", *lines]


def _settings_text(info: "MethodInfo", width: int) -> list[list[str]]:
    lines = _wrap("", "Settings: --set method.NAME=VALUE on the command line, [method] in a recipe", width)
    for entry in settings(info):
        unset = "required" if entry["required"] else "not set"
        default = f"({unset})" if entry["default"] is None else f"= {json.dumps(entry['default'])}"
        words = f"  (one of {', '.join(map(str, entry['words']))})" if entry["words"] else ""
        lines += _wrap("  ", f"{entry['name']} {default}{words}", width)
        lines += _wrap("    ", entry["meaning"].replace("``", ""), width)
    deviations = [line for text in info.deviations for line in _wrap("  - ", text, width)]
    return [lines, *([["Deviations from the authors' code", *deviations]] if deviations else [])]


def _wrap(head: str, text: str, width: int) -> list[str]:
    """Return the wrapped text, with ``head`` before its first line and the other lines aligned."""
    indent = " " * len(head)
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
