"""From ``RawData`` to ``LabeledData``: labels are encoded, unusable rows are reported or left out."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.data.decoding import DecodedImages, ShrinkTo, decode_images
from permll.data.inputs import LazyImages
from permll.data.labels import (
    EncodedLabels,
    RowRefs,
    encode_class_numbers,
    encode_labels,
    fold_name,
    ordered_categories,
    similar_names,
    to_list,
)
from permll.data.readers.consensus import find_consensus, with_consensus
from permll.data.readers.gold import gold_mask
from permll.data.readers.groups import group_names
from permll.data.readers.image_files import check_readable, load_small_images
from permll.data.readers.options import Rare, ReadOptions
from permll.data.readers.raw_data import RawData, default_ids, left_out_entry, pluralize
from permll.data.readers.usable_rows import usable_rows
from permll.utils.messages import Problems, format_list

_RareClasses = tuple[Tensor, Tensor, tuple[str, ...], list[dict[str, Any]]]


def assemble(raw: RawData, options: ReadOptions, shrink_to: ShrinkTo = None) -> LabeledData:
    """Return the labeled rows with readable images; raise unless there are two classes or more, none too rare."""
    if options.labels is not None:
        raw = with_labels(raw, options.labels)
    if raw.values is None and not options.has_annotators:
        raise ValueError("there are no labels: choose them with label=, or give them with labels=.")
    ids = list(raw.ids) or list(default_ids(len(raw.inputs)))
    if options.ids is not None:
        ids = [str(name) for name in to_list(options.ids)]
    row_refs, problems = raw.row_refs(ids), Problems(raw.problems.errors)
    gold: Sequence[bool] | None = None
    with problems.collect():
        gold = _gold(options, raw, row_refs)
    consensus = find_consensus(raw, options, ids, row_refs, gold)
    raw = raw if consensus is None else with_consensus(raw, consensus)
    values, inputs = to_list(raw.values), raw.inputs
    if options.image_size is not None and not isinstance(raw.inputs, LazyImages):
        raise ValueError("image_size= is only supported for images in files or datasets.")
    _check_lengths(ids, values, raw)
    groups: Sequence[str] | None = None
    with problems.collect():
        _check_unique(ids, raw)
    with problems.collect():
        groups = _groups(options, raw, row_refs)
    rows, left_out = usable_rows(values, ids, row_refs, options, raw, problems)
    decoded: DecodedImages | None = None
    if not rows:
        problems.raise_all()
    if isinstance(inputs, LazyImages):
        inputs = inputs if options.image_size is None else inputs.resize(options.image_size)
        if options.check or options.skip_unreadable:
            decoded = decode_images(inputs.take(torch.tensor(rows)), options.image_size, shrink_to=shrink_to)
            position = {i: number for number, i in enumerate(rows)}  # in ``decoded``
            with problems.collect():
                left_out += _leave_out_unreadable(decoded, [ids[i] for i in rows], options)
                rows = [i for i in rows if position[i] not in decoded.errors]
    elif options.image_size is not None:
        raise ValueError("image_size= is only supported for images in files or datasets.")
    encoded: _RareClasses | None = None
    with problems.collect():
        encoded = _encode_rows(values, rows, ids, row_refs, options, raw)
    problems.raise_all()
    assert encoded is not None
    kept, labels, classes, entries = encoded
    rows = [row for row, is_kept in zip(rows, kept.tolist(), strict=True) if is_kept]
    if decoded is not None:
        inputs = decoded.select([position[i] for i in rows])
    elif len(rows) < len(ids):
        inputs = inputs.take(torch.tensor(rows))
    ids = [ids[i] for i in rows]
    if isinstance(inputs, LazyImages) and decoded is None:
        inputs = load_small_images(inputs, ids, options.image_size, shrink_to)
    if not options.merge_similar_labels:
        _warn_of_similar_names(classes)
    annotations, unused = (None, []) if consensus is None else consensus.take(rows, labels, len(classes))
    metadata = {**raw.metadata, "left_out": [*raw.metadata.get("left_out", ()), *left_out, *entries, *unused]}
    trusted = None if gold is None or not any(gold) else torch.tensor(gold)[rows]
    kept_groups = None if groups is None else tuple(groups[i] for i in rows)
    return LabeledData(
        inputs, labels, classes, tuple(ids), metadata, trusted, annotations=annotations, groups=kept_groups
    )


def _gold(options: ReadOptions, raw: RawData, row_refs: RowRefs) -> Sequence[bool] | None:
    """Return which labels are gold, by the option or by the reader."""
    if options.gold is None or options.gold_column is not None:
        return raw.gold
    mask = gold_mask(to_list(options.gold), row_refs)
    if len(mask) != len(raw.inputs):
        raise ValueError(f"gold has {pluralize(len(mask), 'value')} for {pluralize(len(raw.inputs), raw.noun)}.")
    return mask


def _groups(options: ReadOptions, raw: RawData, row_refs: RowRefs) -> Sequence[str] | None:
    """Return the groups of the samples, by the option or by the reader."""
    if options.groups is None or raw.groups is not None or (options.groups_column and raw.problems.errors):
        return raw.groups
    if options.groups_column is not None:
        raise ValueError(f"groups={options.groups_column!r} names a column, but there are none: pass a list of groups.")
    names = group_names(to_list(options.groups), row_refs)
    if len(names) != len(raw.inputs):
        raise ValueError(f"groups has {pluralize(len(names), 'value')} for {pluralize(len(raw.inputs), raw.noun)}.")
    return names


def _encode_rows(
    values: Sequence[Any], rows: list[int], ids: Sequence[str], row_refs: RowRefs, options: ReadOptions, raw: RawData
) -> _RareClasses:
    """Return the encoded labels of rows after rare classes were handled."""
    selected = [values[i] for i in rows]
    if options.merge_similar_labels:
        selected = merge_similar(selected, options.classes)
    refs = row_refs.take(rows)
    labels, classes = _encode(selected, refs, options, raw)
    return handle_rare_classes(labels, classes, [ids[i] for i in rows], refs, options.rare, raw.noun)


def merge_similar(values: Sequence[object], classes: Sequence[str] | str | None = None) -> list[Any]:
    """Return labels in which those that differ only in case or spaces are the most frequent of them, or a class name.

    Examples:
        >>> merge_similar(["cat", "Cat", "cat ", "dog"]), merge_similar([1, 0])
        (['cat', 'cat', 'cat', 'dog'], [1, 0])
    """
    counts = Counter(value for value in values if isinstance(value, str))
    spelling: dict[str, str] = {}
    for name, _ in counts.most_common():
        spelling.setdefault(fold_name(name), name)
    spelling |= {} if isinstance(classes, str | None) else {fold_name(name): name for name in classes}
    return [spelling[fold_name(value)] if isinstance(value, str) else value for value in values]


def with_labels(raw: RawData, values: Any) -> RawData:
    """Return ``raw`` with these labels; ordered categories also set the order of the classes."""
    ordered = ordered_categories(values)
    return replace(raw, values=values) if ordered is None else replace(raw, values=ordered[0], order=ordered[1])


def handle_rare_classes(
    labels: Tensor, classes: tuple[str, ...], ids: Sequence[str], row_refs: RowRefs, rare: Rare, noun: str
) -> _RareClasses:
    """Raise for, drop or keep classes with fewer than two samples; raise for fewer than two classes.

    Returns a mask (N,) of the samples that stay, their labels, the classes, and entries of ``left_out``.
    """
    counts = torch.bincount(labels, minlength=len(classes))
    is_common, entries = counts >= (0 if rare == "keep" else 2), []
    rare_classes = (~is_common).nonzero()[:, 0].tolist()
    kept = is_common[labels]
    if rare_classes:
        singles = {int(labels[row]): row for row in (~kept).nonzero()[:, 0].tolist()}
        if rare == "refuse" and int((counts > 0).sum()) > 1:
            line = "line " if row_refs.noun == "line" else ""
            where = {k: f"{line}{row_refs.names[row]}" for k, row in singles.items()}
            names = [f"{classes[k]}: {where.get(k, 'none')}" for k in rare_classes]
            raise ValueError(
                f"fewer than two samples in {format_list(names, 'class')}: add some, or pass rare='drop' to leave the "
                "classes out or rare='keep'."
            )
        entries.append(left_out_entry("class", f"fewer than two {noun}s", [classes[k] for k in rare_classes]))
        if singles:
            entries.append(left_out_entry(noun, "the only one of its class", [ids[row] for row in singles.values()]))
        labels = (is_common.cumsum(0) - 1)[labels[kept]]
        classes = tuple(name for name, stays in zip(classes, is_common.tolist(), strict=True) if stays)
    present = sorted({classes[label] for label in labels.tolist()})
    if len(present) < 2:
        why = f"all labels are {present[0]!r}" if present else "every class has one sample"
        raise ValueError(f"at least two classes are needed, but {why}.")
    return kept, labels, classes, entries


def _leave_out_unreadable(decoded: DecodedImages, names: Sequence[str], options: ReadOptions) -> list[dict[str, Any]]:
    """Return entries of ``left_out`` for images that cannot be read; raise if they must not be skipped."""
    names_by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in check_readable(decoded, names, skip=options.skip_unreadable).items():
        names_by_reason[f"cannot be read: {reason}" if reason else "cannot be read"].append(name)
    return [left_out_entry("image", why, bad) for why, bad in names_by_reason.items()]


def _encode(values: list[Any], row_refs: RowRefs, options: ReadOptions, raw: RawData) -> EncodedLabels:
    if raw.order is not None and options.classes is None:
        present = set(values)
        classes: Sequence[str] | None = [name for name in raw.order if name in present]
    else:
        is_name = isinstance(options.classes, str | None)  # of an array of names, which the reader has read
        classes = raw.names if raw.names is not None and is_name else options.classes
        if options.no_label is None and "-1" not in (classes or ()):
            _check_minus_one(values, row_refs, has_classes=classes is not None)
    is_index = classes is not None and classes is raw.names
    if is_index and not any(isinstance(value, str | bytes) for value in values):
        return encode_class_numbers(values, classes or (), ids=row_refs.names, noun=row_refs.noun)
    return encode_labels(values, classes, ids=row_refs.names, noun=row_refs.noun)


def _check_lengths(ids: Sequence[str], values: Sequence[object], raw: RawData) -> None:
    """Raise unless every sample has one label and one id."""
    if not len(raw.inputs) == len(values) == len(ids):
        raise ValueError(
            f"every {raw.noun} needs one label and one id: got {pluralize(len(raw.inputs), raw.noun)}, "
            f"{pluralize(len(values), 'label')} and {pluralize(len(ids), 'id')}."
        )


def _check_unique(ids: Sequence[str], raw: RawData) -> None:
    """Raise unless ids are unique."""
    if len(set(ids)) == len(ids):
        return
    noun, numbers = ("line", raw.lines) if raw.lines is not None else (raw.noun, range(len(ids)))
    rows: dict[str, list[int]] = defaultdict(list)
    for number, name in zip(numbers, ids, strict=True):
        rows[name].append(number)
    repeated = [f"{name} in {noun}s {' and '.join(map(str, at[:3]))}" for name, at in rows.items() if len(at) > 1]
    raise ValueError(f"ids must be unique; repeated: {format_list(repeated, 'id')}.")


def _check_minus_one(values: Sequence[object], row_refs: RowRefs, *, has_classes: bool) -> None:
    """Raise or warn for -1 besides 0, 1, ...: it mostly means a missing label."""
    numbers = {value for value in values if isinstance(value, int | float) and not isinstance(value, bool)}
    rows = [i for i, value in enumerate(values) if value == -1]
    if rows and has_classes:
        raise ValueError(f"labels are -1 in {row_refs.format_list(rows)}: pass no_label=-1 to leave those out.")
    if {-1, 0, 1} <= numbers and min(numbers) == -1:
        warnings.warn(
            f"-1 is read as a class in {row_refs.format_list(rows)}: pass no_label=-1 if it means no label, "
            "no_label=() if it is a class.",
            stacklevel=6,
        )


def _warn_of_similar_names(classes: Sequence[str]) -> None:
    similar = [" and ".join(repr(classes[k]) for k in group) for group in similar_names(classes)]
    if similar:
        warnings.warn(
            f"classes that differ only in case or spaces may be the same: {format_list(similar, 'group')}; "
            "merge_similar_labels=True reads each group as one class.",
            stacklevel=4,
        )
