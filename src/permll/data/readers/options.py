"""Options of ``read``, and their validation."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from permll.utils.messages import did_you_mean

Rare = Literal["refuse", "drop", "keep"]
_EXCLUSIVE = (
    ("text", "image", "features"),
    ("label", "labels"),
    ("id", "ids"),
    ("annotators", "annotations"),
    ("labels", "annotations"),
    ("labels", "annotators"),
)


class ReadKeywords(TypedDict, total=False):
    """Keywords of ``permll.data.readers.read``, which other functions pass through."""

    label: str | None
    text: str | None
    image: str | None
    features: Sequence[str] | str | None
    id: str | None
    classes: Sequence[str] | None
    ids: Sequence[str] | None
    gold: Any
    annotators: Sequence[str] | str | None
    annotations: Any
    annotation_columns: Sequence[str] | None
    groups: Any
    no_label: object
    drop_empty: bool
    merge_similar_labels: bool
    rare: Rare
    check: bool
    skip_unreadable: bool
    image_size: int | None


def check_keywords(keywords: ReadKeywords, where: str) -> dict[str, Any]:
    """Return the keywords that are not None; an unknown one raises.

    Examples:
        >>> check_keywords({"lable": "kind"}, "clean")
        Traceback (most recent call last):
        ...
        TypeError: clean() got an unexpected keyword 'lable', did you mean label?
    """
    for name in keywords:
        if name not in ReadKeywords.__annotations__:
            hint = did_you_mean(name, ReadKeywords.__annotations__) or "."
            raise TypeError(f"{where}() got an unexpected keyword {name!r}{hint}")
    return {name: value for name, value in keywords.items() if value is not None}


@dataclass(frozen=True)
class ReadOptions:
    """Validated keywords of ``read``."""

    label: str | None = None
    text: str | None = None
    image: str | None = None
    features: tuple[str, ...] | None = None
    id: str | None = None
    classes: Sequence[str] | None = None
    labels: Any = None
    ids: Sequence[str] | None = None
    gold: Any = None
    annotators: tuple[str, ...] | None = None
    annotations: Any = None
    annotation_columns: tuple[str, ...] | None = None
    groups: Any = None
    no_label: object = None
    drop_empty: bool = False
    merge_similar_labels: bool = False
    rare: Rare = "refuse"
    check: bool = True
    skip_unreadable: bool = False
    image_size: int | None = None

    @property
    def gold_column(self) -> str | None:
        """Name of the column or array of gold labels, if it is not a mask."""
        return self.gold if isinstance(self.gold, str) else None

    @property
    def has_annotators(self) -> bool:
        """Whether the labels are the consensus of several annotators."""
        return self.annotators is not None or self.annotations is not None

    @property
    def leaves_out_empty(self) -> bool:
        """Whether samples without a label are left out."""
        return self.drop_empty or self.no_label == "" or (isinstance(self.no_label, list) and "" in self.no_label)

    @property
    def groups_column(self) -> str | None:
        """Name of the column or array of groups, if they are not a list."""
        return self.groups if isinstance(self.groups, str) else None

    def other_columns(self, label: str | None) -> tuple[str | None, ...]:
        """Return the columns that are not features: of labels, ids, gold labels, groups and annotators."""
        return label, self.id, self.gold_column, self.groups_column, *(self.annotators or ())

    def reject_both(self) -> None:
        """Raise if two options were given that exclude each other."""
        for names in _EXCLUSIVE:
            given = [name for name in names if getattr(self, name) is not None]
            if len(given) > 1:
                raise ValueError(f"{given[0]}= and {given[1]}= exclude each other: give one of them.")

    def reject(self, *names: str, source: str) -> None:
        """Raise if one of the options was given: it has no meaning for ``source``."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name}= is not supported for {source}.")


def parse_options(**keywords: Any) -> ReadOptions:
    """Return validated options.

    Examples:
        >>> parse_options(features="x", rare="keep").features
        ('x',)
    """
    options = {**vars(ReadOptions()), **keywords}
    for name in ("label", "text", "image", "id"):
        if not isinstance(options[name], str | None):
            raise ValueError(f"{name} must be a name (str), got {options[name]!r:.80}.")
    for name in ("labels", "ids", "classes"):
        _check_list(name, options[name])
    for name in ("gold", "groups"):
        if not isinstance(options[name], str):
            _check_list(name, options[name])
    for name in ("check", "skip_unreadable", "drop_empty", "merge_similar_labels"):
        if not isinstance(options[name], bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {options[name]!r:.80}.")
    if options["rare"] not in get_args(Rare):
        raise ValueError(f"rare must be one of {', '.join(get_args(Rare))}; got {options['rare']!r:.80}.")
    size, classes = options["image_size"], options["classes"]
    if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
        raise ValueError(f"image_size must be a number of pixels, the side of a square; got {size!r:.80}.")
    options["image_size"] = None if size is None else int(size)
    options["classes"] = classes if isinstance(classes, str | None) else [str(name) for name in classes]
    options["features"] = _parse_names("features", options["features"])
    for name in ("annotators", "annotation_columns"):
        options[name] = _parse_names(name, options[name])
    if options["annotation_columns"] is not None and len(options["annotation_columns"]) != 3:
        raise ValueError("annotation_columns must be the columns of samples, annotators and labels.")
    return ReadOptions(**options)


def _parse_names(keyword: str, features: object) -> tuple[str, ...] | None:
    if features is None or isinstance(features, str):
        return None if features is None else (features,)
    names = tuple(features) if isinstance(features, Iterable) and not isinstance(features, Mapping) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{keyword} must be a name or a list of names (str), got {features!r:.80}.")
    return names


def _check_list(keyword: str, values: object) -> None:
    """Raise unless the values are a list or array; their types are checked later."""
    if values is None or (keyword == "classes" and isinstance(values, str)):
        return
    contents = {
        "classes": "class names in order",
        "gold": "true or false for each sample",
        "groups": "one group per sample",
    }
    content = contents.get(keyword, f"one {keyword.rstrip('s')} per sample")
    is_list = isinstance(values, Sequence) or (hasattr(values, "__len__") and hasattr(values, "__getitem__"))
    if not is_list or isinstance(values, Mapping | Set | str | bytes):
        raise ValueError(f"{keyword} must be a list ({content}), got {values!r:.80}.")
