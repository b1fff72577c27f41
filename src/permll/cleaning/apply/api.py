"""``apply``: from a run to the corrected data set."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from permll.cleaning.apply.array_writer import write_npy, write_npz, write_safetensors
from permll.cleaning.apply.corrections import (
    GIVEN,
    MIN_PROBABILITY,
    Correction,
    change_lines,
    corrections,
    count_sources,
)
from permll.cleaning.apply.csv_writer import write_csv
from permll.cleaning.apply.id_list_writer import write_ids
from permll.cleaning.apply.image_folder_writer import WAYS, As, write_listing, write_tree
from permll.cleaning.apply.next_steps import next_commands
from permll.cleaning.apply.output_path import atomic_output, changes_path, refuse_place
from permll.cleaning.apply.parquet_writer import write_parquet
from permll.cleaning.apply.source import Source, source_of
from permll.cleaning.decisions import Decisions
from permll.data.readers.raw_data import pluralize
from permll.findings import Findings
from permll.training.run import Run
from permll.utils.messages import format_list

_WRITERS = {
    "csv": write_csv,
    "parquet": write_parquet,
    "npz": write_npz,
    "npy": write_npy,
    "safetensors": write_safetensors,
}


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done.

    Args:
        run: that found out about the labels.
        findings: what it found.
        found: every label that is decided about.
        source: where the data are; None for sets by name and data in memory.
    """

    run: Run
    findings: Findings
    found: list[Correction]
    source: Source | None

    @property
    def changed(self) -> int:
        """How many labels become other ones."""
        return sum(one.changes for one in self.found)


@dataclass(frozen=True)
class Applied:
    """What was done.

    Args:
        path: the new data set.
        changed: how many labels are other ones than before.
        by_source: how many labels were decided by whom, changed or not.
        changes: the CSV file of all changes.
        notes: what else there is to know, in sentences.
        commands: that train on the new data set.
    """

    path: Path
    changed: int
    by_source: Mapping[str, int]
    changes: Path
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def apply(
    run: Run | Path | str,
    out: Path | str,
    *,
    auto: bool = False,
    min_probability: float = MIN_PROBABILITY,
    as_: As = "link",
) -> Applied:
    """Write the data set of a run with its labels corrected, in the form it came in; the data themselves stay.

    Args:
        run: with findings, and with decisions unless ``auto``.
        out: the new file or folder, which must not exist.
        auto: also take proposals that nobody looked at.
        min_probability: how probable these must be.
        as_: how a folder of images is written: a tree of links (copies where there can be none), of copies, or of hard
            links, or a CSV file of paths and labels.
    """
    return carry_out(plan(run, auto=auto, min_probability=min_probability), Path(out), as_)


def plan(run: Run | Path | str, *, auto: bool = False, min_probability: float = MIN_PROBABILITY) -> Plan:
    """Return what ``apply`` would do; nothing is written. Data that changed since are refused."""
    run = Run.open(run)
    findings = Findings.load(run.folder)
    decisions = Decisions(run.folder).current()
    if not decisions and not auto:
        raise ValueError(
            f"nobody has decided anything in {run.folder} yet: look at the labels with permll review {run.folder}, or "
            "take the most probable proposals with --auto."
        )
    found = corrections(findings, decisions, auto, min_probability)
    if not found:
        proposals = findings.conservative_confidence[findings.is_issue].tolist()
        best = f"the highest of {len(proposals):,} is {max(proposals):.4g}" if proposals else "no label is flagged"
        raise ValueError(
            f"nothing changes, as no proposal of {run.folder} has a probability of {min_probability} or more ({best}): "
            "ask for less with --min-probability, or decide with permll review."
        )
    return Plan(run, findings, found, source_of(run, findings))


def check_place(planned: Plan, out: Path, as_: As = "link") -> None:
    """Refuse a place or a way that does not go with the data."""
    source = planned.source
    if as_ not in WAYS:
        raise ValueError(f"a folder of images is written as one of {', '.join(WAYS)}, got {as_!r}.")
    if as_ != "link" and (source is None or source.form != "folder"):
        what = "data without a file" if source is None else str(source.path)
        raise ValueError(f"--as says how a folder of images is written, but this is {what}: leave it out.")
    refuse_place(out, changes_path(out), None if source is None else source.path, _suffix(source, as_))
    if source is not None and source.asked.image is not None and source.form != "folder":
        _refuse_lost_images(source, out)


def carry_out(planned: Plan, out: Path, as_: As = "link") -> Applied:
    """Write what was planned, all of it or nothing."""
    check_place(planned, out, as_)
    changes = changes_path(out)
    with ExitStack() as undo:
        with atomic_output(out) as part:
            copied = _write(planned, part, out.absolute().parent.resolve(), as_)
            with atomic_output(changes) as lines:
                lines.write_text("".join(change_lines(planned.found)), encoding="utf-8")
            undo.callback(changes.unlink, missing_ok=True)
        undo.pop_all()  # both have their names
    return Applied(
        out,
        planned.changed,
        count_sources(planned.found),
        changes,
        tuple(_notes(planned, copied)),
        next_commands(planned.run.recipe.data, planned.source, out, as_),
    )


def _write(planned: Plan, part: Path, folder: Path, as_: As) -> int:
    """Write the data set and return how many images had to be copied instead of linked."""
    source = planned.source
    if source is None:
        write_ids(planned.findings, planned.found, part)
        return 0
    rows = [source.rows[one.id] for one in planned.found]
    changed = {row: one.after for row, one in zip(rows, planned.found, strict=True) if one.changes}
    sources: list[str] = [GIVEN] * len(source.found.ids)
    for row, one in zip(rows, planned.found, strict=True):
        sources[row] = one.source
    if source.form != "folder":
        _WRITERS[source.form](source, changed, sources, part)
    elif as_ == "csv":
        write_listing(source, changed, sources, part, folder)
    else:
        return write_tree(source, changed, part, folder, as_)
    return 0


def _suffix(source: Source | None, as_: As) -> str:
    if source is None or (source.form == "folder" and as_ == "csv"):
        return ".csv"
    if source.form == "folder":
        return ""
    return ".npz" if source.form == "npy" else source.path.suffix.lower()


def _refuse_lost_images(source: Source, out: Path) -> None:
    """Refuse a table elsewhere if its images are named as seen from where it is now."""
    if out.absolute().parent.resolve() == source.path.absolute().parent.resolve():
        return
    names = getattr(getattr(source.found.inputs, "open", None), "names", ())
    if not all(Path(name).is_absolute() for name in names):
        raise ValueError(
            f"column {source.asked.image!r} names images as seen from {source.path.parent}: write {out.name} to that "
            "folder too."
        )


def _notes(planned: Plan, copied: int) -> list[str]:
    """Return what was left out, what could not be linked, and which classes the corrections leave nearly empty."""
    source, notes = planned.source, []
    if copied:
        notes.append(f"There can be no links here, so {pluralize(copied, 'image')} were copied.")
    if source is not None and source.form == "folder":
        for note in source.found.metadata.get("left_out", ()):
            some = ", ".join(note["names"][:10]) + (", ..." if note["count"] > 10 else "")
            notes.append(f"Not taken over: {pluralize(note['count'], note['what'])} ({note['why']}): {some}.")
    if source is not None and source.unreadable:
        notes.append(f"Taken over as they are, though nobody can open them: {format_list(source.unreadable, 'image')}.")
    given = Counter(planned.findings.classes[k] for k in planned.findings.given_labels.tolist())
    left = given + Counter()
    for one in planned.found:
        left[one.before] -= 1
        left[one.after] += 1
    few = [name for name in given if left[name] < 2 <= given[name]]
    if few:
        notes.append(f"Fewer than two samples are left of {format_list(few, 'class')}.")
    return notes
