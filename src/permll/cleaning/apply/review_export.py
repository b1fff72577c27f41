"""``export``: the labels to look at, for a labelling tool or a spreadsheet."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from permll.cleaning.apply.export_samples import Shown, shown
from permll.cleaning.apply.label_studio import configuration, image_places, tasks
from permll.cleaning.apply.output_path import atomic_output, refuse_place
from permll.cleaning.apply.source import source_of
from permll.cleaning.decisions import Decision, Decisions
from permll.findings import Finding, Findings
from permll.training.run import Run

Tool = Literal["label-studio", "csv"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
_SUFFIXES = {"label-studio": ".json", "csv": ".csv"}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        path: the file.
        count: how many labels are in it.
        configuration: how Label Studio is to show them; None for CSV.
        notes: what else there is to know, in sentences.
    """

    path: Path
    count: int
    configuration: Path | None = None
    notes: tuple[str, ...] = ()


def export(run: Run | Path | str, out: Path | str, tool: Tool, limit: int | None = None) -> Exported:
    """Write the most suspect labels that nobody decided about, each with its sample.

    Args:
        run: with findings.
        out: the file, which must not exist; .json for Label Studio, its configuration goes beside it as .xml.
        tool: ``"label-studio"`` or ``"csv"``.
        limit: how many; by default all that are flagged.
    """
    run = Run.open(run)
    findings = Findings.load(run.folder)
    out = Path(out)
    if tool not in TOOLS:
        raise ValueError(f"labels are exported as one of {', '.join(TOOLS)}, got {tool!r}.")
    beside = out.with_suffix(".xml") if tool == "label-studio" else out
    source = source_of(run, findings)
    refuse_place(out, beside, None if source is None else source.path, _SUFFIXES[tool])
    found = to_look_at(findings, Decisions(run.folder).current(), limit)
    if not found:
        raise ValueError(f"there is nothing to export: every flagged label of {run.folder} is decided, or none is.")
    samples = shown(run, source, [finding.id for finding in found])
    if tool == "csv":
        with atomic_output(out) as part:
            part.write_text(table(found, samples), encoding="utf-8", newline="")
        return Exported(out, len(found))
    folder = source.path if source is not None and source.form == "folder" else None
    images = image_places(list(samples.values.values()), folder) if samples.kind == "path" else None
    content = json.dumps(tasks(found, samples, images), indent=1, ensure_ascii=False, default=str)
    with atomic_output(out) as part, atomic_output(beside) as part_beside:
        part.write_text(content + "\n", encoding="utf-8")
        part_beside.write_text(configuration(findings.classes, samples.kind) + "\n", encoding="utf-8")
    serving = (
        ()
        if images is None
        else (
            "Start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={images.root}, and add {images.folder} as a local storage of the "
            "project: then it shows the images.",
        )
    )
    return Exported(out, len(found), beside, serving)


def to_look_at(findings: Findings, decisions: dict[str, Decision], limit: int | None) -> list[Finding]:
    """Return the most suspect labels that nobody was sure about, ``limit`` of them or all that are flagged."""
    settled = {name for name, decision in decisions.items() if decision.verdict != "unsure"}
    rows = [row for row in findings.order.tolist() if findings.ids[row] not in settled]
    if limit is None:
        return [findings[row] for row in rows if findings.is_issue[row]]
    return [findings[row] for row in rows[:limit]]


def table(found: Sequence[Finding], samples: Shown) -> str:
    """Return the labels as CSV: what is known about each, then the sample, as far as cells can hold it."""
    head = list(Finding._fields)
    names = {"path": ["path"], "text": ["text"]}.get(samples.kind, [])
    if samples.kind == "row":
        names = list(samples.values[found[0].id])
    columns = [f"data_{name}" if name in head else name for name in names]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*head, *columns])
    for finding in found:
        value = samples.values[finding.id]
        cells = list(value.values()) if samples.kind == "row" else [value] if names else []
        writer.writerow([*finding, *cells])
    return file.getvalue()
