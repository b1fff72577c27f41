"""All rows of a source, including those that no sample was made of."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from permll.data.dataset import LabeledData
from permll.data.inputs import Texts
from permll.data.readers.arrays import open_arrays
from permll.data.readers.assemble import assemble
from permll.data.readers.options import ReadOptions, parse_options
from permll.data.readers.raw_data import RawData
from permll.data.readers.read import read_raw


def parse_source_options(options: Mapping[str, Any]) -> ReadOptions:
    """Return the reader options of a run; ``labels`` that are a path are read."""
    labels = options.get("labels")
    if isinstance(labels, str | Path):
        path = Path(labels).expanduser()
        with open_arrays(path) as arrays:
            labels = arrays[path.stem]
    return parse_options(**{**options, "labels": labels})


def read_rows(source: Any, options: ReadOptions) -> tuple[RawData, LabeledData, list[int]]:
    """Return all rows of a source, the labeled samples without their inputs, and the row of each sample.

    Images are not decoded.
    """
    raw = read_raw(source, options)
    numbers = Texts(tuple(map(str, range(len(raw.inputs)))))  # row numbers instead of samples, to see which rows stay
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shown when the data were read for the run
        data = assemble(replace(raw, inputs=numbers), replace(options, rare="keep", image_size=None))
    assert isinstance(data.inputs, Texts)
    return raw, data, [int(number) for number in data.inputs.texts]


def sample_rows(source: Any, options: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Return the row of each labeled sample in a source, which may be in memory, by id, and the number of rows.

    Examples:
        >>> sample_rows({"x": [[1.0], [2.0], [3.0]], "y": ["a", "", "b"]}, {"no_label": ""})
        ({'0': 0, '2': 2}, 3)
    """
    raw, data, rows = read_rows(source, parse_source_options(options))
    return dict(zip(data.ids, rows, strict=True)), len(raw.inputs)
