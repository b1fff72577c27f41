"""The commands that train on a corrected data set: what it was read with before goes on to hold."""

import json
import shlex
from pathlib import Path
from typing import Any

from permll.cleaning.apply.image_folder_writer import PATH, As
from permll.cleaning.apply.label_values import LABEL
from permll.cleaning.apply.source import Source
from permll.training.recipe import DataSection

_GONE = ("label", "labels", "split", "ids")  # named anew, or in the file by now


def next_commands(section: DataSection, source: Source | None, out: Path, as_: As) -> tuple[str, ...]:
    """Return the commands, one a line; none for data that only Python has."""
    if source is None:
        return _of_a_set(section, out) if section.source else ()
    options = {name: value for name, value in section.options.items() if name not in _GONE and value is not None}
    if source.form == "folder":
        label = LABEL if as_ == "csv" else None
        options |= {"image": PATH} if as_ == "csv" else {}
    else:
        label = source.column or LABEL
        if source.form == "parquet" and source.found.metadata.get("kind") == "vectors":
            options["features"] = source.found.metadata["features"]  # so that no column that comes later counts
    words = ["permll", "train", "--data", _path(out), *(["--label", label] if label else [])]
    for name, value in options.items():
        words += ["--set", f"data.options.{name}={_toml(value)}"]
    return (shlex.join(words),)


def _of_a_set(section: DataSection, out: Path) -> tuple[str, ...]:
    """Return how to put corrected labels on a built-in set: they are read like any labels that differ from its own."""
    record = out.with_suffix(".npz")
    root = ["--root", section.root] if section.root else []
    read = ["permll", "noise", "read", str(out), "--key", LABEL, "--data", section.source, *root, "--out", str(record)]
    train = ["permll", "train", "--data", section.source, *root, "--noise", _path(record)]
    return shlex.join(read), shlex.join(train)


def _path(path: Path) -> str:
    """Return a path that cannot be taken for the name of a built-in set."""
    text = str(path)
    return text if any(sign in text for sign in "/.\\") else f"./{text}"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # of text, numbers, truth values and lists, the two are one
