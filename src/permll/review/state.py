"""How things stand: for every row of the findings what was decided, kept up with a log that others write to as well."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from permll.cleaning.decisions import Decision, Entry

OPEN, DECIDED, UNSURE = 0, 1, 2
STATES = ("open", "decided", "unsure")


class ReviewState:
    """What holds for each of N rows. New entries of the log are followed one by one, old ones never read again.

    Args:
        ids: N names. Entries about other samples are passed over.

    Examples:
        >>> standing = ReviewState(["a", "b"])
        >>> standing.follow([Entry(1, "b", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00", None)])
        >>> standing.state.tolist(), standing.newest.tolist(), standing.last
        ([0, 1], [0, 1], 1)
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._rows = {name: row for row, name in enumerate(ids)}
        self._history: dict[int, list[Entry]] = defaultdict(list)
        self.state = np.full(len(ids), OPEN, np.uint8)
        self.newest = np.zeros(len(ids), np.int64)  # the number of the newest entry, 0 for none
        self.last = 0  # the number of the last entry that was followed

    def follow(self, entries: Iterable[Entry]) -> None:
        """Take in entries that came after those taken in before."""
        for entry in entries:
            self.last = entry.number
            row = self._rows.get(entry.id)
            if row is None:
                continue
            self._history[row].append(entry)
            self.newest[row] = entry.number
            standing = self.decision(row)
            self.state[row] = OPEN if standing is None else UNSURE if standing.verdict == "unsure" else DECIDED

    def row(self, id: str) -> int | None:
        """Return where a sample is; None if it is none of these."""
        return self._rows.get(id)

    def decision(self, row: int) -> Decision | None:
        """Return what holds for a row: its newest decision that was not taken back; None if there is none."""
        history = self.history(row)
        gone = {entry.takes_back for entry in history}
        return next((e.decision for e in reversed(history) if e.takes_back is None and e.number not in gone), None)

    def history(self, row: int) -> list[Entry]:
        """Return all that was ever said about a row, in order."""
        return self._history.get(row, [])
