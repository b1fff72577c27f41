"""Methods by name."""

from typing import TYPE_CHECKING

from permll.methods._info import MethodInfo as MethodInfo
from permll.methods._records import RECORDS
from permll.utils.messages import did_you_mean

if TYPE_CHECKING:
    from permll.methods._base import Method


METHODS: dict[str, MethodInfo] = {info.name: info for info in RECORDS}


def method_name(method: "type[Method]") -> str:
    """Return the name that ``find_method`` knows a class by.

    Examples:
        >>> from permll.methods.permll import PermLL
        >>> method_name(PermLL)
        'permll'
    """
    path = f"{method.__module__}:{method.__qualname__}"
    return next((info.name for info in METHODS.values() if info.import_path == path), path)


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
        title = name.rpartition(":")[2]
        return MethodInfo(name=name, title=title, summary="your own", year=None, paper="your own", import_path=name)
    if name not in METHODS:
        raise ValueError(f"{name!r} is no method{did_you_mean(name, METHODS) or '.'} There are {', '.join(METHODS)}.")
    return METHODS[name]
