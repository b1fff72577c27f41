"""Queue of samples to review, ordered by suspicion, with filters and pagination."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.findings import Findings
from permll.review.state import OPEN, STATES

MAX_PAGE_SIZE = 100
Codes = NDArray[np.uint8]  # (N,) indices into STATES


@dataclass(frozen=True)
class Filter:
    """Selection of samples.

    Args:
        state: ``open``, ``decided``, ``unsure`` or ``any``.
        include_unflagged: whether to include labels that are not flagged.
        pair: only samples of this given and proposed class, as indices.
    """

    state: str = "open"
    include_unflagged: bool = False
    pair: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.state not in (*STATES, "any"):
            raise ValueError(f"state must be one of {', '.join(STATES)} or any, got {self.state!r}.")


class Queue:
    """Rows of findings, the most suspect first. All queries are a few masks over N values.

    Examples:
        >>> findings = Findings.from_posterior("abc", ["cat", "dog"], [0, 1, 0], [[0.4, 0.6], [0.2, 0.8], [0.1, 0.9]])
        >>> queue, codes = Queue(findings), np.zeros(3, np.uint8)
        >>> queue.page(Filter(), codes).tolist()
        [2, 0]
        >>> queue.page(Filter(include_unflagged=True), codes, after=2).tolist()
        [1]
        >>> queue.pairs(Filter(), codes)
        [{'pair': '0-1', 'given': 'cat', 'proposed': 'dog', 'count': 2, 'open': 2}]
    """

    def __init__(self, findings: Findings) -> None:
        self._classes = findings.classes
        self._order = findings.order
        self._flagged = findings.is_issue[self._order]
        pairs = (findings.given_labels * len(self._classes) + findings.proposed_labels)[self._order]
        self._pairs, indices = np.unique(pairs, return_inverse=True)
        self._pair_index = indices.reshape(-1)  # of each row, in the order of the queue

    def page(
        self, filter_: Filter, codes: Codes, *, after: int = 0, before: int | None = None, limit: int = 24
    ) -> NDArray[np.int64]:
        """Return at most ``limit`` rows with a rank above ``after``, or the last ones with a rank below ``before``."""
        limit = max(1, min(limit, MAX_PAGE_SIZE))
        positions = np.flatnonzero(self._mask(filter_, codes))
        if before is not None:
            return self._order[positions[: np.searchsorted(positions, before - 1)][-limit:]]
        start = np.searchsorted(positions, max(after, 0))
        return self._order[positions[start : start + limit]]

    def count(self, filter_: Filter, codes: Codes, *, max_rank: int | None = None) -> int:
        """Return the number of matching rows, optionally only those up to a rank."""
        return int(np.count_nonzero(self._mask(filter_, codes)[:max_rank]))

    def progress(self, filter_: Filter, codes: Codes) -> dict[str, int]:
        """Return the number of samples in each state; the state of the filter is ignored."""
        any_state = Filter("any", filter_.include_unflagged, filter_.pair)
        counts = np.bincount(codes[self._order][self._mask(any_state, codes)], minlength=len(STATES))
        return {"total": int(counts.sum()), **dict(zip(STATES, counts.tolist(), strict=True))}

    def pairs(self, filter_: Filter, codes: Codes, query: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """Return pairs of given and proposed class whose names match a query, the most frequent first."""
        scope = self._scope(filter_)
        counts = np.bincount(self._pair_index[scope], minlength=len(self._pairs))
        num_open = np.bincount(self._pair_index[scope & (codes[self._order] == OPEN)], minlength=len(self._pairs))
        pairs: list[dict[str, Any]] = []
        for index in np.argsort(-counts, kind="stable"):
            if counts[index] == 0 or len(pairs) == limit:
                break
            given, proposed = divmod(int(self._pairs[index]), len(self._classes))
            names = {"given": self._classes[given], "proposed": self._classes[proposed]}
            if given != proposed and matches(" ".join(names.values()), query):
                numbers = {"count": int(counts[index]), "open": int(num_open[index])}
                pairs.append({"pair": f"{given}-{proposed}", **names, **numbers})
        return pairs

    def _scope(self, filter_: Filter) -> NDArray[np.bool_]:
        return np.ones_like(self._flagged) if filter_.include_unflagged else self._flagged

    def _mask(self, filter_: Filter, codes: Codes) -> NDArray[np.bool_]:
        mask = self._scope(filter_)
        if filter_.pair is not None:
            given, proposed = filter_.pair
            num_classes = len(self._classes)
            is_valid = given < num_classes and proposed < num_classes
            mask = mask & is_valid & ((self._pairs == given * num_classes + proposed)[self._pair_index])
        if filter_.state != "any":
            mask = mask & (codes[self._order] == STATES.index(filter_.state))
        return mask


def matches(name: str, query: str) -> bool:
    """Return whether a name contains every word of a query, in any order and case.

    Examples:
        >>> matches("Golden retriever", "ret gold"), matches("cat", "cow")
        (True, False)
    """
    name = name.casefold()
    return all(word in name for word in query.casefold().split())
