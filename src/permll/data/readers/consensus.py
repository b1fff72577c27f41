"""Consensus of several annotators (Dawid and Skene), which becomes the labels of a data set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from permll.data.annotations import Annotations
from permll.data.labels import RowRefs, encode_class_numbers, encode_labels, is_missing, to_list
from permll.data.readers.annotations import RawAnswers, check_answers, read_annotations
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData, left_out_entry, merge_metadata, pluralize
from permll.data.readers.usable_rows import matches_marker
from permll.functional.multiple_annotators import Answers, dawid_skene
from permll.utils.messages import format_list


@dataclass(frozen=True, eq=False)
class Consensus:
    """The consensus of all N rows of a source.

    Args:
        annotations: with numbers of all answered classes.
        labels: (N,) class numbers; -1 without an answer, or for a reviewed label that is not among the answers.
        values: N labels as they are stored; None without an answer. Reviewed labels are kept.
        names: of the classes.
    """

    annotations: Annotations
    labels: Tensor
    values: list[Any]
    names: tuple[str, ...]

    def take(self, rows: Sequence[int], labels: Tensor, num_classes: int) -> tuple[Annotations, list[dict[str, Any]]]:
        """Return the answers to some rows with the class numbers of the data set, and an entry of ``left_out``.

        Args:
            rows: that stay.
            labels: their consensus as class numbers of the data set.
            num_classes: c.
        """
        index = torch.tensor(rows)
        numbers, known = torch.full((len(self.names),), -1), self.labels[index] >= 0
        numbers[self.labels[index][known]] = labels[known]
        answers = self.annotations.answers.take(index)
        mapped = numbers[answers.labels]
        kept = mapped >= 0
        unused = sorted({self.names[k] for k in answers.labels[~kept].tolist()})
        entry = left_out_entry("answer", "a class that is the consensus of no sample", unused)
        answers = answers._replace(
            samples=answers.samples[kept],
            annotators=answers.annotators[kept],
            labels=mapped[kept],
            num_classes=num_classes,
        )
        return replace(self.annotations, answers=answers), [{**entry, "count": int((~kept).sum())}] if unused else []


def find_consensus(
    raw: RawData, options: ReadOptions, ids: Sequence[str], refs: RowRefs, gold: Sequence[bool] | None = None
) -> Consensus | None:
    """Return the consensus of the annotators that the options name; None without any.

    Labels of the source that a person reviewed (``gold``) are kept.
    """
    if options.annotators is None and options.annotations is None:
        return None
    options.reject_both()
    if options.annotations is not None:
        answers = read_annotations(options, ids)
    elif raw.answers is None:
        raise ValueError("annotators= names columns of a table or an array of a file: give others with annotations=.")
    else:
        answers = raw.answers
    answers = _without_markers(answers, options)
    check_answers(answers, ids)
    labels, names = _encode(answers, raw, options, refs)
    people = tuple(dict.fromkeys(answers.annotators))
    number = {name: a for a, name in enumerate(people)}
    annotators = torch.tensor([number[name] for name in answers.annotators])
    encoded = Answers(torch.tensor(answers.rows), annotators, labels, len(ids), len(people), len(names))
    has_answer = torch.zeros(len(ids), dtype=torch.bool)
    has_answer[encoded.samples] = True
    kept = _reviewed_labels(raw, gold)
    without = [row for row in (~has_answer).nonzero()[:, 0].tolist() if row not in kept]
    if not options.leaves_out_empty and without:
        where = refs.format_list(without)
        raise ValueError(f"no annotator answered for {where}: add answers, or leave those out with drop_empty=True.")
    consensus = dawid_skene(encoded).posterior.argmax(1).where(has_answer, -1)
    values = dict(zip(reversed(labels.tolist()), reversed(answers.labels), strict=True))
    values = {k: values.get(k, names[k]) for k in range(len(names))}
    stored = [None if k < 0 else values[k] for k in consensus.tolist()]
    for row, value in kept.items():
        stored[row] = value
        name = class_name(value, raw.names)
        consensus[row] = names.index(name) if name in names else -1
    return Consensus(Annotations(people, encoded), consensus, stored, names)


def _reviewed_labels(raw: RawData, gold: Sequence[bool] | None) -> dict[int, Any]:
    """Return row -> stored label, where a person reviewed it."""
    if raw.values is None or gold is None:
        return {}
    rows = zip(to_list(raw.values), gold, strict=True)
    return {row: value for row, (value, is_gold) in enumerate(rows) if is_gold and not is_missing(value)}


def with_consensus(raw: RawData, consensus: Consensus) -> RawData:
    """Return the data with the consensus as labels."""
    count = pluralize(len(consensus.annotations.names), "annotator")
    metadata = merge_metadata(raw.metadata, {"assumed": [f"labels are the consensus of {count} (Dawid-Skene)"]})
    return replace(raw, values=consensus.values, metadata=metadata)


def _without_markers(answers: RawAnswers, options: ReadOptions) -> RawAnswers:
    """Return the answers without those that ``no_label`` marks as missing."""
    kept = [i for i, label in enumerate(answers.labels) if not matches_marker(label, options.no_label)]
    rows, annotators, labels = answers
    return RawAnswers([rows[i] for i in kept], [annotators[i] for i in kept], [labels[i] for i in kept])


def _encode(answers: RawAnswers, raw: RawData, options: ReadOptions, refs: RowRefs) -> tuple[Tensor, tuple[str, ...]]:
    """Return the answers as class numbers, and the class names."""
    from permll.data.readers.assemble import merge_similar

    values = answers.labels
    if options.merge_similar_labels:
        values = merge_similar(values, options.classes)
    lines = [refs.names[row] for row in answers.rows]
    if raw.names is not None:
        return encode_class_numbers(values, raw.names, ids=lines, noun=refs.noun)
    if options.classes is not None and not isinstance(options.classes, str):
        return encode_labels(values, options.classes, ids=lines, noun=refs.noun)
    labels, names = encode_labels(values, ids=lines, noun=refs.noun)
    if raw.values is not None:  # the source has labels of its own
        own = {class_name(value) for value in to_list(raw.values) if not is_missing(value)}
        if unknown := [name for name in names if name not in own]:
            raise ValueError(
                f"annotators gave {format_list(unknown, 'unknown label')}: labels must be among the {len(own)} classes "
                "of the data."
            )
    return labels, names


def class_name(value: object, names: Sequence[str] | None = None) -> str:
    """Return the class name of a stored label; ``names`` if labels are indices of them.

    Examples:
        >>> class_name(3.0), class_name(b"cat"), class_name(1, ["no", "yes"])
        ('3', 'cat', 'yes')
    """
    if names is not None and isinstance(value, int | float):
        return str(names[int(value)])
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
