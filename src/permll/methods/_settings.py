"""Settings of a method: annotated class attributes with a default, which its constructor takes as keyword arguments."""

import inspect
from typing import Any, NamedTuple

from permll.utils.validation import check_range


class Setting(NamedTuple):
    """Declaration of a setting: default, interval of its values (None: any value), and type."""

    default: Any
    interval: str | None = None
    annotation: Any = inspect.Parameter.empty

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for a value outside the interval; None is allowed."""
        if self.interval is not None:
            check_range(self.interval, **{name: value})


def setting(default: Any, interval: str) -> Any:
    """Declare a setting of a method with its default and the interval of its values, as ``check_range`` takes it.

    Examples:
        >>> from permll.methods import Method
        >>> class Example(Method):
        ...     beta: float = setting(0.7, "[0, 1)")
        ...     name: str = "x"
        >>> Example(beta=0.5).beta, Example().beta, Example.beta
        (0.5, 0.7, 0.7)
        >>> Example(beta=1.0)
        Traceback (most recent call last):
        ValueError: beta must lie in [0, 1), got 1.0.
    """
    return Setting(default, interval)


def declared_settings(cls: type) -> dict[str, Setting]:
    """Return the settings that a class declares, and then the inherited ones, with the defaults of the class."""
    settings: dict[str, Setting] = {}
    for name, annotation in inspect.get_annotations(cls).items():
        if name in vars(cls) and "ClassVar" not in str(annotation):
            value = getattr(cls, name)
            declared = value if isinstance(value, Setting) else Setting(value)
            settings[name] = declared._replace(annotation=annotation)
            setattr(cls, name, declared.default)
    for base in cls.__mro__[1:]:
        for name, inherited in getattr(base, "_settings", {}).items():
            settings.setdefault(name, inherited._replace(default=getattr(cls, name)))
    return settings


def settings_signature(settings: dict[str, Setting]) -> inspect.Signature:
    """Return the signature of a constructor that takes these settings as keyword-only arguments."""
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.annotation)
            for name, one in settings.items()
        ]
    )
