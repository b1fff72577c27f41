"""The decisions of an earlier round of cleaning, from which the next round learns.

A label that a person reviewed is correct afterwards. The next training learns from it without a correction. It says
little about how often the other labels are wrong, since reviewers choose the most suspect ones; that follows from how
often the reviewers found an error at each label quality.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from permll.cleaning.review_decisions import DECISIONS_FILE, Decision, Decisions
from permll.data.dataset import LabeledData
from permll.findings import REVIEWED, Findings
from permll.functional.label_errors import RateInterval
from permll.functional.review_calibration import Calibration, Remaining, calibrate
from permll.training.callbacks import Callback
from permll.training.run import Run
from permll.utils.files import atomic_write_text

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

EARLIER_FILE = "earlier_round.json"
FINAL_VERDICTS = ("accept", "keep", "choose", "drop")  # the reviewer knows the answer


@dataclass(frozen=True)
class EarlierRound:
    """What the next round needs of a reviewed run.

    Args:
        folder: of the run.
        decided: id -> label, of the samples whose correct label a reviewer decided.
        closed: ids of samples that belong to no class of the data, so that their labels cannot be learned from.
        known: estimated fraction of wrong labels among the others.
        num_issues: number of label issues of the run.
    """

    folder: str
    decided: Mapping[str, str]
    closed: Sequence[str]
    known: RateInterval
    num_issues: int

    @classmethod
    def of(cls, run: Run) -> "EarlierRound":
        """Return the present decisions of a run with findings."""
        run.check_trained()
        findings, decisions = Findings.load(run.folder), Decisions(run.folder).current()
        final = {name: one.label for name, one in decisions.items() if one.verdict in FINAL_VERDICTS}
        decided = {name: label for name, label in final.items() if label in findings.classes}
        if not final:
            raise ValueError(f"{run.folder} has no review decisions to learn from: permll review {run.folder} first.")
        closed = [name for name in final if name not in decided]
        return cls(str(run.folder), decided, closed, known_rate(findings, decisions), int(findings.is_issue.sum()))

    def save(self, run: Run) -> None:
        """Write the decisions into the folder of the next run, so that apply and review find them there."""
        source, copy = Path(self.folder) / DECISIONS_FILE, run.folder / DECISIONS_FILE
        if source.is_file() and not copy.exists():
            with closing(sqlite3.connect(source)) as log, closing(sqlite3.connect(copy)) as new:
                log.backup(new)  # with what is not in the main file yet
        atomic_write_text(run.folder / EARLIER_FILE, json.dumps(vars(self)) + "\n")

    @classmethod
    def load(cls, run: Run) -> "EarlierRound | None":
        """Return what ``save`` wrote; None for a first round."""
        path = run.folder / EARLIER_FILE
        if not path.is_file():
            return None
        content = json.loads(path.read_text())
        return cls(**{**content, "known": RateInterval(*content["known"])})

    def complete(self, findings: Findings) -> Findings:
        """Return the findings of the next round with what changed since, and without issues of closed samples."""
        labels = [findings.classes[k] for k in findings.given_labels.tolist()]
        given = dict(zip(findings.ids, labels, strict=True))
        summary = {
            "run": self.folder,
            "reviewed": len(self.decided) + len(self.closed),
            "wrong": sum(given.get(name, one) != one for name, one in self.decided.items()) + len(self.closed),
            "issues_before": self.num_issues,
        }
        reasons, closed = findings.reasons.copy(), set(self.closed)
        reasons[[name in closed for name in findings.ids]] = REVIEWED
        return replace(findings, reasons=reasons, metadata={**findings.metadata, "earlier": summary})

    def relabel(self, data: LabeledData) -> LabeledData:
        """Return the data with the decided labels, which are trusted."""
        number = {name: k for k, name in enumerate(data.classes)}
        labels = data.labels.clone()
        trusted = torch.zeros(len(data), dtype=torch.bool) if data.trusted is None else data.trusted.clone()
        for row, name in enumerate(data.ids):
            if name in self.decided:
                labels[row], trusted[row] = number[self.decided[name]], True
        if bool(trusted.all()):
            raise ValueError(f"all labels were reviewed in {self.folder}: write them with permll apply {self.folder}.")
        return replace(data, labels=labels, trusted=trusted)


@dataclass(frozen=True)
class SaveEarlierRound(Callback):
    """Writes the earlier round into the folder of the run that continues it."""

    earlier: EarlierRound

    def on_train_start(self, trainer: "Trainer", run: Run) -> None:  # noqa: ARG002
        """Write it once."""
        if EarlierRound.load(run) is None:
            self.earlier.save(run)


def next_round_folder(folder: Path) -> Path:
    """Return the folder of the next round of cleaning.

    Examples:
        >>> next_round_folder(Path("runs/photos")).name, next_round_folder(Path("runs/photos-round2")).name
        ('photos-round2', 'photos-round3')
    """
    name, _, number = folder.name.rpartition("-round")
    return folder.with_name(f"{name}-round{int(number) + 1}" if name and number.isdigit() else f"{folder.name}-round2")


def known_rate(findings: Findings, decisions: Mapping[str, Decision]) -> RateInterval:
    """Return the fraction of wrong labels among those without a final decision."""
    calibration, is_open = calibrate_findings(findings, decisions)
    remaining, count = calibration.remaining(torch.from_numpy(findings.label_quality)[is_open]), int(is_open.sum())
    return RateInterval(*(value / max(count, 1) for value in remaining))


def calibrate_findings(findings: Findings, decisions: Mapping[str, Decision]) -> tuple[Calibration, torch.Tensor]:
    """Return the calibration by the decisions about labels with an estimated quality, and a mask of open labels.

    A label that was reviewed in an earlier round has no estimated quality.
    """
    verdict = {name: decisions[name].verdict for name in decisions}
    reviewed = torch.from_numpy(findings.is_reviewed.copy())
    is_final = torch.tensor([verdict.get(name) in FINAL_VERDICTS for name in findings.ids])
    given = [findings.classes[k] for k in findings.given_labels.tolist()]
    was_wrong = torch.tensor(
        [name in decisions and decisions[name].label != label for name, label in zip(findings.ids, given, strict=True)]
    )
    quality, new = torch.from_numpy(findings.label_quality), is_final & ~reviewed
    noise = findings.metadata.get("noise") or {}
    is_known = noise.get("high", 0) > 0  # not if the network knows nothing
    total = Remaining(*(len(findings) * noise[key] for key in ("rate", "low", "high"))) if is_known else None
    return calibrate(quality[new], was_wrong[new], quality[~reviewed], total), ~(is_final | reviewed)
