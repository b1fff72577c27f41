"""Which methods are compared, with their variants, and in which order."""

from collections.abc import Sequence
from typing import Any

from permll.bench.jobs import spelled
from permll.methods import METHODS
from permll.report.paper_numbers import PAPER_RESULTS
from permll.utils.messages import did_you_mean

Contestant = tuple[str, str]  # a method, and its variant or ""
# A method's other forms and what they change in its recipe, by the name that follows its own: permll-label.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {"permll": {"label": {"method.on": "label"}}}
# What a variant changes at one tier alone: settings that were searched for there.
AT_TIER: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("permll", "label"): {"mini": {"method.lr": 1.5}}
}  # η = 192


def contestants(names: Sequence[str] = ()) -> list[Contestant]:
    """Return methods and variants by the names they are asked for with, or all there are.

    Examples:
        >>> contestants(["permll-label", "ce"])
        [('permll', 'label'), ('ce', '')]
    """
    every = [(name, variant) for name in METHODS for variant in ("", *VARIANTS.get(name, {}))]
    known = {spelled(*one): one for one in every}
    found = []
    for name in names or known:
        if name not in known and ":" not in name:
            raise ValueError(f"{name!r} is no method{did_you_mean(name, known) or '.'} There are {', '.join(known)}.")
        found.append(known.get(name, (name, "")))
    return list(dict.fromkeys(found))


def paper_first(table: str, those: Sequence[Contestant]) -> list[Contestant]:
    """Return those that a table of the paper has before the others, which stay in their order.

    Examples:
        >>> paper_first("table1", [("sop", ""), ("ce", ""), ("glc", ""), ("permll", "")])
        [('ce', ''), ('permll', ''), ('sop', ''), ('glc', '')]
    """
    printed = {method for name, method, _, _ in PAPER_RESULTS if name == table}
    return sorted(those, key=lambda one: one[0] not in printed)


def changes_of(method: str, variant: str, tier: str) -> dict[str, Any]:
    """Return what a variant changes in the recipe of its method.

    Examples:
        >>> changes_of("permll", "label", "mini")
        {'method.on': 'label', 'method.lr': 1.5}
    """
    return VARIANTS.get(method, {}).get(variant, {}) | AT_TIER.get((method, variant), {}).get(tier, {})
