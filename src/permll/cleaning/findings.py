"""Findings: for every label of a data set whether it is right, with what probability, and what else it may be.

One posterior says everything: the quality of a label is the posterior of the given class, the proposal its largest
class, and a row is flagged where these two differ and the quality is at most a stated threshold. So the number of
flagged rows, their order and their proposals cannot contradict each other.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permll.utils.files import atomic_write, atomic_write_text

if TYPE_CHECKING:
    import polars as pl

CSV, PARQUET, ARRAYS, ABOUT = "findings.csv", "findings.parquet", "findings.npz", "findings.json"
THRESHOLD = 0.5
PORTION = 50_000  # labels that are written at a time
REASONS = {
    1: "the training corrected it",
    2: "the network sees another class",
    4: "its neighbors disagree",
    8: "an exact duplicate has another label",
}


class Finding(NamedTuple):
    """A sample and its label.

    Args:
        id: of the sample.
        given: the label it came with.
        proposed: the most probable label; often the given one.
        belief: the probability of the proposed label, in [0, 1].
        quality: the probability that the given label is right, in [0, 1], low = suspect.
        conservative_confidence: what a sceptic leaves of ``belief``: labels are changed unseen by this.
        rank: 1 for the most suspect.
        flagged: whether the given label is taken for wrong.
        reason: why it is suspect, in words; empty for what is not.
    """

    id: str
    given: str
    proposed: str
    belief: float
    quality: float
    conservative_confidence: float
    rank: int
    flagged: bool
    reason: str


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known about the labels of N samples, in the order of the data.

    Args:
        ids: N names.
        classes: c names.
        given: (N,) int64, the labels they came with.
        candidates: (N, k) int32, the k most probable classes, first the most probable one.
        probabilities: (N, k) float32, theirs.
        quality: (N,) float32, the probability of the given label.
        conservative_confidence: (N,) float32, the probability of the first candidate for a sceptic, at most ``belief``.
        reasons: (N,) uint8, sums of the keys of ``REASONS``.
        neighbors: (N, m) int32, the rows that are most alike, nearest first; m may be 0.
        threshold: a row is flagged if its quality is at most this and the proposal is not the given label.
        duplicates: groups of rows that are equal to the last bit and do not all have one label.
        metadata: what else is known, as JSON would hold it: ``noise`` (an estimate), ``method``, ``data``, ``source``.

    Examples:
        >>> found = Findings.of_posterior(["a", "b"], ["cat", "dog"], [0, 1], [[0.1, 0.9], [0.2, 0.8]])
        >>> found.first(1)
        [Finding(id='a', given='cat', proposed='dog', belief=0.9, quality=0.1, conservative_confidence=0.9, rank=1, flagged=True,
                 reason='')]
        >>> found
        Findings(2 labels, 1 flagged)
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    given: NDArray[np.int64]
    candidates: NDArray[np.int32]
    probabilities: NDArray[np.float32]
    quality: NDArray[np.float32]
    conservative_confidence: NDArray[np.float32]
    reasons: NDArray[np.uint8]
    neighbors: NDArray[np.int32]
    threshold: float = THRESHOLD
    duplicates: tuple[tuple[int, ...], ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_posterior(
        cls,
        ids: Sequence[str],
        classes: Sequence[str],
        given: Any,
        posterior: Any,
        *,
        keep: int = 10,
        conservative: Any = None,
        reasons: Any = None,
        neighbors: Any = None,
        **more: Any,
    ) -> "Findings":
        """Return the findings that a posterior (N, c) of the true classes makes; of each row ``keep`` classes stay.

        ``sceptical`` is the posterior (N, c) of somebody who trusts the network less; default the same.
        """
        labels, r = np.asarray(given, np.int64), np.asarray(posterior, np.float32)
        rows = np.arange(len(labels))
        candidates = np.argsort(-r, axis=1, kind="stable")[:, :keep].astype(np.int32)
        best = candidates[:, 0]
        conservative_model = r if conservative is None else np.asarray(conservative, np.float32)
        return cls(
            tuple(ids),
            tuple(classes),
            labels,
            candidates,
            np.take_along_axis(r, candidates.astype(np.int64), 1),
            r[rows, labels],
            np.minimum(conservative_model[rows, best], r[rows, best]),
            np.zeros(len(rows), np.uint8) if reasons is None else np.asarray(reasons, np.uint8),
            np.zeros((len(rows), 0), np.int32) if neighbors is None else np.asarray(neighbors, np.int32),
            **more,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Findings({len(self):,} labels, {int(self.flagged.sum()):,} flagged)"

    @property
    def proposed(self) -> NDArray[np.int32]:
        """(N,) the most probable class of each row."""
        return self.candidates[:, 0]

    @property
    def belief(self) -> NDArray[np.float32]:
        """(N,) the probability of the proposal."""
        return self.probabilities[:, 0]

    @cached_property
    def flagged(self) -> NDArray[np.bool_]:
        """(N,) which labels are taken for wrong."""
        return (self.proposed != self.given) & (self.quality <= self.threshold)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """(N,) all rows, the most suspect first: those that are flagged, then the others, each by quality."""
        return np.lexsort((self.quality, ~self.flagged))

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """(N,) the place of each row in ``order``, from 1."""
        rank = np.empty(len(self), np.int64)
        rank[self.order] = np.arange(1, len(self) + 1)
        return rank

    def __getitem__(self, row: int) -> Finding:
        """Return the finding of the sample at a position of the data."""
        (finding,) = self._at(np.array([range(len(self))[row]]))
        return finding

    def first(self, limit: int | None = None) -> list[Finding]:
        """Return the most suspect, all of them by default."""
        return list(self._at(self.order[:limit]))

    def _at(self, rows: NDArray[np.int64]) -> Iterator[Finding]:
        """Yield the findings at positions (n,)."""
        return map(Finding._make, zip(*self._columns(rows), strict=True))

    def _columns(self, rows: NDArray[np.int64]) -> tuple[list[Any], ...]:
        """Return the findings at positions (n,) by column: one by one, those of a million labels would take minutes."""
        beliefs = (self.belief, self.quality, self.conservative_confidence)
        words = {
            bits: "; ".join(word for bit, word in REASONS.items() if bits & bit) for bits in range(2 * max(REASONS))
        }
        return (
            [self.ids[row] for row in rows.tolist()],
            [self.classes[k] for k in self.given[rows].tolist()],
            [self.classes[k] for k in self.proposed[rows].tolist()],
            *([round(value, 6) for value in one[rows].tolist()] for one in beliefs),
            self.rank[rows].tolist(),
            self.flagged[rows].tolist(),
            [words[bits] for bits in self.reasons[rows].tolist()],
        )

    def chances(self, row: int) -> dict[str, float]:
        """Return the classes that the label of a sample may be, the most probable first, with their probabilities."""
        names = (self.classes[k] for k in self.candidates[row])
        return dict(zip(names, self.probabilities[row].tolist(), strict=True))

    def save(self, folder: Path | str) -> None:
        """Write ``findings.csv``, ``findings.npz`` and ``findings.json``, each whole or not at all.

        Where polars is installed (``permll[table]``), ``findings.parquet`` holds the same table as the CSV.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / ARRAYS) as file:
            arrays = {name: getattr(self, name) for name in _ARRAYS_OF}
            np.savez_compressed(file, ids=np.array(self.ids), classes=np.array(self.classes), **arrays)
        about = {"threshold": self.threshold, "duplicates": self.duplicates, "metadata": dict(self.metadata)}
        atomic_write_text(folder / ABOUT, json.dumps(about) + "\n")
        with atomic_write(folder / CSV) as file:
            file.write((",".join(Finding._fields) + "\n").encode())
            for rows in np.array_split(self.order, len(self) // PORTION + 1):
                file.write(_csv(self._at(rows)).encode())
        if find_spec("polars") is None:
            (folder / PARQUET).unlink(missing_ok=True)  # of other findings
            return
        with atomic_write(folder / PARQUET) as file:
            _frame(self._columns(self.order)).write_parquet(file)

    @classmethod
    def load(cls, folder: Path | str) -> "Findings":
        """Return what ``save`` wrote."""
        folder = Path(folder)
        if not (folder / ABOUT).is_file() or not (folder / ARRAYS).is_file():
            raise FileNotFoundError(f"{folder} has no findings: permll clean DATA --out {folder} makes them.")
        with np.load(folder / ARRAYS, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in _ARRAYS_OF}
            ids, classes = tuple(saved["ids"].tolist()), tuple(saved["classes"].tolist())
        about = json.loads((folder / ABOUT).read_text())
        duplicates = tuple(map(tuple, about["duplicates"]))
        return cls(
            ids, classes, **arrays, threshold=about["threshold"], duplicates=duplicates, metadata=about["metadata"]
        )


_ARRAYS_OF = ("given", "candidates", "probabilities", "quality", "conservative_confidence", "reasons", "neighbors")


def _csv(format_list: Iterable[Finding]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(format_list)
    return file.getvalue()


def _frame(columns: tuple[list[Any], ...]) -> "pl.DataFrame":
    import polars as pl

    kinds = {str: pl.String, float: pl.Float64, int: pl.Int64, bool: pl.Boolean}
    schema = {name: kinds[kind] for name, kind in Finding.__annotations__.items()}
    return pl.DataFrame(dict(zip(schema, columns, strict=True)), schema)
