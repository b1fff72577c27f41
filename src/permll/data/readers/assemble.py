"""From what a reader found to ``Data``: what is wrong is named, what may be left out is left out and noted."""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.data.inputs import LazyImages
from permll.data.labels import by_place, in_order, is_missing, name_classes
from permll.data.readers.image_files import broken, small
from permll.data.readers.types import Rare, RawData, ReadOptions, RowRefs, leave_out, pluralize, row_numbers
from permll.utils.messages import format_list


def assemble(found: RawData, asked: ReadOptions) -> LabeledData:
    """Return the ``Data``: labelled rows only, images that can be opened, at least two classes, none too rare."""
    if asked.labels is not None:
        found = with_labels(found, asked.labels)
    ids, values = _ids(found, asked), plain_values(found.values)
    if not len(found.inputs) == len(values) == len(ids):
        raise ValueError(
            f"every {found.noun} needs one label and one id: there are {pluralize(len(found.inputs), found.noun)}, "
            f"{pluralize(len(values), 'label')} and {pluralize(len(ids), 'id')}."
        )
    _refuse_twice(ids, found)
    left_out, places = list(found.metadata.get("left_out", ())), found.places(ids)
    keep, notes = labeled(values, ids, places, asked.no_label, found.noun)
    left_out += notes
    inputs = found.inputs
    if isinstance(inputs, LazyImages):
        inputs = inputs if asked.image_size is None else inputs.resized(asked.image_size)
        keep, notes = _readable_rows(inputs, keep, ids, asked)
        left_out += notes
    elif asked.image_size is not None:
        raise ValueError("image_size= has no meaning here: only images in files or data sets are resized.")
    if len(keep) < len(ids):
        inputs, values, ids = inputs.take(torch.tensor(keep)), [values[i] for i in keep], [ids[i] for i in keep]
        places = places.take(keep)
    labels, classes = _number(values, places, asked, found)
    rows, labels, classes, notes = settle_rare(labels, classes, ids, places, asked.rare, found.noun)
    left_out += notes
    if rows is not None:
        inputs, ids = inputs.take(rows), [ids[i] for i in rows.tolist()]
    if isinstance(inputs, LazyImages):
        inputs = small(inputs, ids, asked.image_size)
    _warn_of_twins(classes)
    return LabeledData(inputs, labels, classes, tuple(ids), {**found.metadata, "left_out": left_out})


def with_labels(found: RawData, values: Any) -> RawData:
    """Return what was found with these labels; where they are ordered categories, that order is the classes'."""
    ordered = in_order(values)
    return replace(found, values=values) if ordered is None else replace(found, values=ordered[0], order=ordered[1])


def plain_values(values: Any) -> list[Any]:
    """Return labels as a list of Python values, of whatever kind they came."""
    if values is None:
        raise ValueError("there are no labels: name them with label=, or give them with labels=.")
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise ValueError(f"labels must be a list of one label per sample, got {values!r:.80}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"labels must be a list of one label per sample, got shape {tuple(values.shape)}.")
    for method in ("tolist", "to_list"):  # of polars the latter
        if hasattr(values, method):
            return list(getattr(values, method)())
    return [value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value for value in values]


def labeled(
    values: Sequence[object], ids: Sequence[str], places: RowRefs, no_label: object, noun: str
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the positions with a label, and the notes about the others; refuse an empty label that was not asked for.

    Examples:
        >>> ids = ["a", "b", "c"]
        >>> labeled([2, -1, 2], ids, RowRefs(ids), no_label=-1, noun="row")[0]
        [0, 2]
    """
    means = _several(no_label)
    missing_too = any(is_missing(word) for word in means)
    missing = [i for i, value in enumerate(values) if is_missing(value)]
    if missing and not missing_too:
        raise ValueError(
            f'labels are missing in {places.format_list(missing)}: fill them in, or leave those out with no_label="".'
        )
    out = {i for i, value in enumerate(values) if any(_same(value, word) for word in means)} | set(missing)
    if len(out) == len(values):
        raise ValueError(f"no {noun} has a label: all {len(values):,} are {' or '.join(map(repr, means))}.")
    why = f"no label ({', '.join(repr(word) for word in means)})"
    notes = [leave_out(noun, why, [ids[i] for i in sorted(out)])] if out else []
    return [i for i in range(len(values)) if i not in out], notes


class Settled(NamedTuple):
    """Labels and classes after rare classes were dealt with; ``rows`` is None where nothing was left out."""

    rows: Tensor | None
    labels: Tensor
    classes: tuple[str, ...]
    notes: list[dict[str, Any]]


def settle_rare(
    labels: Tensor, classes: tuple[str, ...], ids: Sequence[str], places: RowRefs, rare: Rare, noun: str
) -> Settled:
    """Refuse, drop or keep classes with one sample or none; refuse fewer than two classes in any case."""
    counts = torch.bincount(labels, minlength=len(classes))
    few = (counts < 2).nonzero()[:, 0].tolist()
    left = Settled(None, labels, classes, [])
    if few and rare != "keep":
        alone = {label: row for row, label in enumerate(labels.tolist()) if counts[label] == 1}
        if rare == "refuse" and int((counts > 0).sum()) > 1:
            shown = [f"{classes[k]}: {places.named(alone[k]) if k in alone else 'none'}" for k in few]
            raise ValueError(
                f"there are too few samples to learn from in {format_list(shown, 'class')}: add some, or pass rare='drop' "
                "to leave them out or rare='keep'."
            )
        rows = (counts[labels] >= 2).nonzero()[:, 0]
        kept = (counts >= 2).nonzero()[:, 0]
        number = torch.full((len(classes),), -1).scatter(0, kept, torch.arange(len(kept)))
        notes = [leave_out("class", f"fewer than two {noun}s", [classes[k] for k in few])]
        notes += [leave_out(noun, "the only one of its class", [ids[i] for i in alone.values()])] if alone else []
        left = Settled(rows, number[labels[rows]], tuple(classes[k] for k in kept.tolist()), notes)
    present = sorted({left.classes[label] for label in left.labels.tolist()})
    if len(present) < 2:
        only = f"all labels are {present[0]!r}" if present else "every class has one sample"
        raise ValueError(f"at least two classes are needed, but {only}.")
    return left


def _readable_rows(
    images: LazyImages, rows: list[int], ids: Sequence[str], asked: ReadOptions
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return those of ``rows`` whose images can be read, and a note about the others."""
    if not asked.check and not asked.skip_unreadable:
        return rows, []
    bad = broken(images.take(torch.tensor(rows)), [ids[i] for i in rows], skip=asked.skip_unreadable)
    notes = []
    for reason in dict.fromkeys(bad.values()):
        names = [name for name in bad if bad[name] == reason]
        notes.append(leave_out("image", f"cannot be read: {reason}" if reason else "cannot be read", names))
    return [i for i in rows if ids[i] not in bad], notes


def _number(values: list[Any], places: RowRefs, asked: ReadOptions, found: RawData) -> tuple[Tensor, tuple[str, ...]]:
    if found.order is not None and asked.classes is None:
        present = set(values)
        given: Sequence[str] | None = [name for name in found.order if name in present]
    else:
        given = found.names if found.names is not None and isinstance(asked.classes, str | None) else asked.classes
        if asked.no_label is None and "-1" not in (given or ()):
            _question_minus_one(values, places, named=given is not None)
    places_only = given is not None and given is found.names
    if places_only and not any(isinstance(value, str | bytes) for value in values):
        return by_place(values, given or (), ids=places.names, noun=places.noun)
    return name_classes(values, given, ids=places.names, noun=places.noun)


def _ids(found: RawData, asked: ReadOptions) -> list[str]:
    if asked.ids is None:
        return list(found.ids) or list(row_numbers(len(found.inputs)))
    return [str(name) for name in plain_values(asked.ids)]


def _refuse_twice(ids: Sequence[str], found: RawData) -> None:
    if len(set(ids)) == len(ids):
        return
    noun, numbers = ("line", found.lines) if found.lines is not None else (found.noun, range(len(ids)))
    where: dict[str, list[int]] = defaultdict(list)
    for number, name in zip(numbers, ids, strict=True):
        where[name].append(number)
    twice = [f"{name} in {noun}s {' and '.join(map(str, own[:3]))}" for name, own in where.items() if len(own) > 1]
    raise ValueError(f"every id must name one {found.noun}; named more than once: {format_list(twice, 'id')}.")


def _several(no_label: object) -> list[object]:
    if no_label is None:
        return []
    return list(no_label) if isinstance(no_label, list | tuple | set | frozenset) else [no_label]


def _same(value: object, word: object) -> bool:
    """Compare -1 and -1.0 as numbers, and 3 and "3" as text, but not True and 1."""
    return (value == word and isinstance(value, bool) == isinstance(word, bool)) or str(value) == str(word)


def _question_minus_one(values: Sequence[object], places: RowRefs, *, named: bool) -> None:
    """-1 beside 0, 1, ... mostly means that nobody gave a label; as a class it would spoil the others."""
    numbers = {value for value in values if isinstance(value, int | float) and not isinstance(value, bool)}
    rows = [i for i, value in enumerate(values) if value == -1]
    if rows and named:
        raise ValueError(f"labels are -1 in {places.format_list(rows)}: pass no_label=-1 to leave those out.")
    if {-1, 0, 1} <= numbers and min(numbers) == -1:
        warnings.warn(
            f"-1 is taken for a class in {places.format_list(rows)}: pass no_label=-1 if it means no label, "
            "no_label=() if it is one.",
            stacklevel=5,
        )


def _warn_of_twins(classes: Sequence[str]) -> None:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[" ".join(name.casefold().split())].append(name)
    twins = [" and ".join(map(repr, group)) for group in groups.values() if len(group) > 1]
    if twins:
        warnings.warn(
            f"classes that differ in case or spaces alone may be one: {format_list(twins, 'group')}.", stacklevel=4
        )
