"""The desk: findings, their samples and the decisions on them, as the pages of a review ask for them.

Rows are the only names of samples that come from outside. A path never does.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from permll.cleaning.decisions import ConflictError, Decision, Decisions, Verdict
from permll.cleaning.preview import preview_sample
from permll.cleaning.thumbnails import Thumbnail, encode_thumbnail, to_image
from permll.data.dataset import LabeledData
from permll.findings import Findings
from permll.review.queue import Filter, Queue, matches
from permll.review.state import STATES, ReviewState
from permll.review.thumbnail_cache import SIDES, ThumbnailCache


class ReviewSession:
    """Everything that is looked at and decided in a review. Several threads may use it.

    Args:
        findings: what is known about N labels.
        samples: what they are the labels of. A finding whose sample is gone shows none.
        decisions: of everybody, also of other processes.
    """

    def __init__(self, findings: Findings, samples: LabeledData, decisions: Decisions) -> None:
        self.findings, self.samples, self.decisions = findings, samples, decisions
        self.queue, self.state, self._kept = Queue(findings), ReviewState(findings.ids), ThumbnailCache()
        self._place = {name: place for place, name in enumerate(samples.ids)}
        self._twins = {row: group for group in findings.duplicates for row in group}
        self._lock = Lock()
        self.catch_up()

    def catch_up(self) -> None:
        """Take in what others decided in the meantime."""
        with self._lock:
            self.state.follow(self.decisions.log(self.state.last))

    def overview(self, filter_: Filter) -> dict[str, Any]:
        """Return how far the review is, in what is wished for and altogether."""
        return {
            "progress": self.queue.progress(filter_, self.state.state),
            "matching": self.queue.count(filter_, self.state.state),
            "entries": self.state.last,
        }

    def page(self, filter_: Filter, *, after: int = 0, before: int | None = None, limit: int = 24) -> dict[str, Any]:
        """Return findings, each in short, and the overview."""
        self.catch_up()
        rows = self.queue.page(filter_, self.state.state, after=after, before=before, limit=limit)
        items = [self.item(row) for row in rows.tolist()]
        first = items[0]["rank"] if items else 1
        place = self.queue.count(filter_, self.state.state, until=first - 1) + 1
        return {"items": items, "place": place, **self.overview(filter_)}

    def item(self, row: int, *, short: bool = True) -> dict[str, Any]:
        """Return a finding with its sample and what was decided; ``seen`` is the newest entry about it."""
        decision = self.state.decision(row)
        return {
            "row": row,
            **self.findings[row]._asdict(),
            "state": STATES[self.state.state[row]],
            "seen": int(self.state.newest[row]),
            "decision": None if decision is None else decision._asdict(),
            "look": self.look(row, short=short),
        }

    def detail(self, row: int) -> dict[str, Any]:
        """Return a finding with all that helps to decide: candidates, neighbors, exact duplicates, what was said."""
        self.catch_up()
        neighbors = [near for near in self.findings.neighbors[row].tolist() if near >= 0]
        return {
            **self.item(row, short=False),
            "candidates": [
                {"label": label, "chance": chance} for label, chance in self.findings.class_probs(row).items()
            ],
            "neighbors": [self.item(near) for near in neighbors],
            "duplicates": [self.item(twin) for twin in self._twins.get(row, ())[:12] if twin != row],
            "history": [entry._asdict() for entry in self.state.history(row)],
        }

    def decide(self, row: int, verdict: Verdict, label: str, reviewer: str, *, seen: int) -> int:
        """Write down what a reviewer says who has seen the entries up to ``seen``; return the new entry's number.

        To choose the proposal is to accept it, to choose the given label is to keep it.
        """
        finding = self.findings[row]
        if verdict == "choose":
            if label not in self.findings.classes:
                raise ValueError(f"{label!r} is none of the {len(self.findings.classes)} classes: choose one of them.")
            verdict = (
                "accept" if label == finding.proposed_label else "keep" if label == finding.given_label else "choose"
            )
        if verdict == "accept" and finding.proposed_label == finding.given_label:
            verdict = "keep"
        label = {"accept": finding.proposed_label, "choose": label}.get(verdict, finding.given_label)
        try:
            return self.decisions.add(finding.id, verdict, label, reviewer, expected=seen)
        finally:
            self.catch_up()

    def decide_all(
        self, rows: Sequence[Mapping[str, int]], verdict: Verdict, label: str, reviewer: str
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Decide on several, each with its ``row`` and ``seen``: return them as they are now, and the conflicts."""
        conflicts = []
        for one in rows:
            try:
                self.decide(one["row"], verdict, label, reviewer, seen=one["seen"])
            except ConflictError as conflict:
                conflicts.append(self._conflict(one["row"], conflict))
        return [self.detail(one["row"]) if len(rows) == 1 else self.item(one["row"]) for one in rows], conflicts

    def undo(self, reviewer: str) -> tuple[int | None, Decision | None]:
        """Take back a reviewer's latest decision; return its row and what it was."""
        decision = self.decisions.undo(reviewer)
        self.catch_up()
        return (None, None) if decision is None else (self.state.row(decision.id), decision)

    def classes(self, query: str, limit: int = 50) -> list[str]:
        """Return class names that contain the words of a query; those that begin with it first."""
        found = [name for name in self.findings.classes if matches(name, query)]
        start = query.strip().casefold()
        return sorted(found, key=lambda name: not name.casefold().startswith(start))[:limit]

    def look(self, row: int, *, short: bool) -> dict[str, Any]:
        """Return what a sample looks like; ``none`` if it is not where it was."""
        place = self._place.get(self.findings.ids[row])
        return {"kind": "none"} if place is None else preview_sample(self.samples.inputs, place, short=short)

    def picture(self, row: int, side: int) -> Thumbnail | None:
        """Return the picture of a sample; None if there is none, or it cannot be read."""
        if side not in SIDES:
            raise ValueError(f"pictures come with {', '.join(map(str, SIDES))} pixels, not {side}.")
        kept = self._kept.get((row, side))
        place = self._place.get(self.findings.ids[row])
        if kept is not None or place is None:
            return kept
        try:
            image = to_image(self.samples.inputs.get_sample(place))
            picture = None if image is None else encode_thumbnail(image, side)
        except Exception:  # a damaged image can fail in any way at all
            return None
        if picture is not None:
            self._kept.put((row, side), picture)
        return picture

    def _conflict(self, row: int, conflict: ConflictError) -> str:
        """Say who was faster, in one sentence."""
        if not self.state.history(row):
            return f"nobody decided on {conflict.id} yet, so nothing newer can have been seen."
        entry = self.state.history(row)[-1]
        says = {"accept": "accepted", "keep": "kept", "choose": "chose", "unsure": "was not sure of"}
        what = "took a decision back" if entry.verdict == "undo" else f"{says[entry.verdict]} “{entry.label}”"
        return f"{entry.reviewer} {what} for {conflict.id} in the meantime; nothing was overwritten."
