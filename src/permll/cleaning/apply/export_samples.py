"""Samples as other programs can show them: the path of an image, a text, the row of a table."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from permll.cleaning.apply.source import Source
from permll.cleaning.source_data import load_source
from permll.data.decoding import FileOpener
from permll.data.inputs import Images, Inputs, LazyImages, Table, Texts, Vectors
from permll.training.run import Run

Kind = Literal["path", "pixels", "text", "row", "nothing"]
_MOST_NUMBERS = 50  # of a vector: more say nothing to people


class Shown(NamedTuple):
    """Samples of one kind.

    Args:
        kind: ``"path"`` of an image, its ``"pixels"`` as an address that holds them, ``"text"``, ``"row"``, or
            ``"nothing"`` where a sample cannot be shown.
        values: by id.
    """

    kind: Kind
    values: dict[str, Any]


def shown(run: Run, source: Source | None, ids: Sequence[str]) -> Shown:
    """Return the samples with these ids, in their order."""
    if source is not None:
        inputs, rows = source.found.inputs, source.rows
    elif run.recipe.data.source:
        data = load_source(run)
        inputs, rows = data.inputs, {name: row for row, name in enumerate(data.ids)}
    else:
        return Shown("nothing", dict.fromkeys(ids))
    kind = _kind(inputs)
    frame = _frame(source) if source is not None and kind == "row" else None
    if frame is not None:
        return Shown("row", {name: frame.row(rows[name], named=True) for name in ids})
    return Shown(kind, {name: _value(inputs, rows[name]) for name in ids})


def _kind(inputs: Inputs) -> Kind:
    if isinstance(inputs, Images):
        return "pixels"
    if isinstance(inputs, LazyImages):
        return "path" if isinstance(inputs.open, FileOpener) else "pixels"
    if isinstance(inputs, Texts):
        return "text"
    readable = isinstance(inputs, Table) or (isinstance(inputs, Vectors) and inputs.values.shape[1] <= _MOST_NUMBERS)
    return "row" if readable else "nothing"


def _value(inputs: Inputs, row: int) -> Any:
    if isinstance(inputs, LazyImages) and isinstance(inputs.open, FileOpener):
        return str(Path(inputs.open.root) / inputs.open.names[int(inputs.rows[row])])
    if isinstance(inputs, Images | LazyImages):
        return _address(inputs.get_sample(row))
    if isinstance(inputs, Vectors):
        return {str(number): value for number, value in enumerate(inputs.values[row].tolist())}
    return inputs.get_sample(row)


def _address(image: Any) -> str:
    """Return an image as an address that holds all of it, as a PNG."""
    from PIL import Image

    if not isinstance(image, Image.Image):
        pixels = image.numpy()
        image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    file = io.BytesIO()
    image.save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _frame(source: Source) -> Any:
    """Return a table whole, also what was not trained on: to people it may say most."""
    from permll.data.readers.csv_reader import read_csv
    from permll.data.readers.tables import read_parquet

    if source.form == "csv":
        return read_csv(source.path).frame
    return read_parquet(source.path) if source.form == "parquet" else None
