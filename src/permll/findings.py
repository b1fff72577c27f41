"""``Findings``: for every label of a data set, how probably it is correct, and which label is proposed instead.

One posterior over the classes determines everything: the quality of a label is the posterior probability of the given
class, the proposal is the most probable class, and a label is an issue if the two differ and its quality is at most a
threshold. The number of issues, their order and their proposals are therefore consistent. ``permll clean`` and
``find_label_errors`` require more for a proposal than for an issue; then an issue may have the given label as proposal.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.audit import COLUMNS as AUDIT_COLUMNS
from permll.audit import Audit
from permll.data.readers.raw_data import RowNumbers
from permll.utils.files import atomic_write, atomic_write_text, to_csv

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

CSV_FILE, PARQUET_FILE, ARRAYS_FILE, JSON_FILE = "findings.csv", "findings.parquet", "findings.npz", "findings.json"
REPORT_FILE = "report.html"
DEFAULT_THRESHOLD = 0.5
ROWS_PER_WRITE = 50_000
REASONS = {
    1: "the training corrected it",
    2: "the classifier predicts another class",
    4: "its neighbors have other labels",
    8: "an exact duplicate has another label",
    16: "the classifier is less certain of it than of others",
    32: "a person reviewed it",
    64: "cleanlab flags it",
    128: "its annotators disagree",
}
REVIEWED = 32
DISPUTED = 128


class Finding(NamedTuple):
    """One sample and its label.

    Args:
        id: of the sample.
        given_label: the label in the data.
        proposed_label: the most probable label; often the given one.
        confidence: the probability of the proposed label, in [0, 1].
        label_quality: the probability that the given label is correct, in [0, 1]; low = suspect.
        conservative_confidence: ``confidence`` under assumptions that favor the given label; automatic changes use it.
        rank: 1 for the most suspect label.
        is_issue: whether the given label is considered wrong.
        reason: evidence against the label, in words, or that a person reviewed it; empty if there is none.
        text: the first characters of a text; empty for other samples.
        near_duplicate_group: the number of its group of near-duplicates; None for none.
        outlier_score: how far it is from other samples, in [0, 1]; None without an audit.
        is_outlier: whether that is at least 0.5.
    """

    id: str
    given_label: str
    proposed_label: str
    confidence: float
    label_quality: float
    conservative_confidence: float
    rank: int
    is_issue: bool
    reason: str
    text: str = ""
    near_duplicate_group: int | None = None
    outlier_score: float | None = None
    is_outlier: bool = False


@dataclass(frozen=True, eq=False)
class Findings:
    """Label quality, proposals and issues of N samples, in the order of the data.

    Args:
        ids: N sample ids.
        classes: c class names.
        given_labels: (N,) int64, the labels in the data.
        top_classes: (N, k) int32, the k most probable classes, most probable first.
        top_probs: (N, k) float32, their probabilities.
        label_quality: (N,) float32, the probability of the given label.
        conservative_confidence: (N,) float32, that of the proposal under assumptions that favor the given label.
        reasons: (N,) uint8, sums of the keys of ``REASONS``.
        neighbors: (N, m) int32, the nearest samples, nearest first, -1 for none; m may be 0.
        threshold: a label is an issue if its quality is at most this.
        issues_have_proposals: whether a label is an issue only if another class is proposed.
        duplicates: groups of rows that are bitwise equal but do not have the same label.
        metadata: JSON values: ``noise`` (the estimated noise rate with its interval), ``method``, ``source``, ...
        texts: the first characters of N texts, without line breaks; () for other samples.
        flagged: (N,) which labels are issues, if another tool decided it; then there is no threshold.
        audit: near-duplicates, outliers and other facts about the samples; None if they were not searched.

    Examples:
        >>> found = Findings.from_posterior(["a", "b"], ["cat", "dog"], [0, 1], [[0.1, 0.9], [0.2, 0.8]])
        >>> found.head(1)
        [Finding(id='a', given_label='cat', proposed_label='dog', confidence=0.9, label_quality=0.1,
                 conservative_confidence=0.9, rank=1, is_issue=True, reason='', text='',
                 near_duplicate_group=None, outlier_score=None, is_outlier=False)]
        >>> found
        Findings(2 labels, 1 issue)
    """

    ids: Sequence[str]
    classes: tuple[str, ...]
    given_labels: NDArray[np.int64]
    top_classes: NDArray[np.int32]
    top_probs: NDArray[np.float32]
    label_quality: NDArray[np.float32]
    conservative_confidence: NDArray[np.float32]
    reasons: NDArray[np.uint8]
    neighbors: NDArray[np.int32]
    threshold: float = DEFAULT_THRESHOLD
    issues_have_proposals: bool = True
    duplicates: tuple[tuple[int, ...], ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    flagged: NDArray[np.bool_] | None = None
    audit: Audit | None = None

    @classmethod
    def from_posterior(
        cls,
        ids: Sequence[str],
        classes: Sequence[str],
        given_labels: ArrayLike,
        posterior: ArrayLike,
        *,
        top_k: int = 10,
        label_quality: ArrayLike | None = None,
        conservative_confidence: ArrayLike | None = None,
        reasons: ArrayLike | None = None,
        neighbors: ArrayLike | None = None,
        **fields: Any,
    ) -> "Findings":
        """Return the findings of a posterior (N, c) over the true classes.

        Args:
            ids: N sample ids.
            classes: c class names.
            given_labels: (N,) class numbers.
            posterior: (N, c) probabilities, rows sum to one.
            top_k: number of classes to keep for each sample.
            label_quality: (N,); default the posterior of the given labels.
            conservative_confidence: (N,) see the class; at most that of ``posterior``, which is the default.
            reasons: (N,) see the class.
            neighbors: (N, m) see the class.
            fields: other fields of the class.
        """
        labels, r = np.asarray(given_labels, np.int64), np.asarray(posterior, np.float32)
        top, top_probs = _largest(r, top_k)
        lower = 1 if conservative_confidence is None else np.asarray(conservative_confidence, np.float32)
        return cls(
            ids if isinstance(ids, RowNumbers) else tuple(ids),
            tuple(classes),
            labels,
            top,
            top_probs,
            r[np.arange(len(labels)), labels] if label_quality is None else np.asarray(label_quality, np.float32),
            np.minimum(lower, top_probs[:, 0]),
            np.zeros(len(labels), np.uint8) if reasons is None else np.asarray(reasons, np.uint8),
            np.zeros((len(labels), 0), np.int32) if neighbors is None else np.asarray(neighbors, np.int32),
            **fields,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        issues = int(self.is_issue.sum())
        return f"Findings({len(self):,} labels, {issues:,} issue{'' if issues == 1 else 's'})"

    @property
    def proposed_labels(self) -> NDArray[np.int32]:
        """(N,) the most probable class of each sample."""
        return self.top_classes[:, 0]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(N,) the probability of the proposed label."""
        return self.top_probs[:, 0]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of ``findings.csv``: the fields of ``Finding``, ``text`` only for texts."""
        missing = (*(() if self.texts else ("text",)), *(() if self.audit else AUDIT_COLUMNS))
        return tuple(name for name in Finding._fields if name not in missing)

    @property
    def noise_rate(self) -> float | None:
        """The estimated fraction of wrong labels; None if there is no estimate."""
        noise = self.metadata.get("noise")
        return float(noise["rate"]) if noise else None

    @property
    def is_reviewed(self) -> NDArray[np.bool_]:
        """(N,) which labels a person reviewed before this estimate; these are never issues."""
        return (self.reasons & REVIEWED) > 0

    @property
    def duplicate_ids(self) -> tuple[tuple[str, ...], ...]:
        """Groups of ids of samples that are bitwise equal but do not have the same label."""
        return tuple(tuple(self.ids[row] for row in rows) for rows in self.duplicates)

    @cached_property
    def is_issue(self) -> NDArray[np.bool_]:
        """(N,) which labels are considered wrong."""
        if self.flagged is not None:
            return self.flagged & ~self.is_reviewed
        is_suspect: NDArray[np.bool_] = (self.label_quality <= self.threshold) & ~self.is_reviewed
        return is_suspect & (self.proposed_labels != self.given_labels) if self.issues_have_proposals else is_suspect

    @property
    def has_proposal(self) -> NDArray[np.bool_]:
        """(N,) which issues have another label as proposal."""
        return self.is_issue & (self.proposed_labels != self.given_labels)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """(N,) all rows, most suspect first: issues, then the others, then reviewed ones, each by label quality."""
        return np.lexsort((self.label_quality, self.is_reviewed, ~self.is_issue))

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """(N,) the position of each row in ``order``, from 1."""
        rank = np.empty(len(self), np.int64)
        rank[self.order] = np.arange(1, len(self) + 1)
        return rank

    def __getitem__(self, row: int) -> Finding:
        """Return the finding of the sample at a position of the data."""
        (finding,) = self._rows(np.array([range(len(self))[row]]))
        return finding

    def head(self, n: int | None = 5) -> list[Finding]:
        """Return the n most suspect labels; None for all."""
        return list(self._rows(self.order[:n]))

    def class_probs(self, row: int) -> dict[str, float]:
        """Return the most probable classes of a sample with their probabilities, most probable first."""
        names = (self.classes[k] for k in self.top_classes[row])
        return dict(zip(names, self.top_probs[row].tolist(), strict=True))

    def to_polars(self) -> "pl.DataFrame":
        """Return the table of ``findings.csv`` as a polars frame, most suspect first."""
        import polars as pl

        types: dict[object, Any] = {str: pl.String, float: pl.Float64, int: pl.Int64, bool: pl.Boolean}
        types[int | None], types[float | None] = pl.Int64, pl.Float64
        schema = {name: types[Finding.__annotations__[name]] for name in self.column_names}
        return pl.DataFrame(dict(zip(schema, self._columns(self.order), strict=True)), schema)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the table of ``findings.csv`` as a pandas frame, most suspect first."""
        import pandas as pd

        return pd.DataFrame(dict(zip(self.column_names, self._columns(self.order), strict=True)))

    def save(self, folder: Path | str, report: str | None = None) -> None:
        """Write ``findings.npz``, ``.csv``, ``.parquet`` (with polars) and ``.json``, and ``report.html`` if given.

        Each file is written atomically. ``findings.json`` is written twice: its second version marks all files as
        complete, so a process that is killed in between leaves findings that ``is_complete`` refuses.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {name: np.asarray(getattr(self, name)) for name in self._array_fields()}
        if self.texts:  # as bytes, since an array of text is as wide as the longest one
            arrays["texts"] = np.frombuffer("\n".join(self.texts).encode(), np.uint8)
        if self.flagged is not None:
            arrays["flagged"] = self.flagged
        arrays |= self.audit.arrays() if self.audit else {}
        with atomic_write(folder / ARRAYS_FILE) as file:
            np.savez_compressed(file, **arrays)
        self._save_json(folder, complete=False)
        with atomic_write(folder / CSV_FILE) as file:
            file.write(to_csv([self.column_names]).encode())
            for rows in np.array_split(self.order, len(self) // ROWS_PER_WRITE + 1):
                file.write(to_csv(zip(*self._columns(rows), strict=True)).encode())
        if find_spec("polars") is None:
            (folder / PARQUET_FILE).unlink(missing_ok=True)  # it would hold older findings
        else:
            with atomic_write(folder / PARQUET_FILE) as file:
                self.to_polars().write_parquet(file)
        if report is not None:
            atomic_write_text(folder / REPORT_FILE, report)
        self._save_json(folder, complete=True)

    @classmethod
    def load(cls, folder: Path | str) -> "Findings":
        """Return the findings that ``save`` wrote."""
        folder = Path(folder)
        if not (folder / JSON_FILE).is_file() or not (folder / ARRAYS_FILE).is_file():
            raise FileNotFoundError(f"{folder} has no findings: permll clean DATA --out {folder} makes them.")
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as saved:
            values: dict[str, Any] = {name: saved[name] for name in cls._array_fields()}
            values["flagged"] = saved.get("flagged")
            texts = saved["texts"].tobytes().decode().split("\n") if "texts" in saved else ()
            content = json.loads((folder / JSON_FILE).read_text())
            audit = Audit.from_saved(saved, content.get("audit"))
        values |= {name: tuple(values[name].tolist()) for name in ("ids", "classes")} | {"texts": tuple(texts)}
        values |= {name: content[name] for name in ("threshold", "metadata")}
        values["issues_have_proposals"] = content.get("issues_have_proposals", True)  # earlier versions lack it
        return cls(**values, duplicates=tuple(map(tuple, content["duplicates"])), audit=audit)

    @classmethod
    def _array_fields(cls) -> list[str]:
        """Return the names of the fields that ``findings.npz`` always has; the others are optional or elsewhere."""
        others = ("threshold", "issues_have_proposals", "duplicates", "metadata", "texts", "flagged", "audit")
        return [field.name for field in fields(cls) if field.name not in others]

    def _save_json(self, folder: Path, *, complete: bool) -> None:
        content = {
            "complete": complete,
            "threshold": self.threshold,
            "issues_have_proposals": self.issues_have_proposals,
            "duplicates": self.duplicates,
            "metadata": dict(self.metadata),
        } | ({"audit": dict(self.audit.facts)} if self.audit else {})
        atomic_write_text(folder / JSON_FILE, json.dumps(content) + "\n")

    def _rows(self, rows: NDArray[np.int64]) -> Iterator[Finding]:
        columns = dict(zip(self.column_names, self._columns(rows), strict=True))
        default = Finding._field_defaults
        values = (columns[name] if name in columns else [default[name]] * len(rows) for name in Finding._fields)
        return itertools.starmap(Finding, zip(*values, strict=True))

    def _columns(self, rows: NDArray[np.int64]) -> tuple[list[Any], ...]:
        """Return the findings of rows (n,) by column; row by row, a million labels would take minutes."""
        scores = (self.confidence, self.label_quality, self.conservative_confidence)
        reasons = {
            bits: "; ".join(reason for bit, reason in REASONS.items() if bits & bit) for bits in range(2 * max(REASONS))
        }
        return (
            [self.ids[row] for row in rows.tolist()],
            [self.classes[k] for k in self.given_labels[rows].tolist()],
            [self.classes[k] for k in self.proposed_labels[rows].tolist()],
            *([round(value, 6) for value in score[rows].tolist()] for score in scores),
            self.rank[rows].tolist(),
            self.is_issue[rows].tolist(),
            [reasons[bits] for bits in self.reasons[rows].tolist()],
            *([[self.texts[row] for row in rows.tolist()]] if self.texts else []),
            *(self.audit.columns(rows) if self.audit else ()),
        )


def _largest(values: NDArray[np.float32], count: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the columns (N, count) with the largest values, the first of equal ones first, and the values."""
    import torch

    count = min(count, values.shape[1])
    columns, largest = np.empty((len(values), count), np.int32), np.empty((len(values), count), np.float32)
    for start in range(0, len(values), ROWS_PER_WRITE):  # the maximum, again and again: faster than sorting
        block = slice(start, start + ROWS_PER_WRITE)
        left = torch.tensor(values[block])
        for k in range(count):
            column = left.argmax(1, keepdim=True)  # the first one
            columns[block, k], largest[block, k] = column[:, 0].numpy(), left.gather(1, column)[:, 0].numpy()
            left.scatter_(1, column, -1.0)
    return columns, largest


def is_complete(folder: Path | str) -> bool:
    """Return whether a folder holds findings and all their files were written."""
    path = Path(folder) / JSON_FILE
    return path.is_file() and bool(json.loads(path.read_text()).get("complete"))
