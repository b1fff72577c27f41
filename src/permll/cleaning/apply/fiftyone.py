"""FiftyOne dataset with proposals as labels, in the format ``FiftyOneImageClassificationDataset``."""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from permll.cleaning.apply.label_studio import SampleKind
from permll.findings import Finding

IMAGES = "data"  # folder of images that are in memory


def write_fiftyone(folder: Path, findings: Sequence[Finding], kind: SampleKind, samples: Sequence[Any]) -> None:
    """Write the dataset to a new folder.

    ``labels.json`` holds the proposed label of each image with its probability as confidence, and the given label,
    its quality, the id and the rank as attributes. Images that are files stay where they are: ``data.json`` has
    their paths. Others are written to ``data``.

    Args:
        folder: path of the new folder.
        findings: the labels to review.
        kind: of the samples, which must be images.
        samples: of the findings, in their order: paths or data URIs.
    """
    if kind not in ("path", "pixels"):
        raise ValueError("FiftyOne shows images, and these samples are not: choose label-studio, argilla or csv.")
    keys = [f"{number:07d}" for number in range(1, len(findings) + 1)]  # FiftyOne sorts them
    folder.mkdir()
    if kind == "path":
        paths = {key: str(Path(sample).absolute()) for key, sample in zip(keys, samples, strict=True)}
        _write_json(folder / "data.json", paths)
    else:
        (folder / IMAGES).mkdir()
        for key, sample in zip(keys, samples, strict=True):
            (folder / IMAGES / f"{key}.png").write_bytes(b64decode(sample.partition(",")[2]))
    _write_json(folder / "labels.json", {"labels": dict(zip(keys, map(fiftyone_label, findings), strict=True))})


def fiftyone_label(finding: Finding) -> dict[str, Any]:
    """Return the label of an image.

    Examples:
        >>> fiftyone_label(Finding("a.png", "cat", "dog", 0.9, 0.1, 0.9, 1, True, ""))["attributes"]
        {'sample_id': 'a.png', 'given_label': 'cat', 'label_quality': 0.1, 'rank': 1, 'reason': ''}
    """
    attributes = {
        "sample_id": finding.id,  # FiftyOne reserves id
        "given_label": finding.given_label,
        "label_quality": finding.label_quality,
        "rank": finding.rank,
        "reason": finding.reason,
    }
    return {"label": finding.proposed_label, "confidence": finding.confidence, "attributes": attributes}


def fiftyone_import(folder: Path) -> str:
    """Return a sentence with the code that imports the folder.

    Examples:
        >>> fiftyone_import(Path("tasks"))
        "Import it in Python: fiftyone.Dataset.from_dir('tasks', fiftyone.types.FiftyOneImageClassificationDataset)."
    """
    type_ = "fiftyone.types.FiftyOneImageClassificationDataset"
    return f"Import it in Python: fiftyone.Dataset.from_dir({str(folder)!r}, {type_})."


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
