"""The data that findings are about, row by row as the source has them, and whether they are still the same."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from permll.cleaning.source_data import source_path
from permll.data.decoding import find_unreadable
from permll.data.inputs import LazyImages, Texts
from permll.data.readers.arrays import open_arrays
from permll.data.readers.assemble import assemble, to_list
from permll.data.readers.options import ReadOptions, parse_options
from permll.data.readers.raw_data import RawData
from permll.data.readers.read import read_raw
from permll.findings import Findings
from permll.training.run import Run
from permll.utils.messages import format_list

Form = Literal["folder", "csv", "parquet", "npz", "npy", "safetensors"]
_FORMS: Mapping[str, Form] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".npz": "npz",
    ".npy": "npy",
    ".safetensors": "safetensors",
}
_DEFAULTS = {"features": None, "rare": "refuse", "check": True, "skip_unreadable": False, "image_size": None}


@dataclass(frozen=True, eq=False)
class Source:
    """N rows as they stand in a file or a folder, also those that nobody trained on.

    Args:
        path: of the file or folder.
        form: what it is.
        asked: how it was read.
        found: what was found in it.
        labels: position of a row -> its class, for every row that has one.
        classes: all names, in order.
        rows: id -> position, for what the findings are about.
        unreadable: ids of images that cannot be read.
    """

    path: Path
    form: Form
    asked: ReadOptions
    found: RawData
    labels: Mapping[int, str]
    classes: tuple[str, ...]
    rows: Mapping[str, int]
    unreadable: tuple[str, ...] = ()

    @property
    def column(self) -> str | None:
        """The name of the column or array of labels; None where they were given beside the data."""
        return None if self.asked.labels is not None else str(self.found.metadata["label"])

    @property
    def values(self) -> list[Any]:
        """The N labels as the source has them."""
        return to_list(self.found.values if self.asked.labels is None else self.asked.labels)


def source_of(run: Run, findings: Findings) -> Source | None:
    """Return the rows that findings are about, if they are as they were; None for sets by name and data in memory."""
    section, path = run.recipe.data, source_path(run)
    if path is None:
        return None
    if section.noise:
        raise ValueError(
            f"{run.folder} put noise ({section.noise}) on the labels of {path}, so it did not look at those that are "
            "there: clean the data without noise."
        )
    try:
        source = read_source(path, {name: value for name, value in section.options.items() if name != "split"})
    except ValueError as problem:
        raise ValueError(f"{path} cannot be read any more as {run.folder} read it: {problem}") from None
    known = None if section.train is not None else set(run.labels.by_id())
    return _compare(source, findings, run.folder, known)


def read_source(path: Path, options: Mapping[str, Any]) -> Source:
    """Return every row of a file or folder with its class; no image is decoded."""
    asked = parse_options(**{**_DEFAULTS, **options, "labels": _beside(options.get("labels"))})
    found = read_raw(path, asked)
    positions = Texts(tuple(map(str, range(len(found.inputs)))))  # stand in for the samples, and survive what goes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd about the data was said when they were trained on
        data = assemble(replace(found, inputs=positions), replace(asked, rare="keep", image_size=None))
    kept = [int(text) for text in data.inputs.texts] if isinstance(data.inputs, Texts) else []
    labels = {position: data.classes[k] for position, k in zip(kept, data.labels.tolist(), strict=True)}
    rows = dict(zip(data.ids, kept, strict=True))
    form = "folder" if path.is_dir() else _FORMS[path.suffix.lower()]
    return Source(path, form, asked, found, labels, data.classes, rows)


def _beside(labels: Any) -> Any:
    """Return labels that were given with labels=, from their file if that is what was given."""
    if not isinstance(labels, str | Path):
        return labels
    path = Path(labels).expanduser()
    with open_arrays(path) as arrays:
        return arrays[path.stem]


def _compare(source: Source, findings: Findings, folder: Path, known: set[str] | None) -> Source:
    """Return the source with the rows of the findings alone; refuse it if it is another one by now.

    Args:
        source: as it is.
        findings: about what it was.
        folder: of the run.
        known: ids that the run knew; None where it knew only some of them.
    """
    given = {name: findings.classes[k] for name, k in zip(findings.ids, findings.given_labels.tolist(), strict=True)}
    gone = [name for name in given if name not in source.rows]
    other = [name for name, label in given.items() if name in source.rows and source.labels[source.rows[name]] != label]
    more = [name for name in source.rows if name not in given and known is not None and name not in known]
    if source.asked.rare == "drop":
        more = [name for name in more if source.labels[source.rows[name]] in findings.classes]
    bad = _unreadable(source, more)
    more = [name for name in more if name not in bad]
    noun = source.found.noun
    differences = [
        *([f"{format_list(gone, noun)} less"] if gone else ()),
        *([f"{format_list(more, noun)} more"] if more else ()),
        *([f"other labels in {format_list(other, noun)}"] if other else ()),
    ]
    if differences:
        raise ValueError(
            f"{source.path} is no longer what {folder} was made from, with {' and '.join(differences)}: bring the old "
            f"one back, or clean this one anew."
        )
    return replace(source, rows={name: source.rows[name] for name in given}, unreadable=tuple(bad))


def _unreadable(source: Source, names: Sequence[str]) -> dict[str, str]:
    """Return which of the images were left out because nobody can open them."""
    images = source.found.inputs
    if not names or not isinstance(images, LazyImages) or not source.asked.skip_unreadable:
        return {}
    return find_unreadable(images.take(torch.tensor([source.rows[name] for name in names])), names)
