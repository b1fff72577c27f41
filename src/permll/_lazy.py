"""Public names that are imported when they are first used: ``permll --help`` need not wait for torch."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in its ``modules``.

    A module without names is itself a public name. The package repeats the imports under ``TYPE_CHECKING``, for readers
    and type checkers; a test holds the two together.
    """
    home = {name: module for module, names in modules.items() for name in names or (module,)}

    def getattr_(name: str) -> Any:
        if name not in home:
            if not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}"):
                return importlib.import_module(f"{package}.{name}")  # its modules can be reached without an import
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{home[name]}")
        value = module if name == home[name] and not modules[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_, lambda: sorted({*vars(sys.modules[package]), *home}), sorted(home)
