"""Queue of samples to review: filters, orders and pagination."""

from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from permll.findings import Findings
from permll.review.state import OPEN, STATES

MAX_PAGE_SIZE = 100
MAX_MATRIX_CLASSES = 20
Sort = Literal["suspicion", "confidence", "pair"]
SORTS: tuple[Sort, ...] = get_args(Sort)
Codes = NDArray[np.uint8]  # (N,) indices into STATES
Mask = NDArray[np.bool_]  # (N,) rows of the findings


@dataclass(frozen=True)
class Filter:
    """Selection of samples, and their order.

    Args:
        state: ``open``, ``decided``, ``unsure`` or ``any``.
        include_unflagged: whether to include labels that are not flagged.
        pair: only samples of this given and proposed class, as indices.
        find: only samples whose id contains every word of this text.
        sort: by ``suspicion``, most suspect first; by ``confidence`` in another label than the given one, high first;
            or by class ``pair``, the pair with most flagged labels first.
    """

    state: str = "open"
    include_unflagged: bool = False
    pair: tuple[int, int] | None = None
    find: str = ""
    sort: str = "suspicion"

    def __post_init__(self) -> None:
        if self.state not in (*STATES, "any"):
            raise ValueError(f"state must be one of {', '.join(STATES)} or any, got {self.state!r}.")
        if self.sort not in SORTS:
            raise ValueError(f"sort must be one of {', '.join(SORTS)}, got {self.sort!r}.")


class Queue:
    """Rows of findings in the order of a filter. All queries are a few masks over N values.

    The place of a row is its position in the order of all rows, from 1. Pages start after or before a place, so they do
    not shift when decisions take samples out of the queue.

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
        self._findings, self._classes = findings, findings.classes
        self._flagged = findings.is_issue
        pairs = findings.given_labels * len(self._classes) + findings.proposed_labels
        self._pairs, indices = np.unique(pairs, return_inverse=True)
        self._pair_index = indices.reshape(-1)  # of each row
        self._orders: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._found: tuple[str, Mask] = ("", np.ones(len(findings), np.bool_))

    def page(
        self, filter_: Filter, codes: Codes, *, after: int = 0, before: int | None = None, limit: int = 24
    ) -> NDArray[np.int64]:
        """Return at most ``limit`` rows with a place above ``after``, or the last ones below ``before``."""
        limit = max(1, min(limit, MAX_PAGE_SIZE))
        order, _ = self._order(filter_.sort)
        positions = np.flatnonzero(self._mask(filter_, codes)[order])
        if before is not None:
            return order[positions[: np.searchsorted(positions, before - 1)][-limit:]]
        start = np.searchsorted(positions, max(after, 0))
        return order[positions[start : start + limit]]

    def place(self, row: int, sort: str) -> int:
        """Return the position of a row in an order of all rows, from 1."""
        return int(self._order(sort)[1][row])

    def count(self, filter_: Filter, codes: Codes, *, max_place: int | None = None) -> int:
        """Return the number of matching rows, optionally only those up to a place."""
        mask = self._mask(filter_, codes)
        return int(np.count_nonzero(mask if max_place is None else mask[self._order(filter_.sort)[0][:max_place]]))

    def progress(self, filter_: Filter, codes: Codes) -> dict[str, int]:
        """Return the number of samples in each state; the state of the filter is ignored."""
        counts = np.bincount(codes[self._mask(replace(filter_, state="any"), codes)], minlength=len(STATES))
        return {"total": int(counts.sum()), **dict(zip(STATES, counts.tolist(), strict=True))}

    def pairs(self, filter_: Filter, codes: Codes, query: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """Return pairs of given and proposed class whose names match a query, the most frequent first."""
        scope = self._scope(filter_)
        counts = np.bincount(self._pair_index[scope], minlength=len(self._pairs))
        num_open = np.bincount(self._pair_index[scope & (codes == OPEN)], minlength=len(self._pairs))
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

    def matrix(self, filter_: Filter, codes: Codes, limit: int = MAX_MATRIX_CLASSES) -> dict[str, Any]:
        """Return the matching samples by given and proposed class; the pair of the filter is ignored.

        Args:
            filter_: selection of samples.
            codes: (N,) states.
            limit: maximum number of classes; those with most samples of two different classes are returned.

        Returns:
            ``classes``: names; ``cells``: row and column in ``classes``, ``pair`` and ``count`` of every cell that has
            samples; ``matching``: number of samples; ``num_classes``: number of classes with samples.
        """
        mask = self._mask(replace(filter_, pair=None), codes)
        counts = np.bincount(self._pair_index[mask], minlength=len(self._pairs))
        given, proposed = np.divmod(self._pairs, len(self._classes))
        between, within = np.zeros(len(self._classes), np.int64), np.zeros(len(self._classes), np.int64)
        for ends in (given, proposed):
            np.add.at(between, ends[given != proposed], counts[given != proposed])
        np.add.at(within, given[given == proposed], counts[given == proposed])
        present = np.flatnonzero(between + within)
        chosen = np.sort(present[np.lexsort((-within[present], -between[present]))][:limit])
        position = {int(k): place for place, k in enumerate(chosen)}
        cells = [
            {"given": position[i], "proposed": position[j], "pair": f"{i}-{j}", "count": count}
            for i, j, count in zip(given.tolist(), proposed.tolist(), counts.tolist(), strict=True)
            if count and i in position and j in position
        ]
        names = [self._classes[k] for k in chosen]
        return {"classes": names, "cells": cells, "matching": int(mask.sum()), "num_classes": len(present)}

    def search(self, query: str, limit: int = 20) -> tuple[list[int], int]:
        """Return the rows whose ids match a query, the equal id first, and their number; ([], 0) for no query."""
        if not query.strip():
            return [], 0
        order, _ = self._order("suspicion")
        rows = order[self._find(query)[order]].tolist()
        text, ids = query.strip().casefold(), self._findings.ids

        def distance(row: int) -> int:
            name = ids[row].casefold()
            return 0 if name == text else 1 if text in (name[: len(text)], name[-len(text) :]) else 2

        return nsmallest(limit, rows, key=distance), len(rows)

    def _order(self, sort: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all rows in order, and the place of each row, from 1."""
        if sort not in self._orders:
            order = self._sorted_rows(sort)
            places = np.empty_like(order)
            places[order] = np.arange(1, len(order) + 1)
            self._orders[sort] = order, places
        return self._orders[sort]

    def _sorted_rows(self, sort: str) -> NDArray[np.int64]:
        found = self._findings
        if sort == "suspicion":
            return found.order
        has_other = found.given_labels != found.proposed_labels
        if sort == "confidence":
            return np.lexsort((found.rank, -found.confidence, ~has_other))
        flagged = np.bincount(self._pair_index[self._flagged], minlength=len(self._pairs))
        return np.lexsort((found.rank, self._pair_index, -flagged[self._pair_index], ~has_other))

    def _scope(self, filter_: Filter) -> Mask:
        return np.ones_like(self._flagged) if filter_.include_unflagged else self._flagged

    def _mask(self, filter_: Filter, codes: Codes) -> Mask:
        mask = self._scope(filter_)
        if filter_.pair is not None:
            given, proposed = filter_.pair
            num_classes = len(self._classes)
            is_valid = given < num_classes and proposed < num_classes
            mask = mask & is_valid & ((self._pairs == given * num_classes + proposed)[self._pair_index])
        if filter_.find.strip():
            mask = mask & self._find(filter_.find)
        if filter_.state != "any":
            mask = mask & (codes == STATES.index(filter_.state))
        return mask

    def _find(self, query: str) -> Mask:
        """Return which ids match a query; the last answer is kept, since one query serves many pages."""
        known, mask = self._found
        if known != query:
            mask = np.fromiter((matches(name, query) for name in self._findings.ids), np.bool_, len(self._findings))
            self._found = (query, mask)
        return mask


def matches(name: str, query: str) -> bool:
    """Return whether a name contains every word of a query, in any order and case.

    Examples:
        >>> matches("Golden retriever", "ret gold"), matches("cat", "cow")
        (True, False)
    """
    name = name.casefold()
    return all(word in name for word in query.casefold().split())
