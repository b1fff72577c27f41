"""Label Studio tasks with proposals as predictions, and the labeling configuration."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

from permll.findings import Finding

SampleKind = Literal["path", "pixels", "text", "row", "none"]  # of an image, a data URI, a text, a table row
CONTROL, OBJECT = "label", "sample"  # names in tasks and configuration
NO_CLASS = "(belongs to no class)"  # choice that drops the sample
_FIELDS = {"path": "image", "pixels": "image", "text": "text", "row": "row", "none": "id"}
_TAGS = {"image": "Image", "text": "Text", "row": "Table", "id": "Text"}


def make_tasks(
    findings: Sequence[Finding], kind: SampleKind, samples: Sequence[Any], root: Path | None
) -> list[dict[str, Any]]:
    """Return one task for each finding, as JSON values.

    Args:
        findings: the labels to review.
        kind: of the samples.
        samples: of the findings, in their order.
        root: document root of Label Studio; None if samples are not image paths.

    Examples:
        >>> finding = Finding("a", "ham", "spam", 0.9, 0.1, 0.9, 1, True, "")
        >>> task = make_tasks([finding], "text", ["win now"], None)[0]
        >>> task["data"]["text"], task["predictions"][0]["result"][0]["value"]
        ('win now', {'choices': ['spam']})
    """
    tasks = []
    for finding, sample in zip(findings, samples, strict=True):
        value = {"choices": [finding.proposed_label]}
        choice = {"from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": value}
        prediction = {"model_version": "permll", "score": finding.confidence, "result": [choice]}
        data = {**finding._asdict(), "note": f"Given: {finding.given_label}", **_sample_field(kind, sample, root)}
        tasks.append({"data": data, "predictions": [prediction]})
    return tasks


def labeling_config(classes: Sequence[str], kind: SampleKind) -> str:
    """Return the labeling configuration as XML: the sample, its given label, and a choice of classes or none of them.

    Examples:
        >>> print(labeling_config(["ham", "spam"], "text"))
        <View>
          <Header value="$note" />
          <Text name="sample" value="$text" />
          <Choices name="label" toName="sample" choice="single" showInline="true">
            <Choice value="ham" />
            <Choice value="spam" />
            <Choice value="(belongs to no class)" />
          </Choices>
        </View>
    """
    field = _FIELDS[kind]
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Header", value="$note")
    ElementTree.SubElement(view, _TAGS[field], name=OBJECT, value=f"${field}")
    choices = ElementTree.SubElement(view, "Choices", name=CONTROL, toName=OBJECT, choice="single", showInline="true")
    for name in (*classes, NO_CLASS):
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode")


def _sample_field(kind: SampleKind, sample: Any, root: Path | None) -> dict[str, Any]:
    if root is not None:
        relative = Path(os.path.relpath(Path(sample).absolute(), root)).as_posix()
        sample = f"/data/local-files/?d={quote(relative)}"
    return {} if kind == "none" else {_FIELDS[kind]: sample}
