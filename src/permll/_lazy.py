"""Lazy imports of public names, so that ``permll --help`` does not import torch."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package whose names are imported on first use.

    The package repeats the imports under ``TYPE_CHECKING`` for type checkers; a test compares the two.

    Args:
        package: name of the package.
        modules: public names by module; a module without names is public itself.
    """
    module_of = {name: module for module, names in modules.items() for name in names or (module,)}

    def getattr_(name: str) -> Any:
        if name not in module_of:
            if not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}"):
                return importlib.import_module(f"{package}.{name}")  # submodules are available without an import
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{module_of[name]}")
        value = module if name == module_of[name] and not modules[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_, lambda: sorted({*vars(sys.modules[package]), *module_of}), sorted(module_of)
