"""The queue: which findings are to be looked at, the most suspect first, by page, by pair of classes and by state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.findings import Findings
from permll.review.state import DECIDED, OPEN, STATES, UNSURE

MOST = 100  # items of a page


@dataclass(frozen=True)
class Filter:
    """What somebody wants to see.

    Args:
        state: ``open``, ``decided``, ``unsure`` or ``any``.
        everything: also labels that are not flagged.
        pair: only those given as the first class and proposed to be the second, as numbers.
    """

    state: str = "open"
    everything: bool = False
    pair: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.state not in (*STATES, "any"):
            raise ValueError(f"a state is one of {', '.join(STATES)} or any, got {self.state!r}.")


class Queue:
    """The rows of findings in the order of suspicion. All of it is a few masks over N values, however large N is.

    Examples:
        >>> found = Findings.from_posterior("abc", ["cat", "dog"], [0, 1, 0], [[0.4, 0.6], [0.2, 0.8], [0.1, 0.9]])
        >>> queue, nothing = Queue(found), np.zeros(3, np.uint8)
        >>> queue.page(Filter(), nothing).tolist()
        [2, 0]
        >>> queue.page(Filter(everything=True), nothing, after=2).tolist()
        [1]
        >>> queue.pairs(Filter(), nothing)
        [{'pair': '0-1', 'given': 'cat', 'proposed': 'dog', 'count': 2, 'open': 2}]
    """

    def __init__(self, findings: Findings) -> None:
        self._classes = findings.classes
        self._order = findings.order
        self._flagged = findings.is_issue[self._order]
        code = findings.given_labels * len(self._classes) + findings.proposed_labels
        self._codes, places = np.unique(code[self._order], return_inverse=True)
        self._pair = places.reshape(-1)  # which of the pairs, in the order of suspicion

    def page(
        self, filter_: Filter, state: NDArray[np.uint8], *, after: int = 0, before: int | None = None, limit: int = 24
    ) -> NDArray[np.int64]:
        """Return at most ``limit`` rows with a rank above ``after``, or the last ones with a rank below ``before``."""
        limit = max(1, min(limit, MOST))
        places = np.flatnonzero(self._mask(filter_, state))
        if before is not None:
            return self._order[places[: np.searchsorted(places, before - 1)][-limit:]]
        start = np.searchsorted(places, max(after, 0))
        return self._order[places[start : start + limit]]

    def count(self, filter_: Filter, state: NDArray[np.uint8], *, until: int | None = None) -> int:
        """Return how many rows there are, or those with a rank of at most ``until``."""
        return int(np.count_nonzero(self._mask(filter_, state)[:until]))

    def progress(self, filter_: Filter, state: NDArray[np.uint8]) -> dict[str, int]:
        """Return how many of the flagged, or of all, are decided, unsure and open; the wish's state does not matter."""
        states = np.bincount(
            state[self._order][self._mask(Filter("any", filter_.everything, filter_.pair), state)], minlength=3
        )
        return {
            "total": int(states.sum()),
            "decided": int(states[DECIDED]),
            "unsure": int(states[UNSURE]),
            "open": int(states[OPEN]),
        }

    def pairs(
        self, filter_: Filter, state: NDArray[np.uint8], query: str = "", limit: int = 50
    ) -> list[dict[str, Any]]:
        """Return the pairs of classes that occur, the most frequent first, whose names contain the words of a query."""
        scope = self._scope(filter_)
        counts = np.bincount(self._pair[scope], minlength=len(self._codes))
        opened = np.bincount(self._pair[scope & (state[self._order] == OPEN)], minlength=len(self._codes))
        found: list[dict[str, Any]] = []
        for place in np.argsort(-counts, kind="stable"):
            given, proposed = divmod(int(self._codes[place]), len(self._classes))
            names = self._classes[given], self._classes[proposed]
            if counts[place] == 0 or len(found) == limit:
                break
            if given != proposed and matches(" ".join(names), query):
                numbers = {"count": int(counts[place]), "open": int(opened[place])}
                found.append({"pair": f"{given}-{proposed}", "given": names[0], "proposed": names[1], **numbers})
        return found

    def _scope(self, filter_: Filter) -> NDArray[np.bool_]:
        return np.ones_like(self._flagged) if filter_.everything else self._flagged

    def _place_of(self, given: int, proposed: int) -> int:
        """Return which of the pairs that occur this one is; -1 if it does not occur."""
        count = len(self._classes)
        code = given * count + proposed
        if not (given < count and proposed < count):
            return -1
        place = int(np.searchsorted(self._codes, code))
        return place if place < len(self._codes) and self._codes[place] == code else -1

    def _mask(self, filter_: Filter, state: NDArray[np.uint8]) -> NDArray[np.bool_]:
        mask = self._scope(filter_)
        if filter_.pair is not None:
            mask = mask & (self._pair == self._place_of(*filter_.pair))
        if filter_.state != "any":
            mask = mask & (state[self._order] == STATES.index(filter_.state))
        return mask


def matches(name: str, query: str) -> bool:
    """Return whether a name contains every word of a query, in any order and case.

    Examples:
        >>> matches("Golden retriever", "ret gold"), matches("cat", "cow")
        (True, False)
    """
    name = name.casefold()
    return all(word in name for word in query.casefold().split())
