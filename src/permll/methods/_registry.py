"""Every method there is: one record each, from which help texts, tables and tests are made."""

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from permll.data.problems import nearest

if TYPE_CHECKING:
    from permll.methods._base import Method


@dataclass(frozen=True)
class MethodInfo:
    """What is known of a method before it is imported.

    Args:
        name: in recipes and on the command line.
        title: in tables.
        paper: authors, title, where and when.
        home: "module:Class".
        needs: what it needs beyond given labels: ``index`` (each sample's own state), ``validation`` (a part with noisy
            labels), ``trusted`` (rows known to be right), ``noise_rate`` (an oracle, or our estimate).
        state: what it keeps for every sample.
        networks: how many it trains.
        cost: time of a step in steps of cross-entropy, roughly.
        deviations: where it differs from the authors' code, and why.
    """

    name: str
    title: str
    paper: str
    home: str
    needs: tuple[str, ...] = ()
    state: str = "none"
    networks: int = 1
    cost: float = 1.0
    deviations: tuple[str, ...] = ()

    @property
    def method_class(self) -> "type[Method]":
        """Return the class; this imports it."""
        from permll.methods._base import Method

        module, name = self.home.split(":", 1)
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as problem:
            raise ValueError(f"the method {self.home} cannot be imported: {problem}.") from None
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise ValueError(f"{self.home} is no method: it must inherit from permll.methods.Method.")
        return found

    def build(self, **settings: Any) -> "Method":
        """Return the method with these settings; one it does not know is named, with the nearest it does."""
        known = [name for name in inspect.signature(self.method_class).parameters if name != "self"]
        for name in settings:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no setting {name!r}{nearest(name, known) or '.'} It has {', '.join(known)}."
                )
        return self.method_class(**settings)


_METHODS = (
    MethodInfo(
        name="ce",
        title="Cross-entropy",
        paper="The usual training on the given labels.",
        home="permll.methods.ce:CrossEntropy",
    ),
    MethodInfo(
        name="permll",
        title="PermLL",
        paper="Alsubaihi et al., On Robust Learning from Noisy Labels: A Permutation Layer Approach, AAAI 2023",
        home="permll.methods.permll:PermLL",
        needs=("index",),
        state="α, c numbers",
        deviations=(
            "α moves by each sample's own gradient: the paper's η / B, independent of the size of a (last) batch.",
            "Warm-up of n steps is n steps; the authors' code takes n + 1.",
        ),
    ),
)
METHODS: dict[str, MethodInfo] = {info.name: info for info in _METHODS}


def method_name(method: "type[Method]") -> str:
    """Return the name that ``find_method`` knows a class by.

    Examples:
        >>> from permll.methods.permll import PermLL
        >>> method_name(PermLL)
        'permll'
    """
    home = f"{method.__module__}:{method.__qualname__}"
    return next((info.name for info in METHODS.values() if info.home == home), home)


def find_method(name: str) -> MethodInfo:
    """Return the record of a method; an unknown name is answered with the nearest.

    Args:
        name: of a method here, or ``"module:Class"`` of one elsewhere.

    Examples:
        >>> find_method("permll").needs
        ('index',)
        >>> find_method("permll.methods.ce:CrossEntropy").title
        'CrossEntropy'
    """
    if ":" in name:
        return MethodInfo(name=name, title=name.rpartition(":")[2], paper="", home=name)
    if name not in METHODS:
        raise ValueError(f"{name!r} is no method{nearest(name, METHODS) or '.'} There are {', '.join(METHODS)}.")
    return METHODS[name]
