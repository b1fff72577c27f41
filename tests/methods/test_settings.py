"""Settings declared as annotated class attributes."""

import inspect
from typing import Any, ClassVar, Literal

import pytest
from torch import Tensor

from permll.methods import METHODS, Method, find_method, setting
from permll.methods.elr import ELR


class Declared(Method):
    """Settings with and without an interval, and attributes that are not settings."""

    kind: ClassVar[str] = "example"
    memory: Tensor

    beta: float = setting(0.7, "[0, 1)")
    mode: Literal["a", "b"] = "a"


class Derived(Declared):
    """Another default of an inherited setting, and a further setting."""

    beta = 0.5
    steps: int | None = setting(None, "[1, inf)")


class Handwritten(Declared):
    """A constructor of its own."""

    def __init__(self, size: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.size = size


def test_annotated_attributes_with_a_default_are_settings() -> None:
    signature = inspect.signature(Declared)
    assert str(signature) == "(*, beta: float = 0.7, mode: Literal['a', 'b'] = 'a')"
    assert vars(Declared(beta=0.2)).items() >= {"beta": 0.2, "mode": "a"}.items()
    assert Declared.beta == 0.7


def test_settings_are_inherited_with_new_defaults() -> None:
    assert str(inspect.signature(Derived)).startswith("(*, steps: int | None = None, beta: float = 0.5, mode")
    assert Derived().beta == 0.5
    with pytest.raises(ValueError, match=r"beta must lie in \[0, 1\), got 1"):
        Derived(beta=1)
    with pytest.raises(ValueError, match=r"steps must lie in \[1, inf\), got 0"):
        Derived(steps=0)


def test_handwritten_constructor_keeps_its_signature() -> None:
    assert list(inspect.signature(Handwritten).parameters) == ["size", "settings"]
    method = Handwritten(3, beta=0.1)
    assert (method.size, method.beta, method.mode) == (3, 0.1, "a")
    assert list(inspect.signature(type("Subclass", (Handwritten,), {})).parameters) == ["size", "settings"]


def test_unknown_setting_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'betta'"):
        Declared(betta=0.5)  # type: ignore[call-arg]


def test_build_converts_settings_to_the_declared_type() -> None:
    info = find_method(f"{__name__}:Derived")
    assert info.build(beta="0.25", steps="3").steps == 3
    with pytest.raises(ValueError, match=r"the setting mode of .*Derived is 'c', but input should be 'a' or 'b'"):
        info.build(mode="c")


def test_two_instances_do_not_share_settings() -> None:
    first, second = ELR(beta=0.1), ELR()
    assert (first.beta, second.beta) == (0.1, 0.7)
    assert "beta" in inspect.signature(METHODS["elr"].method_class).parameters
