"""Tasks for Label Studio, with the proposals as predictions, and how it is to show them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from permll.cleaning.apply.export_samples import Shown
from permll.findings import Finding

CONTROL, OBJECT = "label", "sample"  # the names that tasks and configuration share
_FIELDS = {"path": "image", "pixels": "image", "text": "text", "row": "row", "nothing": "id"}
_TAGS = {"image": "Image", "text": "Text", "row": "Table", "id": "Text"}


class Images(NamedTuple):
    """Where Label Studio has to look for images: ``root`` is what it serves from, ``folder`` a folder below that."""

    root: Path
    folder: Path


def tasks(found: Sequence[Finding], samples: Shown, images: Images | None) -> list[dict[str, Any]]:
    """Return the tasks, one for each finding, as JSON would hold them.

    Args:
        found: the labels to look at.
        samples: what they are about.
        images: where the images lie, if they are files.

    Examples:
        >>> one = Finding("a", "ham", "spam", 0.9, 0.1, 0.9, 1, True, "")
        >>> task = tasks([one], Shown("text", {"a": "win now"}), None)[0]
        >>> task["data"]["text"], task["predictions"][0]["result"][0]["value"]
        ('win now', {'choices': ['spam']})
    """
    return [
        {
            "data": {
                **finding._asdict(),
                "note": f"Given: {finding.given_label}",
                **_field(samples, finding.id, images),
            },
            "predictions": [
                {
                    "model_version": "permll",
                    "score": finding.confidence,
                    "result": [
                        {
                            "from_name": CONTROL,
                            "to_name": OBJECT,
                            "type": "choices",
                            "value": {"choices": [finding.proposed_label]},
                        }
                    ],
                }
            ],
        }
        for finding in found
    ]


def configuration(classes: Sequence[str], kind: str) -> str:
    """Return the labelling configuration, as XML: the sample, its given label, and a choice of the classes.

    Examples:
        >>> print(configuration(["ham", "spam"], "text"))
        <View>
          <Header value="$note" />
          <Text name="sample" value="$text" />
          <Choices name="label" toName="sample" choice="single" showInline="true">
            <Choice value="ham" />
            <Choice value="spam" />
          </Choices>
        </View>
    """
    field = _FIELDS[kind]
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Header", value="$note")
    ElementTree.SubElement(view, _TAGS[field], name=OBJECT, value=f"${field}")
    choices = ElementTree.SubElement(view, "Choices", name=CONTROL, toName=OBJECT, choice="single", showInline="true")
    for name in classes:
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode")


def image_places(paths: Sequence[str], folder: Path | None) -> Images:
    """Return where to serve images from: Label Studio shows files of a folder below its root, never of the root itself.

    Args:
        paths: of the images.
        folder: that holds them all, if that is known.
    """
    together = folder or Path(os.path.commonpath([Path(path).absolute().parent for path in paths]))
    return Images(together.absolute().parent, together.absolute())


def _field(samples: Shown, name: str, images: Images | None) -> dict[str, Any]:
    if samples.kind == "nothing":
        return {}
    value = samples.values[name]
    if samples.kind == "path" and images is not None:
        below = Path(os.path.relpath(Path(value).absolute(), images.root)).as_posix()
        value = f"/data/local-files/?d={quote(below)}"
    return {_FIELDS[samples.kind]: value}
