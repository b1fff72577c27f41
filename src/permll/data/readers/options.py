"""What the keywords of ``read`` may be: a wrong one is one sentence, not an error deep inside."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, get_args

import numpy as np

from permll.data.readers.types import Rare, ReadOptions


def parse_options(
    *,
    features: object,
    rare: Rare,
    check: object,
    skip_unreadable: object,
    image_size: object,
    **others: Any,
) -> ReadOptions:
    """Return the keywords as a record, each of the type it must have.

    Examples:
        >>> parse_options(features="x", rare="keep", check=True, skip_unreadable=False, image_size=None).features
        ('x',)
    """
    for keyword in ("label", "text", "image", "id"):
        _name(keyword, others.get(keyword))
    for keyword in ("labels", "ids", "classes"):
        _list(keyword, others.get(keyword))
    if others.get("classes") is not None and not isinstance(others["classes"], str):
        others["classes"] = [str(name) for name in others["classes"]]
    if rare not in get_args(Rare):
        raise ValueError(f"rare must be one of {', '.join(get_args(Rare))}; got {rare!r:.80}.")
    return ReadOptions(
        features=_names(features),
        rare=rare,
        check=_truth("check", check),
        skip_unreadable=_truth("skip_unreadable", skip_unreadable),
        image_size=_pixels(image_size),
        **others,
    )


def _name(keyword: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{keyword} must be one name, as text; got {value!r:.80}.")


def _names(features: object) -> tuple[str, ...] | None:
    if features is None or isinstance(features, str):
        return None if features is None else (features,)
    names = tuple(features) if isinstance(features, Iterable) and not isinstance(features, Mapping) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"features must be a name or a list of names, as text; got {features!r:.80}.")
    return names


def _list(keyword: str, values: object) -> None:
    """Refuse what has no order or no values; what kind of values there are is seen later."""
    if values is None or (keyword == "classes" and isinstance(values, str)):
        return
    what = "the names of classes in their order" if keyword == "classes" else f"one {keyword.rstrip('s')} per sample"
    is_list = isinstance(values, Sequence) or (hasattr(values, "__len__") and hasattr(values, "__getitem__"))
    if not is_list or isinstance(values, Mapping | Set | str | bytes):
        raise ValueError(f"{keyword} must be a list, {what}; got {values!r:.80}.")


def _truth(keyword: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{keyword} must be True or False; got {value!r:.80}.")
    return bool(value)


def _pixels(size: object) -> int | None:
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"image_size must be one number of pixels, the side of a square; got {size!r:.80}.")
    return int(size)
