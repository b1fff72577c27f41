"""The source of a run: its samples read again, or all rows of its file or folder, checked against the findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from permll.cleaning.shown_images import show_images
from permll.cleaning.source_rows import parse_source_options, read_rows
from permll.data.dataset import LabeledData
from permll.data.decoding import find_unreadable
from permll.data.inputs import LazyImages
from permll.data.labels import to_list
from permll.data.loading import load
from permll.data.readers.consensus import class_name
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData
from permll.data.registry import DATASETS
from permll.findings import Findings, is_complete
from permll.training.recipe import DataSection
from permll.training.run import Run
from permll.training.run_folder import absolute_source
from permll.utils.messages import format_list


@dataclass(frozen=True, eq=False)
class Source:
    """All N rows of a file or folder, including those that were not trained on.

    Args:
        path: of the file or folder.
        options: reader options.
        raw: rows as the reader returns them.
        row_classes: row -> class, for every labeled row.
        classes: class names in order.
        rows: sample id -> row, for the samples of the findings.
        unreadable: ids of images that cannot be decoded.
    """

    path: Path
    options: ReadOptions
    raw: RawData
    row_classes: Mapping[int, str]
    classes: tuple[str, ...]
    rows: Mapping[str, int]
    unreadable: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        """Whether this is an image folder."""
        return self.path.is_dir()

    @property
    def suffix(self) -> str:
        """Suffix of the file in lower case; "" for a folder."""
        return "" if self.is_folder else self.path.suffix.lower()

    @property
    def label_column(self) -> str | None:
        """Name of the label column or array; None if labels were passed separately, or are only a consensus."""
        is_separate = self.options.labels is not None or self.raw.values is None
        return None if is_separate else str(self.raw.metadata["label"])

    @property
    def labels(self) -> list[Any]:
        """The N labels as the source stores them."""
        if self.options.labels is None and self.raw.values is None:
            return [self.row_classes.get(row, "") for row in range(len(self.raw.inputs))]
        return to_list(self.raw.values if self.options.labels is None else self.options.labels)

    @property
    def relabeled(self) -> dict[int, str]:
        """Row -> class, where the consensus of annotators differs from the label of the source."""
        if not self.options.has_annotators:
            return {}
        names = [class_name(value, self.raw.names) for value in self.labels]
        return {row: name for row, name in self.row_classes.items() if names[row] != name}


def load_source(run: Run) -> LabeledData:
    """Return all samples of a run's source, to be shown: as pictures if there are some, with the labels of the source.

    Texts and tables are not encoded.
    """
    section = run.recipe.data
    if not section.source:
        raise ValueError(
            f"{run.folder} was trained on data in memory, which it does not store: clean a file or a folder instead."
        )
    _source_path(run, section)
    return show_images(load(section.source, root=section.root, **section.options), section)


def open_source(run: Run, findings: Findings) -> Source | None:
    """Return the source of a run; None for built-in sets and data in memory. A source that changed is refused."""
    return _open_source(run, run.recipe.data, findings)


def _open_source(run: Run, section: DataSection, findings: Findings) -> Source | None:
    path = _source_path(run, section)
    if path is None:
        return None
    if section.noise:
        raise ValueError(
            f"{run.folder} added synthetic noise ({section.noise}) to the labels of {path}, so its findings are not "
            "about the labels in the file: clean the data without noise."
        )
    try:
        source = _read(path, {name: value for name, value in section.options.items() if name != "split"})
    except ValueError as error:
        raise ValueError(f"{path} can no longer be read as in {run.folder}: {error}") from None
    known = None if section.train is not None else set(run.labels.by_id())
    return _check_unchanged(source, findings, run.folder, known)


def move_source(run: Run, path: Path | str) -> None:
    """Record that the data of a run are now at ``path``; they must have the samples and labels of the findings."""
    recipe, new = run.recipe, absolute_source(path)
    if not recipe.data.source or recipe.data.source in DATASETS:
        raise ValueError(f"{run.folder} was not trained on a file or a folder, so --data has no meaning for it.")
    moved = recipe.with_data(source=new)
    if is_complete(run.folder):
        _open_source(run, moved.data, Findings.load(run.folder))
    run.write_recipe(moved, run.task)


def _source_path(run: Run, section: DataSection) -> Path | None:
    """Return the file or folder that a run was trained on; None for built-in sets and data in memory."""
    if not section.source or section.source in DATASETS:
        return None
    path = Path(section.source).expanduser()
    split = section.options.get("split")
    path = path if split is None else path / str(split)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}, the source of {run.folder}, does not exist: if it was moved, pass its new path with --data."
        )
    return path


def _read(path: Path, options: Mapping[str, Any]) -> Source:
    """Read all rows and their classes; images are not decoded."""
    parsed = parse_source_options(options)
    raw, data, rows = read_rows(path, parsed)
    row_classes = {row: data.classes[k] for row, k in zip(rows, data.labels.tolist(), strict=True)}
    return Source(path, parsed, raw, row_classes, data.classes, dict(zip(data.ids, rows, strict=True)))


def _check_unchanged(source: Source, findings: Findings, folder: Path, known: set[str] | None) -> Source:
    """Return the source with the rows of the findings only; refuse it if samples or labels changed.

    ``known`` are the ids of all samples of the run in ``folder``; None if it used a part of the source.
    """
    given = {name: findings.classes[k] for name, k in zip(findings.ids, findings.given_labels.tolist(), strict=True)}
    current = {name: source.row_classes[row] for name, row in source.rows.items()}
    removed = [name for name in given if name not in current]
    relabeled = [name for name, label in given.items() if name in current and current[name] != label]
    added = [name for name in current if name not in given and known is not None and name not in known]
    if source.options.rare == "drop":
        added = [name for name in added if current[name] in findings.classes]
    bad = _unreadable(source, added)
    added = [name for name in added if name not in bad]
    differences = {"removed": removed, "added": added, "relabeled": relabeled}
    if any(differences.values()):
        text = " and ".join(f"{format_list(ids, source.raw.noun)} {verb}" for verb, ids in differences.items() if ids)
        raise ValueError(
            f"{source.path} has changed since {folder} was trained, with {text}: restore it, or clean it again."
        )
    return replace(source, rows={name: source.rows[name] for name in given}, unreadable=tuple(bad))


def _unreadable(source: Source, ids: Sequence[str]) -> dict[str, str]:
    """Return the images among ``ids`` that cannot be decoded and were skipped for that reason."""
    images = source.raw.inputs
    if not ids or not isinstance(images, LazyImages) or not source.options.skip_unreadable:
        return {}
    return find_unreadable(images.take(torch.tensor([source.rows[name] for name in ids])), ids)
