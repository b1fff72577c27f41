"""Review state of every sample, updated incrementally from the log of decisions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from permll.cleaning.review_decisions import Decision, current_decisions

OPEN, DECIDED, UNSURE = 0, 1, 2
STATES = ("open", "decided", "unsure")


class ReviewState:
    """Current decision and history of N rows.

    Args:
        ids: N sample ids. Entries about other samples are ignored.

    Attributes:
        rows: sample id -> row.
        codes: (N,) indices into ``STATES``.
        newest: (N,) number of the newest entry about each row, 0 for none.
        last_entry: number of the last entry of the log that was read.
        chosen: label -> number of samples for which it is chosen now, in the order in which labels were first chosen.

    Examples:
        >>> state = ReviewState(["a", "b"])
        >>> state.update([Decision("b", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00", number=1)])
        >>> state.codes.tolist(), state.newest.tolist(), state.last_entry
        ([0, 1], [0, 1], 1)
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.rows = {id: row for row, id in enumerate(ids)}
        self._history: dict[int, list[Decision]] = defaultdict(list)
        self.codes = np.full(len(ids), OPEN, np.uint8)
        self.newest = np.zeros(len(ids), np.int64)
        self.last_entry = 0
        self.chosen: dict[str, int] = {}

    def update(self, entries: Iterable[Decision]) -> None:
        """Apply new entries of the log, in order."""
        for entry in entries:
            self.last_entry = entry.number
            row = self.rows.get(entry.id)
            if row is None:
                continue
            self._count(row, -1)
            self._history[row].append(entry)
            self.newest[row] = entry.number
            self._count(row, 1)
            decision = self.decision(row)
            self.codes[row] = OPEN if decision is None else UNSURE if decision.verdict == "unsure" else DECIDED

    def decision(self, row: int) -> Decision | None:
        """Return the newest decision of a row that was not undone; None if there is none."""
        return next(iter(current_decisions(self.history(row)).values()), None)

    def history(self, row: int) -> list[Decision]:
        """Return all entries about a row, in order."""
        return self._history.get(row, [])

    def _count(self, row: int, change: int) -> None:
        """Count a row's label, if it was chosen."""
        decision = self.decision(row)
        if decision is not None and decision.verdict == "choose":
            self.chosen[decision.label] = self.chosen.get(decision.label, 0) + change
