"""What to know about an output, and the commands that train on it."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from permll.cleaning.apply.corrections import Correction, find_new_classes
from permll.cleaning.apply.image_folder_writer import PATH_COLUMN, ImageOutput
from permll.cleaning.apply.label_columns import LABEL
from permll.cleaning.source import Source
from permll.data.readers.raw_data import pluralize
from permll.findings import Findings
from permll.training.recipe import DataSection
from permll.utils.messages import format_list


def output_notes(
    findings: Findings, corrections: Sequence[Correction], source: Source | None, num_copied: int
) -> Iterator[str]:
    """Yield sentences about new classes, copied images, files left out, unreadable images and rare classes."""
    counts = Counter(correction.after for correction in corrections)
    for name in find_new_classes(findings.classes, corrections):
        yield f"New class: {name} ({pluralize(counts[name], 'sample')})."
    if num_copied:
        yield f"Links are not supported here, so {pluralize(num_copied, 'image')} were copied."
    if source is not None and source.is_folder:
        for note in source.raw.metadata.get("left_out", ()):
            names = ", ".join(note["names"][:10]) + (", ..." if note["count"] > 10 else "")
            yield f"Left out: {pluralize(note['count'], note['what'])} ({note['why']}): {names}."
    if source is not None and source.unreadable:
        yield f"Included although unreadable: {format_list(source.unreadable, 'image')}."
    before = Counter(findings.classes[k] for k in findings.given_labels.tolist())
    after = before.copy()
    for correction in corrections:
        after[correction.before] -= 1
        after[correction.after] += not correction.is_dropped
    rare = [name for name, count in after.items() if name and count < 2 and (before[name] >= 2 or before[name] == 0)]
    if rare:
        yield f"Fewer than two samples are in {format_list(rare, 'class')}."


def train_commands(
    section: DataSection,
    findings: Findings,
    corrections: Sequence[Correction],
    source: Source | None,
    out: Path,
    images: ImageOutput,
) -> tuple[str, ...]:
    """Return the commands that train on ``out``, with the reader options of the run's recipe.

    There are none for data in memory, and for a built-in set only if it keeps its samples and classes.
    """
    if source is None:
        keeps = all(correction.after in findings.classes for correction in corrections)
        return _built_in_commands(section, out) if section.source and keeps else ()
    dropped = ("label", "labels", "split", "ids", "annotators", "annotations", "annotation_columns")
    options = {name: value for name, value in section.options.items() if name not in dropped and value is not None}
    if isinstance(options.get("classes"), list | tuple):
        options["classes"] = [*options["classes"], *find_new_classes(options["classes"], corrections)]
    label = source.label_column or LABEL
    if source.is_folder:
        label = LABEL if images == "csv" else ""
        options |= {"image": PATH_COLUMN} if images == "csv" else {}
    elif source.suffix == ".parquet" and source.raw.metadata.get("kind") == "vectors":
        options["features"] = source.raw.metadata["features"]  # so that the history columns are not features
    elif source.options.annotators is not None and source.raw.metadata.get("kind") == "table":
        options["features"] = source.raw.metadata["features"]  # and neither those of the annotators
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
