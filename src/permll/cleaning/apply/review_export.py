"""``export``: label issues for Label Studio or a spreadsheet."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from permll.cleaning.apply.export_samples import ExportSamples, load_samples
from permll.cleaning.apply.label_studio import labeling_config, make_tasks
from permll.cleaning.apply.output_path import atomic_output, check_output_path
from permll.cleaning.apply.source import Source, open_source
from permll.cleaning.decisions import Decision, Decisions
from permll.findings import Finding, Findings
from permll.training.run import Run

ExportFormat = Literal["label-studio", "csv"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


@dataclass(frozen=True)
class ExportResult:
    """The output of ``export``.

    Args:
        path: of the exported file.
        num_labels: number of exported labels.
        config_path: labeling configuration of Label Studio; None for CSV.
        notes: sentences about the settings that Label Studio needs.
    """

    path: Path
    num_labels: int
    config_path: Path | None = None
    notes: tuple[str, ...] = ()


def export(run: Run | Path | str, out: Path | str, format: ExportFormat, limit: int | None = None) -> ExportResult:
    """Write the most suspect labels without a decision, with their samples.

    Args:
        run: a run with findings.
        out: new file, .json or .csv; the configuration of Label Studio is written beside it as .xml.
        format: ``"label-studio"`` or ``"csv"``.
        limit: number of labels, most suspect first; default all label issues.
    """
    run, out = Run.open(run), Path(out)
    findings = Findings.load(run.folder)
    if format not in EXPORT_FORMATS:
        raise ValueError(f"unknown export format {format!r}: choose from {', '.join(EXPORT_FORMATS)}.")
    config_path = out.with_suffix(".xml") if format == "label-studio" else None
    source = open_source(run, findings)
    suffix = ".csv" if config_path is None else ".json"
    check_output_path(out, config_path or out, None if source is None else source.path, suffix)
    selected = _select(findings, Decisions(run.folder).current(), limit)
    if not selected:
        raise ValueError(f"{run.folder} has no label issues without a decision: there is nothing to export.")
    samples = load_samples(run, source, [finding.id for finding in selected])
    if config_path is None:
        with atomic_output(out) as partial:
            partial.write_text(_to_csv(selected, samples), encoding="utf-8", newline="")
        return ExportResult(out, len(selected))
    notes: tuple[str, ...] = ()
    root = None
    if samples.kind == "path":
        folder = _image_folder(source, samples).absolute()
        root = folder.parent  # Label Studio serves files from folders below its document root only
        notes = (
            "To show the images, start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root}, and add {folder} as local storage of the project.",
        )
    tasks = json.dumps(make_tasks(selected, samples, root), indent=1, ensure_ascii=False, default=str)
    with atomic_output(out) as partial, atomic_output(config_path) as partial_config:
        partial.write_text(tasks + "\n", encoding="utf-8")
        partial_config.write_text(labeling_config(findings.classes, samples.kind) + "\n", encoding="utf-8")
    return ExportResult(out, len(selected), config_path, notes)


def _select(findings: Findings, decisions: Mapping[str, Decision], limit: int | None) -> list[Finding]:
    """Return the most suspect labels that are undecided or unsure: ``limit`` of them, or all issues."""
    decided = {name for name, decision in decisions.items() if decision.verdict != "unsure"}
    rows = [row for row in findings.order.tolist() if findings.ids[row] not in decided]
    if limit is None:
        return [findings[row] for row in rows if findings.is_issue[row]]
    return [findings[row] for row in rows[:limit]]


def _image_folder(source: Source | None, samples: ExportSamples) -> Path:
    if source is not None and source.is_folder:
        return source.path
    return Path(os.path.commonpath([Path(path).absolute().parent for path in samples.values.values()]))


def _to_csv(findings: Sequence[Finding], samples: ExportSamples) -> str:
    """Return findings as CSV with their samples: the columns of a table, or one column of paths or texts."""
    fields = Finding._fields
    names = list(samples.values[findings[0].id]) if samples.kind == "row" else [samples.kind]
    if samples.kind in ("pixels", "none"):
        names = []
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*fields, *(f"data_{name}" if name in fields else name for name in names)])
    for finding in findings:
        value = samples.values[finding.id]
        cells = list(value.values()) if samples.kind == "row" else [value] * len(names)
        writer.writerow([*finding, *cells])
    return file.getvalue()
