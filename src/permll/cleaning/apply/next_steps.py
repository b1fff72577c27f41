"""Commands that train on a corrected data set, with the reader options of the original run."""

import json
import shlex
from pathlib import Path

from permll.cleaning.apply.image_folder_writer import PATH_COLUMN, ImageOutput
from permll.cleaning.apply.label_columns import LABEL
from permll.cleaning.source import Source
from permll.training.recipe import DataSection

_DROPPED_OPTIONS = ("label", "labels", "split", "ids")


def train_commands(section: DataSection, source: Source | None, out: Path, images: ImageOutput) -> tuple[str, ...]:
    """Return the commands for the corrected data set ``out`` of a run with this ``data`` section of its recipe."""
    if source is None:
        return _built_in_commands(section, out) if section.source else ()
    options = {
        name: value for name, value in section.options.items() if name not in _DROPPED_OPTIONS and value is not None
    }
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
