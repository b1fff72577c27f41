"""Registry of the methods, by name."""

from typing import TYPE_CHECKING

from permll.methods._info import MethodInfo as MethodInfo
from permll.methods._records import RECORDS
from permll.utils.messages import unknown_name

if TYPE_CHECKING:
    from permll.methods._base import Method


METHODS: dict[str, MethodInfo] = {info.name: info for info in RECORDS}


def list_methods(*, needs: str | None = None) -> list[str]:
    """Return the names of the built-in methods.

    Args:
        needs: only methods with this requirement: ``"index"``, ``"validation"``, ``"trusted"`` or ``"noise_rate"``.

    Examples:
        >>> list_methods()[:3]
        ['ce', 'bootstrap_soft', 'bootstrap_hard']
        >>> list_methods(needs="trusted")
        ['glc']
    """
    known = {need for info in RECORDS for need in info.needs}
    if needs is not None and needs not in known:
        raise ValueError(unknown_name("requirement", needs, sorted(known)))
    return [info.name for info in RECORDS if needs is None or needs in info.needs]


def method_name(method: "type[Method]") -> str:
    """Return the name under which ``find_method`` finds a class.

    Examples:
        >>> from permll.methods.permll import PermLL
        >>> method_name(PermLL)
        'permll'
    """
    path = f"{method.__module__}:{method.__qualname__}"
    return next((info.name for info in RECORDS if info.import_path == path), path)


def find_method(name: str) -> MethodInfo:
    """Return the metadata of a method; an unknown name raises, with the nearest known name.

    Args:
        name: name of a built-in method, or ``"module:Class"`` of a user-defined one.

    Examples:
        >>> find_method("permll").needs
        ('index',)
        >>> find_method("permll.methods.ce:CrossEntropy").title
        'CrossEntropy'
    """
    if ":" in name:
        title = name.rpartition(":")[2]
        return MethodInfo(
            name=name, title=title, summary="user-defined", year=None, paper="user-defined", import_path=name
        )
    if name not in METHODS:
        raise ValueError(unknown_name("method", name, METHODS))
    return METHODS[name]
