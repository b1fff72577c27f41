"""``apply``: write the data set of a run with corrected labels."""

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
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
    PATH_COLUMN,
    ImageOutput,
    write_image_folder,
    write_image_list,
)
from permll.cleaning.apply.label_columns import LABEL, Changes, write_label_list
from permll.cleaning.apply.output_path import atomic_output, changes_path, check_output_path
from permll.cleaning.apply.parquet_and_arrays import write_npy, write_npz, write_parquet, write_safetensors
from permll.cleaning.review_decisions import Decisions
from permll.cleaning.source import Source, open_source
from permll.data.readers.raw_data import pluralize
from permll.findings import Findings
from permll.training.recipe import DataSection
from permll.training.run import Run
from permll.utils.messages import format_list

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
        return sum(correction.is_change for correction in self.corrections)


@dataclass(frozen=True)
class ApplyResult:
    """The output of ``apply``.

    Args:
        path: of the corrected data set.
        num_changed: number of labels that changed.
        by_source: number of corrections by label source, including labels that were kept.
        changes_path: CSV file of all changes.
        notes: sentences about files left out, copies and rare classes.
        commands: shell commands that train on the corrected data set.
    """

    path: Path
    num_changed: int
    by_source: Mapping[str, int]
    changes_path: Path
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def apply(
    run: Run | Path | str,
    out: Path | str,
    *,
    auto: bool = False,
    min_probability: float = DEFAULT_MIN_PROBABILITY,
    images: ImageOutput = "link",
) -> ApplyResult:
    """Write the data set of a run with corrected labels, in its original format. The source is never changed.

    Args:
        run: a run with findings, and with decisions unless ``auto``.
        out: new file or folder; it must not exist.
        auto: whether to accept proposals that were not reviewed.
        min_probability: minimum probability of such a proposal.
        images: output of an image folder: a folder of links (copies where links are not supported), of copies or of
            hard links, or a CSV file of paths and labels.
    """
    return execute(plan(run, auto=auto, min_probability=min_probability), Path(out), images)


def plan(run: Run | Path | str, *, auto: bool = False, min_probability: float = DEFAULT_MIN_PROBABILITY) -> Plan:
    """Return the corrections that ``apply`` would write. A source that changed since the run is refused."""
    run = Run.open(run)
    findings = Findings.load(run.folder)
    decisions = Decisions(run.folder).current()
    if not decisions and not auto:
        raise ValueError(
            f"{run.folder} has no review decisions: review the labels with permll review {run.folder}, or accept the "
            "most probable proposals with --auto."
        )
    corrections = select_corrections(findings, decisions, auto, min_probability)
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
    check_output_path(out, changes_path(out), None if source is None else source.path, _suffix(source, images))
    if source is not None and source.options.image is not None and not source.is_folder:
        _check_image_paths(source, out)


def execute(planned: Plan, out: Path, images: ImageOutput = "link") -> ApplyResult:
    """Write the corrected data set and the list of changes: both, or neither after an error."""
    check_output(planned, out, images)
    changes = changes_path(out)
    with ExitStack() as undo:
        with atomic_output(out) as partial:
            num_copied = _write(planned, partial, out.absolute().parent.resolve(), images)
            with atomic_output(changes) as partial_changes:
                partial_changes.write_text(changes_csv(planned.corrections), encoding="utf-8")
            undo.callback(changes.unlink, missing_ok=True)
        undo.pop_all()  # both files have their names
    return ApplyResult(
        out,
        planned.num_changed,
        count_sources(planned.corrections),
        changes,
        tuple(_notes(planned, num_copied)),
        _train_commands(planned.run.recipe.data, planned.source, out, images),
    )


def _write(planned: Plan, out: Path, parent: Path, images: ImageOutput) -> int:
    """Write the data set; return the number of images that were copied instead of linked."""
    source = planned.source
    if source is None:
        _write_id_list(planned, out)
        return 0
    classes: dict[int, str] = {}
    sources = ["given"] * len(source.raw.ids)
    for correction in planned.corrections:
        row = source.rows[correction.id]
        sources[row] = correction.source
        if correction.is_change:
            classes[row] = correction.after
    changes = Changes(classes, sources)
    if not source.is_folder:
        _WRITERS[source.suffix](source, changes, out)
    elif images == "csv":
        write_image_list(source, changes, out, parent)
    else:
        return write_image_folder(source, changes, out, parent, images)
    return 0


def _write_id_list(planned: Plan, out: Path) -> None:
    """Write the labels of all samples by id, for data that are not in a file."""
    findings = planned.findings
    given = [findings.classes[k] for k in findings.given_labels.tolist()]
    rows = [(name, label, label, "given") for name, label in zip(findings.ids, given, strict=True)]
    for correction in planned.corrections:
        rows[correction.row] = (correction.id, correction.after, correction.before, correction.source)
    write_label_list(out, "id", rows)


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


def _notes(planned: Plan, num_copied: int) -> Iterator[str]:
    source = planned.source
    if num_copied:
        yield f"Links are not supported here, so {pluralize(num_copied, 'image')} were copied."
    if source is not None and source.is_folder:
        for note in source.raw.metadata.get("left_out", ()):
            names = ", ".join(note["names"][:10]) + (", ..." if note["count"] > 10 else "")
            yield f"Left out: {pluralize(note['count'], note['what'])} ({note['why']}): {names}."
    if source is not None and source.unreadable:
        yield f"Included although unreadable: {format_list(source.unreadable, 'image')}."
    before = Counter(planned.findings.classes[k] for k in planned.findings.given_labels.tolist())
    after = before.copy()
    for correction in planned.corrections:
        after[correction.before] -= 1
        after[correction.after] += 1
    rare = [name for name in before if after[name] < 2 <= before[name]]
    if rare:
        yield f"Fewer than two samples are left of {format_list(rare, 'class')}."


def _train_commands(section: DataSection, source: Source | None, out: Path, images: ImageOutput) -> tuple[str, ...]:
    """Return the commands that train on ``out``, with the reader options of the run's recipe."""
    if source is None:
        return _built_in_commands(section, out) if section.source else ()
    dropped = ("label", "labels", "split", "ids")
    options = {name: value for name, value in section.options.items() if name not in dropped and value is not None}
    label = source.label_column or LABEL
    if source.is_folder:
        label = LABEL if images == "csv" else ""
        options |= {"image": PATH_COLUMN} if images == "csv" else {}
    elif source.suffix == ".parquet" and source.raw.metadata.get("kind") == "vectors":
        options["features"] = source.raw.metadata["features"]  # so that the history columns are not features
    command = ["permll", "train", "--data", _to_argument(out), *(["--label", label] if label else [])]
    for name, value in options.items():
        # for text, numbers, booleans and lists, JSON is valid TOML
        command += ["--set", f"data.options.{name}={json.dumps(value, ensure_ascii=False)}"]
    return (shlex.join(command),)


def _built_in_commands(section: DataSection, out: Path) -> tuple[str, ...]:
    """Return the commands that read corrected labels of a built-in set as noise, and train with them."""
    record = out.with_suffix(".npz")
    root = ["--root", section.root] if section.root else []
    read = ["permll", "noise", "read", str(out), "--key", LABEL, "--data", section.source, *root, "--out", str(record)]
    train = ["permll", "train", "--data", section.source, *root, "--noise", _to_argument(record)]
    return shlex.join(read), shlex.join(train)


def _to_argument(path: Path) -> str:
    """Return a path that cannot be mistaken for the name of a built-in set."""
    text = str(path)
    return text if any(character in text for character in "/.\\") else f"./{text}"
