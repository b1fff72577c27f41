"""Methods of a benchmark and their variants."""

from collections.abc import Sequence
from typing import Any

from permll.bench.jobs import format_method
from permll.methods import METHODS
from permll.report.paper_numbers import PAPER_RESULTS
from permll.utils.messages import unknown_name

MethodVariant = tuple[str, str]  # method and variant, "" for the default
# Recipe overrides of each variant; its name is the method's with a suffix: permll-label.
VARIANTS: dict[MethodVariant, dict[str, Any]] = {("permll", "label"): {"method.on": "label"}}
# Further overrides of a variant at one tier, from the search in results/mini_search.csv (η = 192).
TIER_OVERRIDES: dict[tuple[str, str, str], dict[str, Any]] = {("permll", "label", "mini"): {"method.lr": 1.5}}


def select_methods(names: Sequence[str] = ()) -> list[MethodVariant]:
    """Return methods and variants by name; without names, all of them.

    Examples:
        >>> select_methods(["permll-label", "ce"])
        [('permll', 'label'), ('ce', '')]
    """
    variants = [pair for name in METHODS for pair in ((name, ""), *(pair for pair in VARIANTS if pair[0] == name))]
    by_name = {format_method(*pair): pair for pair in variants}
    for name in names:
        if name not in by_name and ":" not in name:
            raise ValueError(unknown_name("method", name, by_name))
    return list(dict.fromkeys(by_name.get(name, (name, "")) for name in names or by_name))


def paper_methods_first(table: str, methods: Sequence[MethodVariant]) -> list[MethodVariant]:
    """Return the methods with those that the paper's table contains first.

    Examples:
        >>> paper_methods_first("table1", [("sop", ""), ("ce", ""), ("glc", ""), ("permll", "")])
        [('ce', ''), ('permll', ''), ('sop', ''), ('glc', '')]
    """
    printed = {method for name, method, _, _ in PAPER_RESULTS if name == table}
    return sorted(methods, key=lambda pair: pair[0] not in printed)


def variant_overrides(method: str, variant: str, tier: str) -> dict[str, Any]:
    """Return the recipe overrides of a variant.

    Examples:
        >>> variant_overrides("permll", "label", "mini")
        {'method.on': 'label', 'method.lr': 1.5}
    """
    return VARIANTS.get((method, variant), {}) | TIER_OVERRIDES.get((method, variant, tier), {})
