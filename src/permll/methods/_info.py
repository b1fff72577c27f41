"""Metadata of a method, available before its module is imported."""

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from permll.utils.messages import did_you_mean

if TYPE_CHECKING:
    from permll.methods._base import Method


@dataclass(frozen=True)
class MethodInfo:
    """Metadata of a method.

    Args:
        name: name in recipes and on the command line.
        title: name in tables.
        summary: the idea in about six words.
        year: year of the paper.
        paper: authors, title, venue and year.
        import_path: "module:Class".
        needs: requirements beyond given labels: ``index`` (per-sample state), ``validation`` (held-out samples with
            noisy labels), ``trusted`` (samples whose labels are known to be correct), ``noise_rate`` (an oracle, or
            an estimate).
        state: per-sample state.
        networks: number of networks.
        cost: approximate time of a step, relative to cross-entropy.
        deviations: differences from the authors' code, with reasons.
        single_process_reason: why the method cannot train on several processes; "" if it can.
    """

    name: str
    title: str
    summary: str
    year: int | None
    paper: str
    import_path: str
    needs: tuple[str, ...] = ()
    state: str = "none"
    networks: int = 1
    cost: float = 1.0
    deviations: tuple[str, ...] = ()
    single_process_reason: str = ""

    @property
    def method_class(self) -> "type[Method]":
        """Import and return the class."""
        from permll.methods._base import Method

        module, name = self.import_path.split(":", 1)
        try:
            imported = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"cannot import method {self.import_path}: {error}.") from None
        if not (isinstance(imported, type) and issubclass(imported, Method)):
            raise ValueError(f"{self.import_path} is not a method: it must inherit from permll.methods.Method.")
        return imported

    def build(self, **settings: Any) -> "Method":
        """Return the method with these settings; unknown settings raise, with the nearest known name."""
        method_class = self.method_class
        known = [name for name in inspect.signature(method_class).parameters if name != "self"]
        for name in settings:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no setting {name!r}{did_you_mean(name, known) or '.'} It has {', '.join(known)}."
                )
        return method_class(**{name: self._validate(name, value) for name, value in settings.items()})

    def _validate(self, name: str, value: Any) -> Any:
        """Return a setting converted to the type that the constructor declares."""
        from pydantic import TypeAdapter, ValidationError

        method_class = self.method_class
        is_generated = method_class.__signature__ is not None
        expected = get_type_hints(method_class if is_generated else method_class.__init__).get(name, Any)
        try:
            return TypeAdapter(expected).validate_python(value)
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise ValueError(
                f"the setting {name} of {self.name} is {value!r}, but {message[0].lower()}{message[1:]}."
            ) from None
