"""What is known of a method before it is imported."""

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from permll.utils.messages import did_you_mean

if TYPE_CHECKING:
    from permll.methods._base import Method


@dataclass(frozen=True)
class MethodInfo:
    """What is known of a method before it is imported.

    Args:
        name: in recipes and on the command line.
        title: in tables.
        summary: in about six words.
        year: of the paper.
        paper: authors, title, where and when.
        import_path: "module:Class".
        needs: what it needs beyond given labels: ``index`` (each sample's own state), ``validation`` (a part with noisy
            labels), ``trusted`` (rows known to be right), ``noise_rate`` (an oracle, or our estimate).
        state: what it keeps for every sample.
        networks: how many it trains.
        cost: time of a step in steps of cross-entropy, roughly.
        deviations: where it differs from the authors' code, and why.
        single_process_reason: why it cannot be trained on several ranks; "" for a method that can.
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
        """Return the class; this imports it."""
        from permll.methods._base import Method

        module, name = self.import_path.split(":", 1)
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as problem:
            raise ValueError(f"the method {self.import_path} cannot be imported: {problem}.") from None
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise ValueError(f"{self.import_path} is no method: it must inherit from permll.methods.Method.")
        return found

    def build(self, **settings: Any) -> "Method":
        """Return the method with these settings; one it does not know is named, with the nearest it does."""
        known = [name for name in inspect.signature(self.method_class).parameters if name != "self"]
        for name in settings:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no setting {name!r}{did_you_mean(name, known) or '.'} It has {', '.join(known)}."
                )
        return self.method_class(**{name: self._checked(name, value) for name, value in settings.items()})

    def _checked(self, name: str, value: Any) -> Any:
        """Return a setting as the type that the constructor names, or say what it must be."""
        from pydantic import TypeAdapter, ValidationError

        wanted = get_type_hints(self.method_class.__init__).get(name, Any)
        try:
            return TypeAdapter(wanted).validate_python(value)
        except ValidationError as wrong:
            message = wrong.errors()[0]["msg"]
            raise ValueError(
                f"the setting {name} of {self.name} is {value!r}, but {message[0].lower()}{message[1:]}."
            ) from None
