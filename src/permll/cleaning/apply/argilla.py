"""Argilla dataset with proposals as suggestions, as the folder that ``argilla.Dataset.from_disk`` reads."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from permll.cleaning.apply.label_studio import NO_CLASS, SampleKind
from permll.cleaning.preview import encode_thumbnail, to_image
from permll.findings import Finding

FIELD, GIVEN, QUESTION = "sample", "given_label", "label"  # names in settings and records
MAX_IMAGE_SIDE = 1200  # pixels; Argilla accepts images of up to 5 MB
GUIDELINES = "The given label is probably wrong. The suggestion is the proposed label."


def write_argilla(
    folder: Path,
    name: str,
    findings: Sequence[Finding],
    classes: Sequence[str],
    kind: SampleKind,
    samples: Sequence[Any],
) -> None:
    """Write the dataset to a new folder; images are embedded.

    Args:
        folder: path of the new folder.
        name: of the dataset; characters that Argilla does not accept become "-".
        findings: the labels to review.
        classes: c class names.
        kind: of the samples.
        samples: of the findings, in their order.
    """
    records = [_record(finding, kind, sample) for finding, sample in zip(findings, samples, strict=True)]
    dataset = {"name": re.sub(r"[^A-Za-z0-9_ -]+", "-", name).strip("-_ "), "allow_extra_metadata": True}
    (folder / ".argilla").mkdir(parents=True)
    _write_json(folder / ".argilla" / "dataset.json", {**dataset, "guidelines": GUIDELINES})
    _write_json(folder / ".argilla" / "settings.json", argilla_settings(classes, kind))
    _write_json(folder / "records.json", records)


def argilla_settings(classes: Sequence[str], kind: SampleKind) -> dict[str, Any]:
    """Return the settings: the sample, its given label, a question for the class, and the findings as metadata.

    Examples:
        >>> settings = argilla_settings(["ham", "spam"], "text")
        >>> [option["value"] for option in settings["questions"][0]["settings"]["options"]]
        ['ham', 'spam', '(belongs to no class)']
        >>> settings["fields"][0]["settings"]
        {'type': 'text', 'use_markdown': False}
    """
    text = {"type": "text", "use_markdown": False}
    options = [{"value": name, "text": name, "description": None} for name in (*classes, NO_CLASS)]
    return {
        "guidelines": GUIDELINES,
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
        "fields": [
            {
                "name": FIELD,
                "title": "Sample",
                "required": True,
                "settings": {"type": "image"} if kind in ("path", "pixels") else text,
            },
            {"name": GIVEN, "title": "Given label", "required": True, "settings": text},
        ],
        "questions": [
            {
                "name": QUESTION,
                "title": "Label",
                "required": True,
                "settings": {"type": "label_selection", "options": options, "visible_options": None},
            }
        ],
        "vectors": [],
        "metadata": [
            {"name": name, "type": type_, "title": name, "visible_for_annotators": True, "settings": {"type": type_}}
            for name, type_ in (("label_quality", "float"), ("rank", "integer"))
        ],
    }


def argilla_import(folder: Path) -> str:
    """Return a sentence with the code that imports the folder.

    Examples:
        >>> argilla_import(Path("tasks"))
        "Import it in Python: argilla.Dataset.from_disk('tasks', workspace=..., client=...)."
    """
    return f"Import it in Python: argilla.Dataset.from_disk({str(folder)!r}, workspace=..., client=...)."


def _record(finding: Finding, kind: SampleKind, sample: Any) -> dict[str, Any]:
    suggestion = {"value": finding.proposed_label, "score": finding.confidence, "agent": "permll"}
    return {
        "id": finding.id,
        "fields": {FIELD: _field(finding, kind, sample), GIVEN: finding.given_label},
        "metadata": {"label_quality": finding.label_quality, "rank": finding.rank},
        "suggestions": {QUESTION: suggestion},
        "responses": {},
        "vectors": {},
    }


def _field(finding: Finding, kind: SampleKind, sample: Any) -> str:
    """Return a sample as text, or an image as a data URI."""
    if kind == "path":
        from PIL import Image

        with Image.open(sample) as opened:
            image = to_image(opened)
        assert image is not None
        content, type_ = encode_thumbnail(image, MAX_IMAGE_SIDE)
        return f"data:{type_};base64,{b64encode(content).decode()}"
    if kind == "row":
        return "\n".join(f"{name}: {'' if value is None else value}" for name, value in sample.items())
    return finding.id if kind == "none" else str(sample)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
