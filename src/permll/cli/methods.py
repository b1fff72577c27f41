"""``permll methods``: which methods there are, what each needs and costs, and its settings."""

import dataclasses
import inspect
import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

if TYPE_CHECKING:
    from permll.methods import MethodInfo

NARROWEST = 60
WIDE = 80  # room for all columns of the table
_NEEDS = {
    "index": "the place of each sample, for state of its own",
    "validation": "a part with noisy labels, set aside",
    "trusted": "rows known to be right",
    "noise_rate": "how many labels are wrong, known or estimated",
}


def methods(
    name: Annotated[str | None, typer.Argument(help="One method, with its settings.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the methods there are, or one of them with its settings."""
    from permll.methods._registry import METHODS, find_method

    chosen = [find_method(name)] if name else list(METHODS.values())
    if as_json:
        found = [dataclasses.asdict(info) | ({"settings": settings(info)} if name else {}) for info in chosen]
        typer.echo(json.dumps(found[0] if name else found, indent=2))
        return
    import shutil

    width = max(shutil.get_terminal_size().columns, NARROWEST)
    hint = "permll methods NAME tells all about one; permll train RECIPE --method NAME trains with it."
    if name:
        blocks = [_about(chosen[0], width), *_settings_text(chosen[0], width)]
    else:
        blocks = [_table(chosen, width), _wrapped("", hint, width)]
    typer.echo("\n\n".join("\n".join(block) for block in blocks))


def settings(info: "MethodInfo") -> list[dict[str, Any]]:
    """Return a method's settings: name, default, the words that are allowed (or None), and what each means.

    Examples:
        >>> from permll.methods import find_method
        >>> settings(find_method("ce"))[0]["name"], settings(find_method("ce"))[0]["default"]
        ('label_smoothing', 0.0)
    """
    meanings = argument_texts(inspect.getdoc(info.method_class) or "")
    return [
        {
            "name": name,
            "required": parameter.default is parameter.empty,
            "default": None if parameter.default is parameter.empty else parameter.default,
            "words": list(get_args(parameter.annotation)) if get_origin(parameter.annotation) is Literal else None,
            "meaning": meanings.get(name, ""),
        }
        for name, parameter in inspect.signature(info.method_class).parameters.items()
    ]


def argument_texts(docstring: str) -> dict[str, str]:
    r"""Return what a docstring says under ``Args:``, by argument, each on one line.

    Examples:
        >>> argument_texts("Does.\n\nArgs:\n    a: one,\n        or two.\n    b: three.\n\nMore.")
        {'a': 'one, or two.', 'b': 'three.'}
    """
    _, _, after = docstring.partition("\nArgs:\n")
    texts: dict[str, str] = {}
    name = ""
    for line in after.splitlines():
        if line and not line.startswith(" "):
            break  # the next section
        if line.startswith("     "):
            texts[name] += f" {line.strip()}"
        elif line:
            name, _, text = line.strip().partition(": ")
            texts[name] = text
    return texts


def _table(chosen: "Sequence[MethodInfo]", width: int) -> list[str]:
    """Return a line for each method, or several where its idea needs them; cost is in steps of cross-entropy."""
    rows = [
        ("name", "year", "idea", "needs", "cost"),
        *((one.name, str(one.year or ""), one.summary, ", ".join(one.needs), f"{one.cost:g}") for one in chosen),
    ]
    if width < WIDE:  # what a method needs goes after its idea
        rows = [(name, year, f"{idea}; {needs}" if needs else idea, "", cost) for name, year, idea, needs, cost in rows]
    name, needs = (max(len(row[place]) for row in rows) for place in (0, 3))
    idea = width - name - needs - 16
    lines = []
    for row in rows:
        first, *more = textwrap.wrap(row[2], idea, break_on_hyphens=False) or [""]
        lines.append(f"{row[0]:<{name}}  {row[1]:<4}  {first:<{idea}}  {row[3]:<{needs}}  {row[4]:>4}".rstrip())
        lines += [" " * (name + 8) + line for line in more]
    return lines


def _about(info: "MethodInfo", width: int) -> list[str]:
    needs = "; ".join(f"{need}: {_NEEDS[need]}" if need in _NEEDS else need for need in info.needs)
    facts = {
        "idea": info.summary,
        "paper": info.paper,
        "needs": needs or "given labels alone",
        "state": info.state if info.state == "none" else f"{info.state} per sample",
        "networks": str(info.networks),
        "cost": f"{info.cost:g} times a step of cross-entropy",
        "ranks": f"one: it {info.single_process_reason}" if info.single_process_reason else "any number",
    }
    lines = (line for key, text in facts.items() for line in _wrapped(f"  {key:<10}", text, width))
    return [f"{info.name}: {info.title}", *lines]


def _settings_text(info: "MethodInfo", width: int) -> list[list[str]]:
    lines = _wrapped("", "Settings: --set method.NAME=VALUE on the command line, [method] in a recipe", width)
    for entry in settings(info):
        unset = "must be given" if entry["required"] else "not set"
        default = f"({unset})" if entry["default"] is None else f"= {json.dumps(entry['default'])}"
        words = f"  (one of {', '.join(map(str, entry['words']))})" if entry["words"] else ""
        lines += _wrapped("  ", f"{entry['name']} {default}{words}", width)
        lines += _wrapped("    ", entry["meaning"].replace("``", ""), width)
    deviations = [line for text in info.deviations for line in _wrapped("  - ", text, width)]
    return [lines, *([["Deviations from the authors' code", *deviations]] if deviations else [])]


def _wrapped(head: str, text: str, width: int) -> list[str]:
    """Return text after a head, whole: its words on as many lines as they need."""
    behind = " " * len(head)
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=behind, break_on_hyphens=False)
