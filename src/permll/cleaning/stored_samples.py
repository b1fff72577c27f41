"""``store_samples``: samples in memory as a file, so that they can be reviewed and corrected later."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from permll.data.dataset import LabeledData
from permll.data.inputs import Images, Table, Texts, Vectors
from permll.utils.files import atomic_write

ARRAYS_FILE, TABLE_FILE = "samples.npz", "samples.parquet"


def store_samples(data: LabeledData, folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Write samples with labels and ids into a folder; return the file, and the options to read it.

    Vectors and small images become arrays, texts and tables a Parquet file, which needs polars. None for other samples.

    Examples:
        >>> from tempfile import mkdtemp
        >>> from permll.data import load
        >>> data = load([[0.1], [0.3], [5.0], [4.0]], labels=["b", "b", "a", "a"])
        >>> path, options = store_samples(data, Path(mkdtemp()))
        >>> load(path, **options).ids, load(path, **options).classes
        (('0', '1', '2', '3'), ('a', 'b'))
    """
    labels, inputs = [data.classes[k] for k in data.labels.tolist()], data.inputs
    options: dict[str, Any] = {"classes": list(data.classes), "rare": "keep"}
    if isinstance(inputs, Vectors | Images):
        x = inputs.values if isinstance(inputs, Vectors) else inputs.pixels
        with atomic_write(folder / ARRAYS_FILE) as file:
            np.savez(file, x=x.cpu().numpy(), y=np.array(labels), ids=np.array(data.ids))
        return folder / ARRAYS_FILE, {"features": "x", "label": "y", "id": "ids", **options}
    if not isinstance(inputs, Texts | Table) or find_spec("polars") is None:
        return None
    import polars as pl

    columns: dict[str, Any] = {"text": inputs.texts} if isinstance(inputs, Texts) else dict(inputs.columns)
    label, id_ = _unused("label", columns), _unused("id", columns)
    read = {"text": "text"} if isinstance(inputs, Texts) else {"features": list(columns)}
    with atomic_write(folder / TABLE_FILE) as file:
        pl.DataFrame({**columns, id_: data.ids, label: labels}, strict=False).write_parquet(file)
    return folder / TABLE_FILE, {**read, "label": label, "id": id_, **options}


def _unused(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among others."""
    while name in names:
        name += "_"
    return name
