"""``export``: label issues for Label Studio, Argilla, FiftyOne or a spreadsheet."""

import base64
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from permll.cleaning.apply.argilla import argilla_import, write_argilla
from permll.cleaning.apply.fiftyone import fiftyone_import, write_fiftyone
from permll.cleaning.apply.label_studio import SampleKind, labeling_config, make_tasks
from permll.cleaning.apply.output_path import atomic_output, check_output_path
from permll.cleaning.preview import to_image
from permll.cleaning.review_decisions import Decision, Decisions
from permll.cleaning.source import Source, load_source, open_source
from permll.data.decoding import FileOpener
from permll.data.inputs import Images, Inputs, LazyImages, Table, Texts, Vectors
from permll.findings import Finding, Findings
from permll.training.run import Run
from permll.utils.files import to_csv

ExportFormat = Literal["label-studio", "argilla", "fiftyone", "csv"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
_SUFFIXES = {"label-studio": ".json", "csv": ".csv"}  # the others are folders
MAX_VECTOR_LENGTH = 50  # longer vectors are not exported


@dataclass(frozen=True)
class ExportResult:
    """The output of ``export``.

    Args:
        path: of the exported file or folder.
        num_labels: number of exported labels.
        config_path: labeling configuration of Label Studio; None for other formats.
        notes: sentences about the settings that Label Studio needs, or the Python code that imports the folder.
    """

    path: Path
    num_labels: int
    config_path: Path | None = None
    notes: tuple[str, ...] = ()


def export(run: Run | Path | str, out: Path | str, format: ExportFormat, limit: int | None = None) -> ExportResult:
    """Write the most suspect labels without a decision, with their samples.

    Args:
        run: a run with findings.
        out: new .json file for Label Studio (its configuration is written beside it as .xml), new folder for Argilla
            and FiftyOne, or new .csv file.
        format: ``"label-studio"``, ``"argilla"``, ``"fiftyone"`` (images only) or ``"csv"``.
        limit: number of labels, most suspect first; default all label issues.
    """
    run, out = Run.open(run), Path(out)
    findings = Findings.load(run.folder)
    if format not in EXPORT_FORMATS:
        raise ValueError(f"unknown export format {format!r}: choose from {', '.join(EXPORT_FORMATS)}.")
    config_path = out.with_suffix(".xml") if format == "label-studio" else None
    source = open_source(run, findings)
    others = [config_path] if config_path else []
    check_output_path(out, others, None if source is None else source.path, _SUFFIXES.get(format, ""))
    selected = _select(findings, Decisions(run.folder).current(), limit)
    if not selected:
        raise ValueError(f"{run.folder} has no label issues without a decision: there is nothing to export.")
    kind, samples = _load_samples(run, source, [finding.id for finding in selected])
    if format == "label-studio":
        folder = source.path if source is not None and source.is_folder else None
        notes = _write_label_studio(out, out.with_suffix(".xml"), selected, findings.classes, kind, samples, folder)
        return ExportResult(out, len(selected), config_path, notes)
    with atomic_output(out) as partial:
        if format == "csv":
            partial.write_text(_to_csv(selected, kind, samples), encoding="utf-8", newline="")
            return ExportResult(out, len(selected))
        if format == "argilla":
            write_argilla(partial, f"permll {run.folder.resolve().name}", selected, findings.classes, kind, samples)
            return ExportResult(out, len(selected), notes=(argilla_import(out),))
        write_fiftyone(partial, selected, kind, samples)
    return ExportResult(out, len(selected), notes=(fiftyone_import(out),))


def _write_label_studio(
    out: Path,
    config_path: Path,
    findings: Sequence[Finding],
    classes: Sequence[str],
    kind: SampleKind,
    samples: Sequence[Any],
    folder: Path | None,
) -> tuple[str, ...]:
    """Write tasks and configuration; return the settings that Label Studio needs. ``folder`` holds all images."""
    notes: tuple[str, ...] = ()
    root = None
    if kind == "path":
        folder = folder or _common_folder(samples)
        root = folder.absolute().parent  # Label Studio serves files from folders below its document root only
        notes = (
            "To show the images, start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root}, and add {folder.absolute()} as local storage of the "
            "project.",
        )
    tasks = json.dumps(make_tasks(findings, kind, samples, root), indent=1, ensure_ascii=False, default=str)
    with atomic_output(out) as partial, atomic_output(config_path) as partial_config:
        partial.write_text(tasks + "\n", encoding="utf-8")
        partial_config.write_text(labeling_config(classes, kind) + "\n", encoding="utf-8")
    return notes


def _select(findings: Findings, decisions: Mapping[str, Decision], limit: int | None) -> list[Finding]:
    """Return the most suspect labels that are undecided or unsure: ``limit`` of them, or all issues."""
    decided = {name for name, decision in decisions.items() if decision.verdict != "unsure"}
    rows = [row for row in findings.order.tolist() if findings.ids[row] not in decided]
    if limit is None:
        return [findings[row] for row in rows if findings.is_issue[row]]
    return [findings[row] for row in rows[:limit]]


def _load_samples(run: Run, source: Source | None, ids: Sequence[str]) -> tuple[SampleKind, list[Any]]:
    """Return the kind of samples and those with these ids, in a form that other programs show."""
    if source is not None and not run.recipe.data.images:
        inputs, rows = source.raw.inputs, source.rows
    elif run.recipe.data.source:
        data = load_source(run)
        inputs, rows = data.inputs, {name: row for row, name in enumerate(data.ids)}
    else:
        return "none", [None] * len(ids)
    kind, read = _reader(inputs)
    if kind == "row" and source is not None and source.suffix in (".csv", ".tsv", ".parquet"):
        frame = _read_table(source)
        return kind, [frame.row(rows[name], named=True) for name in ids]
    return kind, [read(rows[name]) for name in ids]


def _reader(inputs: Inputs) -> tuple[SampleKind, Callable[[int], Any]]:
    """Return the kind of samples, and row -> sample."""
    if isinstance(inputs, LazyImages) and isinstance(inputs.open, FileOpener):
        folder, names, positions = Path(inputs.open.root), inputs.open.names, inputs.rows
        return "path", lambda row: str(folder / names[int(positions[row])])
    if isinstance(inputs, Images | LazyImages):
        return "pixels", lambda row: _data_uri(inputs.get_sample(row))
    if isinstance(inputs, Texts | Table):
        return "text" if isinstance(inputs, Texts) else "row", inputs.get_sample
    if isinstance(inputs, Vectors) and inputs.values.shape[1] <= MAX_VECTOR_LENGTH:
        return "row", lambda row: {str(k): value for k, value in enumerate(inputs.values[row].tolist())}
    return "none", lambda row: None  # noqa: ARG005


def _data_uri(pixels: Any) -> str:
    image = to_image(pixels)
    assert image is not None
    file = io.BytesIO()
    image.save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _read_table(source: Source) -> Any:
    """Return all columns of a table, including those that were not trained on."""
    from permll.data.readers.csv_reader import read_csv
    from permll.data.readers.parquet import read_parquet

    return read_parquet(source.path) if source.suffix == ".parquet" else read_csv(source.path).frame


def _common_folder(paths: Sequence[str]) -> Path:
    return Path(os.path.commonpath([Path(path).absolute().parent for path in paths]))


def _to_csv(findings: Sequence[Finding], kind: SampleKind, samples: Sequence[Any]) -> str:
    """Return findings as CSV with their samples: the columns of a table, or one column of paths or texts."""
    if kind != "row":
        samples = [{kind: sample} if kind in ("path", "text") else {} for sample in samples]
    fields = Finding._fields
    names = [f"data_{name}" if name in fields else name for name in samples[0]]
    rows = ((*finding, *sample.values()) for finding, sample in zip(findings, samples, strict=True))
    return to_csv([(*fields, *names), *rows])
