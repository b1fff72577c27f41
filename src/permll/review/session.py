"""Review session: findings, samples and decisions, as the API of the application serves them.

Clients address samples by row, never by path.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from permll.cleaning.annotations import named_answers
from permll.cleaning.class_names import check_new_class, similar_classes
from permll.cleaning.preview import Thumbnail, encode_thumbnail, open_image, preview_sample
from permll.cleaning.review_decisions import ConflictError, Decision, Decisions, Verdict
from permll.cleaning.review_progress import describe_progress
from permll.data.dataset import LabeledData
from permll.findings import Findings
from permll.review.class_keys import add_keys, assign_keys
from permll.review.queue import Filter, Queue, matches
from permll.review.state import STATES, ReviewState

SIZES = (160, 320, 1200)  # longest sides of images in pixels: neighbors, grid, single sample
MAX_DUPLICATES = 12  # shown of a sample
VERBS = {"accept": "accepted", "keep": "kept", "choose": "chose", "unsure": "was not sure about"}


class ReviewSession:
    """Findings, samples and decisions of a review. Methods are thread-safe.

    Args:
        findings: findings of N labels.
        samples: labeled data. A finding without its sample has no preview.
        decisions: decisions of all reviewers and processes.
    """

    def __init__(self, findings: Findings, samples: LabeledData, decisions: Decisions) -> None:
        self.findings, self.samples, self.decisions = findings, samples, decisions
        self.queue, self.state = Queue(findings), ReviewState(findings.ids)
        self._class_keys = assign_keys(findings.classes)
        self._sample_index = {id: index for index, id in enumerate(samples.ids)}
        self._duplicates = {row: group for group in findings.duplicates for row in group}
        self._lock = Lock()
        self._progress = (-1, "")  # number of the last entry, and the sentence about it
        self.refresh()

    def refresh(self) -> None:
        """Read the decisions that other processes have made since the last call."""
        with self._lock:
            self.state.update(self.decisions.log(self.state.last_entry))

    def overview(self, filter_: Filter) -> dict[str, Any]:
        """Return progress, the number of samples that match a filter, and the keys of classes."""
        return {
            "progress": self.queue.progress(filter_, self.state.codes),
            "matching": self.queue.count(filter_, self.state.codes),
            "keys": {key: name for name, key in self._keys().items()},
        }

    def progress_sentence(self) -> str:
        """Return what the review has found so far, and how many wrong labels are left."""
        self.refresh()
        last_entry = self.state.last_entry
        if self._progress[0] != last_entry:
            self._progress = (last_entry, describe_progress(self.findings, self.decisions.current()))
        return self._progress[1]

    def page(self, filter_: Filter, *, after: int = 0, before: int | None = None, limit: int = 24) -> dict[str, Any]:
        """Return a page of samples, the position of the first, and the overview."""
        self.refresh()
        rows = self.queue.page(filter_, self.state.codes, after=after, before=before, limit=limit)
        items = [{**self.item(row), "place": self.queue.place(row, filter_.sort)} for row in rows.tolist()]
        first = items[0]["place"] if items else 1
        position = self.queue.count(filter_, self.state.codes, max_place=first - 1) + 1
        return {"items": items, "position": position, **self.overview(filter_)}

    def item(self, row: int, *, short: bool = True) -> dict[str, Any]:
        """Return a finding with the preview of its sample and its decision."""
        finding, decision = self.findings[row], self.state.decision(row)
        return {
            "row": row,
            "id": finding.id,
            "given": finding.given_label,
            "proposed": finding.proposed_label,
            "quality": finding.label_quality,
            "rank": finding.rank,
            "reason": finding.reason,
            "state": STATES[self.state.codes[row]],
            "last_entry": int(self.state.newest[row]),
            "decision": None if decision is None else decision._asdict(),
            "preview": self.preview(row, short=short),
        }

    def detail(self, row: int) -> dict[str, Any]:
        """Return a finding with candidates, neighbors, exact duplicates and history.

        Classes that reviewers added are candidates without a probability.
        """
        self.refresh()
        keys, probs = self._keys(), self.findings.class_probs(row)
        neighbors = [neighbor for neighbor in self.findings.neighbors[row].tolist() if neighbor >= 0]
        duplicates = [other for other in self._duplicates.get(row, ())[:MAX_DUPLICATES] if other != row]
        return {
            **self.item(row, short=False),
            "answers": self.answers(row),
            "candidates": [
                {"label": label, "probability": probs.get(label), "key": keys.get(label, "")}
                for label in [*probs, *self.added_classes()]
            ],
            "neighbors": [self.item(neighbor) for neighbor in neighbors],
            "duplicates": [self.item(duplicate) for duplicate in duplicates],
            "history": [entry._asdict() for entry in self.state.history(row)],
        }

    def decide(
        self, row: int, verdict: Verdict, label: str, reviewer: str, *, last_entry: int, add_class: bool = False
    ) -> int:
        """Record a decision and return the number of its entry.

        Choosing the proposed label is recorded as accept, choosing the given label as keep; other verdicts ignore
        ``label``. With ``add_class``, the chosen label may be a new class. An entry newer than ``last_entry``, the
        newest that the reviewer has seen, raises ``ConflictError``.
        """
        finding = self.findings[row]
        if verdict == "choose":
            label = self._check_class(label, add_class=add_class)
            same_as: dict[str, Verdict] = {finding.proposed_label: "accept", finding.given_label: "keep"}
            verdict = same_as.get(label, "choose")
        elif verdict == "accept" and finding.proposed_label == finding.given_label:
            verdict = "keep"
        label = {"accept": finding.proposed_label, "choose": label, "drop": ""}.get(verdict, finding.given_label)
        try:
            return self.decisions.add(finding.id, verdict, label, reviewer, expected=last_entry)
        finally:
            self.refresh()

    def decide_all(
        self,
        samples: Sequence[Mapping[str, int]],
        verdict: Verdict,
        label: str,
        reviewer: str,
        *,
        add_class: bool = False,
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Decide on several samples, each with ``row`` and ``last_entry``; return their new state and the conflicts."""
        conflicts = []
        for sample in samples:
            try:
                last_entry = sample["last_entry"]
                self.decide(sample["row"], verdict, label, reviewer, last_entry=last_entry, add_class=add_class)
            except ConflictError as conflict:
                conflicts.append(self._describe_conflict(sample["row"], conflict))
        describe = self.detail if len(samples) == 1 else self.item
        return [describe(sample["row"]) for sample in samples], conflicts

    def undo(self, reviewer: str) -> tuple[int | None, Decision | None]:
        """Undo the latest decision of a reviewer; return its row and the decision."""
        decision = self.decisions.undo(reviewer)
        self.refresh()
        return (None, None) if decision is None else (self.state.rows.get(decision.id), decision)

    def added_classes(self) -> list[str]:
        """Return the classes that reviewers added and that a decision still has."""
        return [name for name, count in self.state.chosen.items() if count and name not in self.findings.classes]

    def classes(self, query: str, limit: int = 50) -> dict[str, Any]:
        """Return the classes that match a query, and whether it can become a class.

        Returns:
            ``classes``: name and key, those that start with the query first, then similar ones; ``similar``: names that
            the query may be a misspelling of; ``new``: the name of the class to add, "" if it cannot be one.
        """
        names, start, keys = [*self.findings.classes, *self.added_classes()], query.strip().casefold(), self._keys()
        found = sorted((name for name in names if matches(name, query)), key=lambda name: not _starts(name, start))
        try:
            new = check_new_class(query, names)
        except ValueError:
            return {
                "classes": [{"name": name, "key": keys.get(name, "")} for name in found[:limit]],
                "similar": [],
                "new": "",
            }
        similar = similar_classes(new, names)
        found = list(dict.fromkeys([*found[:limit], *similar]))
        return {
            "classes": [{"name": name, "key": keys.get(name, "")} for name in found],
            "similar": similar,
            "new": new,
        }

    def search(self, query: str) -> dict[str, Any]:
        """Return samples whose ids match a query, without previews, and their number."""
        self.refresh()
        rows, count = self.queue.search(query)
        names = ("row", "id", "given", "proposed", "state")
        items = [self.item(row) for row in rows]
        return {"samples": [{name: item[name] for name in names} for item in items], "count": count}

    def preview(self, row: int, *, short: bool) -> dict[str, Any]:
        """Return the preview of a sample; of kind ``none`` if the sample is missing."""
        index = self._sample_index.get(self.findings.ids[row])
        return {"kind": "none"} if index is None else preview_sample(self.samples.inputs, index, short=short)

    def answers(self, row: int) -> list[tuple[str, str]]:
        """Return the annotators of a sample with their answers; [] without annotators."""
        index = self._sample_index.get(self.findings.ids[row])
        return [] if index is None else named_answers(self.samples.annotations, index, self.samples.classes)

    def thumbnail(self, row: int, size: int) -> Thumbnail | None:
        """Return the image of a sample; None if it has none, or it cannot be read."""
        if size not in SIZES:
            raise ValueError(f"image size must be one of {', '.join(map(str, SIZES))}, got {size}.")
        index = self._sample_index.get(self.findings.ids[row])
        image = None if index is None else open_image(self.samples.inputs, index)
        return None if image is None else encode_thumbnail(image, size)

    def _describe_conflict(self, row: int, conflict: ConflictError) -> str:
        """Return a sentence on the newer decision."""
        if not self.state.history(row):
            return f"there is no decision on {conflict.id} yet, so there is no newer entry."
        entry = self.state.history(row)[-1]
        without_label = {"undo": "undid a decision for", "drop": "dropped"}
        action = without_label.get(entry.verdict) or f"{VERBS[entry.verdict]} “{entry.label}” for"
        return f"{entry.reviewer} {action} {conflict.id} in the meantime; nothing was overwritten."

    def _check_class(self, label: str, *, add_class: bool) -> str:
        """Return the label of a class that exists or may be added."""
        added = self.added_classes()
        if label in self.findings.classes or label in added:
            return label
        if not add_class:
            raise ValueError(f"{label!r} is not one of the {len(self.findings.classes) + len(added)} classes.")
        return check_new_class(label, [*self.findings.classes, *added])

    def _keys(self) -> dict[str, str]:
        """Return the keys of classes by name. An added class keeps its key while its decisions are undone."""
        classes, added = self.findings.classes, self.added_classes()
        keys = add_keys(self._class_keys, [name for name in self.state.chosen if name not in classes])
        return {name: key for name, key in keys.items() if name in classes or name in added}


def _starts(name: str, start: str) -> bool:
    return name.casefold().startswith(start)
