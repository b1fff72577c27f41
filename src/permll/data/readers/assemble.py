"""From ``RawData`` to ``LabeledData``: labels are encoded, unusable rows are reported or left out."""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.data.decoding import DecodedImages, decode_images
from permll.data.inputs import LazyImages
from permll.data.labels import encode_class_numbers, encode_labels, is_missing, ordered_categories
from permll.data.readers.image_files import check_readable, load_small_images
from permll.data.readers.options import Rare, ReadOptions
from permll.data.readers.raw_data import RawData, RowRefs, default_ids, left_out_entry, pluralize
from permll.utils.messages import format_list


def assemble(raw: RawData, options: ReadOptions) -> LabeledData:
    """Return the labeled rows with readable images; raise unless there are two classes or more, none too rare."""
    if options.labels is not None:
        raw = with_labels(raw, options.labels)
    ids, values = _get_ids(raw, options), to_list(raw.values)
    if not len(raw.inputs) == len(values) == len(ids):
        raise ValueError(
            f"every {raw.noun} needs one label and one id: got {pluralize(len(raw.inputs), raw.noun)}, "
            f"{pluralize(len(values), 'label')} and {pluralize(len(ids), 'id')}."
        )
    _check_unique(ids, raw)
    left_out, row_refs = list(raw.metadata.get("left_out", ())), raw.row_refs(ids)
    rows, entries = labeled_rows(values, ids, row_refs, options.no_label, raw.noun)
    left_out += entries
    inputs, decoded = raw.inputs, None
    if isinstance(inputs, LazyImages):
        inputs = inputs if options.image_size is None else inputs.resize(options.image_size)
        if options.check or options.skip_unreadable:
            decoded, entries = _decode(inputs.take(torch.tensor(rows)), [ids[i] for i in rows], options)
            decoded_row = {ids[i]: row for row, i in enumerate(rows)}
            rows = [i for i in rows if decoded_row[ids[i]] not in decoded.errors]
            left_out += entries
    elif options.image_size is not None:
        raise ValueError("image_size= is only supported for images in files or datasets.")
    if len(rows) < len(ids):
        inputs, values, ids = inputs.take(torch.tensor(rows)), [values[i] for i in rows], [ids[i] for i in rows]
        row_refs = row_refs.take(rows)
    labels, classes = _encode(values, row_refs, options, raw)
    selection = handle_rare_classes(labels, classes, ids, row_refs, options.rare, raw.noun)
    if selection.rows is not None:
        inputs, ids = inputs.take(selection.rows), [ids[i] for i in selection.rows.tolist()]
    if decoded is not None:
        inputs = decoded.select([decoded_row[name] for name in ids])
    elif isinstance(inputs, LazyImages):
        inputs = load_small_images(inputs, ids, options.image_size)
    _warn_of_similar_names(selection.classes)
    metadata = {**raw.metadata, "left_out": left_out + selection.left_out}
    return LabeledData(inputs, selection.labels, selection.classes, tuple(ids), metadata)


def with_labels(raw: RawData, values: Any) -> RawData:
    """Return ``raw`` with these labels; ordered categories also set the order of the classes."""
    ordered = ordered_categories(values)
    return replace(raw, values=values) if ordered is None else replace(raw, values=ordered[0], order=ordered[1])


def to_list(values: Any) -> list[Any]:
    """Return labels in any form as a list of Python values."""
    if values is None:
        raise ValueError("there are no labels: choose them with label=, or give them with labels=.")
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise ValueError(f"labels must be a list of one label per sample, got {values!r:.80}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"labels must be a list of one label per sample, got shape {tuple(values.shape)}.")
    for method in ("tolist", "to_list"):  # the latter of polars
        if hasattr(values, method):
            return list(getattr(values, method)())
    return [value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value for value in values]


def labeled_rows(
    values: Sequence[object], ids: Sequence[str], row_refs: RowRefs, no_label: object, noun: str
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the rows with a label, and entries of ``left_out``; an unexpected missing label raises.

    Examples:
        >>> ids = ["a", "b", "c"]
        >>> labeled_rows([2, -1, 2], ids, RowRefs(ids), no_label=-1, noun="row")[0]
        [0, 2]
    """
    markers: list[object] = [] if no_label is None else [no_label]
    if isinstance(no_label, list | tuple | set | frozenset):
        markers = list(no_label)
    missing = [i for i, value in enumerate(values) if is_missing(value)]
    if missing and not any(is_missing(marker) for marker in markers):
        raise ValueError(
            f'labels are missing in {row_refs.format_list(missing)}: fill them in, or leave those out with no_label="".'
        )
    unlabeled = {i for i, value in enumerate(values) if any(_equal(value, marker) for marker in markers)} | set(missing)
    if len(unlabeled) == len(values):
        raise ValueError(f"no {noun} has a label: all {len(values):,} are {' or '.join(map(repr, markers))}.")
    why = f"no label ({', '.join(map(repr, markers))})"
    entries = [left_out_entry(noun, why, [ids[i] for i in sorted(unlabeled)])] if unlabeled else []
    return [i for i in range(len(values)) if i not in unlabeled], entries


class ClassSelection(NamedTuple):
    """Labels and classes without rare classes; ``rows`` is None if all rows stay."""

    rows: Tensor | None
    labels: Tensor
    classes: tuple[str, ...]
    left_out: list[dict[str, Any]]


def handle_rare_classes(
    labels: Tensor, classes: tuple[str, ...], ids: Sequence[str], row_refs: RowRefs, rare: Rare, noun: str
) -> ClassSelection:
    """Raise for, drop or keep classes with fewer than two samples; raise for fewer than two classes."""
    counts = torch.bincount(labels, minlength=len(classes))
    rare_classes = (counts < 2).nonzero()[:, 0].tolist()
    selection = ClassSelection(None, labels, classes, [])
    if rare_classes and rare != "keep":
        singles = {label: row for row, label in enumerate(labels.tolist()) if counts[label] == 1}
        if rare == "refuse" and int((counts > 0).sum()) > 1:
            names = [f"{classes[k]}: {row_refs.name(singles[k]) if k in singles else 'none'}" for k in rare_classes]
            raise ValueError(
                f"fewer than two samples in {format_list(names, 'class')}: add some, or pass rare='drop' to leave the "
                "classes out or rare='keep'."
            )
        rows = (counts[labels] >= 2).nonzero()[:, 0]
        kept = (counts >= 2).nonzero()[:, 0]
        number = torch.full((len(classes),), -1).scatter(0, kept, torch.arange(len(kept)))
        entries = [left_out_entry("class", f"fewer than two {noun}s", [classes[k] for k in rare_classes])]
        if singles:
            entries.append(left_out_entry(noun, "the only one of its class", [ids[i] for i in singles.values()]))
        selection = ClassSelection(rows, number[labels[rows]], tuple(classes[k] for k in kept.tolist()), entries)
    present = sorted({selection.classes[label] for label in selection.labels.tolist()})
    if len(present) < 2:
        why = f"all labels are {present[0]!r}" if present else "every class has one sample"
        raise ValueError(f"at least two classes are needed, but {why}.")
    return selection


def _decode(
    images: LazyImages, names: Sequence[str], options: ReadOptions
) -> tuple[DecodedImages, list[dict[str, Any]]]:
    """Decode each image once; return the result and entries of ``left_out`` for unreadable ones."""
    decoded = decode_images(images, options.image_size)
    errors = check_readable(decoded, names, skip=options.skip_unreadable)
    entries = []
    for reason in dict.fromkeys(errors.values()):
        bad = [name for name in errors if errors[name] == reason]
        entries.append(left_out_entry("image", f"cannot be read: {reason}" if reason else "cannot be read", bad))
    return decoded, entries


def _encode(values: list[Any], row_refs: RowRefs, options: ReadOptions, raw: RawData) -> tuple[Tensor, tuple[str, ...]]:
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


def _get_ids(raw: RawData, options: ReadOptions) -> list[str]:
    if options.ids is None:
        return list(raw.ids) or list(default_ids(len(raw.inputs)))
    return [str(name) for name in to_list(options.ids)]


def _check_unique(ids: Sequence[str], raw: RawData) -> None:
    if len(set(ids)) == len(ids):
        return
    noun, numbers = ("line", raw.lines) if raw.lines is not None else (raw.noun, range(len(ids)))
    rows: dict[str, list[int]] = defaultdict(list)
    for number, name in zip(numbers, ids, strict=True):
        rows[name].append(number)
    repeated = [f"{name} in {noun}s {' and '.join(map(str, at[:3]))}" for name, at in rows.items() if len(at) > 1]
    raise ValueError(f"ids must be unique; repeated: {format_list(repeated, 'id')}.")


def _equal(value: object, marker: object) -> bool:
    """Compare -1 and -1.0 as numbers, and 3 and "3" as text, but not True and 1."""
    return (value == marker and isinstance(value, bool) == isinstance(marker, bool)) or str(value) == str(marker)


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
            stacklevel=5,
        )


def _warn_of_similar_names(classes: Sequence[str]) -> None:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[" ".join(name.casefold().split())].append(name)
    similar = [" and ".join(map(repr, group)) for group in groups.values() if len(group) > 1]
    if similar:
        warnings.warn(
            f"classes that differ only in case or spaces may be the same: {format_list(similar, 'group')}.",
            stacklevel=4,
        )
