"""Samples in a form that other programs show: image path, data URI, text, or table row."""

import base64
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from permll.cleaning.apply.source import Source
from permll.cleaning.preview import to_image
from permll.cleaning.source_data import load_source
from permll.data.decoding import FileOpener
from permll.data.inputs import Images, Inputs, LazyImages, Table, Texts, Vectors
from permll.training.run import Run

SampleKind = Literal["path", "pixels", "text", "row", "none"]
MAX_VECTOR_LENGTH = 50  # longer vectors are not exported


class ExportSamples(NamedTuple):
    """Samples of one kind.

    Args:
        kind: ``"path"`` of an image, ``"pixels"`` as a data URI, ``"text"``, ``"row"`` of a table, or ``"none"``.
        values: by sample id.
    """

    kind: SampleKind
    values: dict[str, Any]


def load_samples(run: Run, source: Source | None, ids: Sequence[str]) -> ExportSamples:
    """Return the samples of a run with these ids, in this order."""
    if source is not None:
        inputs, rows = source.raw.inputs, source.rows
    elif run.recipe.data.source:
        data = load_source(run)
        inputs, rows = data.inputs, {name: row for row, name in enumerate(data.ids)}
    else:
        return ExportSamples("none", dict.fromkeys(ids))
    kind, sample = _reader(inputs)
    if kind == "row" and source is not None and source.suffix in (".csv", ".tsv", ".parquet"):
        frame = _read_table(source)
        return ExportSamples("row", {name: frame.row(rows[name], named=True) for name in ids})
    return ExportSamples(kind, {name: sample(rows[name]) for name in ids})


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
    from permll.data.readers.tables import read_parquet

    return read_parquet(source.path) if source.suffix == ".parquet" else read_csv(source.path).frame
