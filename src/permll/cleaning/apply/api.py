"""``apply``: write the data set of a run with corrected labels."""

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from permll.cleaning.apply.corrections import (
    DEFAULT_MIN_PROBABILITY,
    Correction,
    changes_csv,
    count_sources,
    select_corrections,
)
from permll.cleaning.apply.csv_writer import write_csv
from permll.cleaning.apply.image_folder_writer import (
    IMAGE_OUTPUTS,
    ImageOutput,
    write_image_folder,
    write_image_list,
)
from permll.cleaning.apply.label_columns import Changes, write_label_list
from permll.cleaning.apply.label_studio_import import merge_decisions, read_annotations
from permll.cleaning.apply.next_steps import output_notes, train_commands
from permll.cleaning.apply.output_path import atomic_output, changes_path, check_output_path, dropped_path
from permll.cleaning.apply.parquet_and_arrays import write_npy, write_npz, write_parquet, write_safetensors
from permll.cleaning.review_decisions import Decisions
from permll.cleaning.source import Source, open_source
from permll.findings import Findings
from permll.training.run import Run

_WRITERS = {
    ".csv": write_csv,
    ".tsv": write_csv,
    ".parquet": write_parquet,
    ".npz": write_npz,
    ".npy": write_npy,
    ".safetensors": write_safetensors,
}


@dataclass(frozen=True, eq=False)
class Plan:
    """The corrections of a run, before they are written.

    Args:
        run: the run.
        findings: its findings.
        corrections: reviewed labels and automatic changes, in the order of the data.
        source: of the data; None for built-in sets and data in memory.
    """

    run: Run
    findings: Findings
    corrections: list[Correction]
    source: Source | None

    @property
    def num_changed(self) -> int:
        """Number of labels that change."""
        return sum(correction.is_change and not correction.is_dropped for correction in self.corrections)

    @property
    def num_dropped(self) -> int:
        """Number of samples that are left out."""
        return sum(correction.is_dropped for correction in self.corrections)


@dataclass(frozen=True)
class ApplyResult:
    """The output of ``apply``.

    Args:
        path: of the corrected data set.
        num_changed: number of labels that changed.
        num_dropped: number of samples that were left out.
        by_source: number of corrections by label source, including labels that were kept.
        changes_path: CSV file of all changes.
        dropped_path: folder of the dropped images of an image folder; None without any.
        notes: sentences about new classes, files left out, copies and rare classes.
        commands: shell commands that train on the corrected data set.
    """

    path: Path
    num_changed: int
    num_dropped: int
    by_source: Mapping[str, int]
    changes_path: Path
    dropped_path: Path | None = None
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def apply(
    run: Run | Path | str,
    out: Path | str,
    *,
    auto: bool = False,
    min_probability: float = DEFAULT_MIN_PROBABILITY,
    images: ImageOutput = "link",
    annotations: Path | str | None = None,
) -> ApplyResult:
    """Write the data set of a run with corrected labels, in its original format. The source is never changed.

    Args:
        run: a run with findings, and with decisions unless ``auto`` or ``annotations``.
        out: new file or folder; it must not exist.
        auto: whether to accept proposals that were not reviewed.
        min_probability: minimum probability of such a proposal.
        images: output of an image folder: a folder of links (copies where links are not supported), of copies or of
            hard links, or a CSV file of paths and labels.
        annotations: decisions made in Label Studio, as exported in its JSON format. If a sample also has a decision of
            ``permll review``, the newer one holds.
    """
    planned = plan(run, auto=auto, min_probability=min_probability, annotations=annotations)
    return execute(planned, Path(out), images)


def plan(
    run: Run | Path | str,
    *,
    auto: bool = False,
    min_probability: float = DEFAULT_MIN_PROBABILITY,
    annotations: Path | str | None = None,
) -> Plan:
    """Return the corrections that ``apply`` would write. A source that changed since the run is refused."""
    run = Run.open(run)
    findings = Findings.load(run.folder)
    decisions = Decisions(run.folder).current()
    if annotations is not None:
        decisions = merge_decisions(decisions, read_annotations(Path(annotations), findings))
    if not decisions and not auto:
        raise ValueError(
            f"{run.folder} has no review decisions: review the labels with permll review {run.folder}, or accept the "
            "most probable proposals with --auto."
        )
    corrections = select_corrections(findings, decisions, auto, min_probability)
    if not corrections and not findings.conservative_confidence.any():
        raise ValueError(
            f"no label of {run.folder} changes without a review, since nothing tells how certain the proposals are: "
            f"decide with permll review {run.folder}."
        )
    if not corrections:
        proposals = findings.conservative_confidence[findings.has_proposal]
        highest = f"the highest of {len(proposals):,} is {proposals.max():.4g}" if len(proposals) else "no proposals"
        raise ValueError(
            f"no proposal of {run.folder} has a probability of {min_probability} or more if the network is assumed to "
            f"be confidently wrong now and then ({highest}): lower --min-probability, or decide with permll review."
        )
    return Plan(run, findings, corrections, open_source(run, findings))


def check_output(planned: Plan, out: Path, images: ImageOutput = "link") -> None:
    """Refuse an output path or an image output that does not fit the data."""
    source = planned.source
    if images not in IMAGE_OUTPUTS:
        raise ValueError(f"unknown output {images!r} for an image folder: choose from {', '.join(IMAGE_OUTPUTS)}.")
    if images != "link" and (source is None or not source.is_folder):
        what = "data without a file" if source is None else str(source.path)
        raise ValueError(f"--as {images} is for image folders, but the run was trained on {what}: leave it out.")
    others = [changes_path(out), *filter(None, [_dropped_path(planned, out, images)])]
    check_output_path(out, others, None if source is None else source.path, _suffix(source, images))
    if source is not None and source.options.image is not None and not source.is_folder:
        _check_image_paths(source, out)


def execute(planned: Plan, out: Path, images: ImageOutput = "link") -> ApplyResult:
    """Write the corrected data set, dropped images and the list of changes: all, or nothing after an error."""
    check_output(planned, out, images)
    changes, dropped = changes_path(out), _dropped_path(planned, out, images)
    parent = out.absolute().parent.resolve()
    with ExitStack() as undo:
        with atomic_output(out) as partial:
            with nullcontext() if dropped is None else atomic_output(dropped) as partial_dropped:
                num_copied = _write(planned, partial, partial_dropped, parent, images)
            if dropped is not None:
                undo.callback(shutil.rmtree, dropped, ignore_errors=True)
            with atomic_output(changes) as partial_changes:
                partial_changes.write_text(changes_csv(planned.corrections), encoding="utf-8")
            undo.callback(changes.unlink, missing_ok=True)
        undo.pop_all()  # all have their names
    return ApplyResult(
        out,
        planned.num_changed,
        planned.num_dropped,
        count_sources(planned.corrections),
        changes,
        dropped,
        tuple(output_notes(planned.findings, planned.corrections, planned.source, num_copied)),
        train_commands(planned.run.recipe.data, planned.findings, planned.corrections, planned.source, out, images),
    )


def _write(planned: Plan, out: Path, dropped: Path | None, parent: Path, images: ImageOutput) -> int:
    """Write the data set; return the number of images that were copied instead of linked."""
    source = planned.source
    if source is None:
        _write_id_list(planned, out)
        return 0
    classes = source.relabeled
    sources = ["given"] * len(source.raw.ids)
    for correction in planned.corrections:
        row = source.rows[correction.id]
        sources[row] = correction.source
        if correction.is_change and not correction.is_dropped:
            classes[row] = correction.after
    changes = Changes(classes, sources, {source.rows[each.id] for each in planned.corrections if each.is_dropped})
    if not source.is_folder:
        _WRITERS[source.suffix](source, changes, out)
    elif images == "csv":
        write_image_list(source, changes, out, parent)
    else:
        return write_image_folder(source, changes, out, parent, images, dropped)
    return 0


def _write_id_list(planned: Plan, out: Path) -> None:
    """Write the labels of all samples that are not dropped by id, for data that are not in a file."""
    findings = planned.findings
    given = [findings.classes[k] for k in findings.given_labels.tolist()]
    rows = {row: (name, given[row], given[row], "given") for row, name in enumerate(findings.ids)}
    for correction in planned.corrections:
        rows[correction.row] = (correction.id, correction.after, correction.before, correction.source)
        if correction.is_dropped:
            del rows[correction.row]
    write_label_list(out, "id", rows.values())


def _dropped_path(planned: Plan, out: Path, images: ImageOutput) -> Path | None:
    """Return the path of the folder of dropped images; None if there is none."""
    is_folder = planned.source is not None and planned.source.is_folder and images != "csv"
    return dropped_path(out) if is_folder and planned.num_dropped else None


def _suffix(source: Source | None, images: ImageOutput) -> str:
    if source is None or (source.is_folder and images == "csv"):
        return ".csv"
    return ".npz" if source.suffix == ".npy" else source.suffix


def _check_image_paths(source: Source, out: Path) -> None:
    """Refuse to move a table of relative image paths to another folder."""
    if out.absolute().parent.resolve() == source.path.absolute().parent.resolve():
        return
    names = getattr(getattr(source.raw.inputs, "open", None), "names", ())
    if not all(os.path.isabs(name) for name in names):
        raise ValueError(
            f"column {source.options.image!r} contains image paths relative to {source.path.parent}: write {out.name} "
            "to that folder."
        )
