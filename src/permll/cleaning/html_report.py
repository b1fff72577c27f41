"""``report.html`` of a run: its findings as a self-contained page with sample previews."""

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from permll._version import __version__
from permll.cleaning.annotations import named_answers
from permll.cleaning.next_commands import commands_after_clean
from permll.cleaning.preview import MAX_LOSSLESS_SIDE, encode_thumbnail, open_image, preview_sample
from permll.cleaning.shown_images import show_images
from permll.data.dataset import LabeledData
from permll.findings import Findings
from permll.report.audit_section import audit_section
from permll.report.findings_page import findings_page
from permll.training.recipe import Recipe
from permll.training.run import GIVEN, Run

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL_SIDES = (240, 120, 60)  # longest sides in pixels, tried in this order
MAX_THUMBNAIL_BYTES = 28 * 2**10  # keeps the page below 10 MB


def make_report(run: Run, findings: Findings, data: LabeledData, test: LabeledData | None = None) -> str:
    """Return the page of a run's findings as HTML.

    Args:
        run: the run.
        findings: its findings.
        data: its samples in any order; some may be missing.
        test: the test samples whose leaks it lists.
    """
    return findings_page(
        findings,
        previews(findings, show_images(data, run.recipe.data)),
        answers=answers_by_row(findings, data),
        title=str(data.metadata.get("name") or run.folder.name),
        details=_details(run, findings, data),
        commands=list(commands_after_clean(run, findings)),
        audit=audit_section(findings, by_id(show_images(data, run.recipe.data)), by_id(test)),
    )


def answers_by_row(findings: Findings, data: LabeledData) -> Callable[[int], list[tuple[str, str]]]:
    """Return row of the findings -> annotators of its sample with their answers."""
    position = {name: row for row, name in enumerate(data.ids)}

    def answers(row: int) -> list[tuple[str, str]]:
        at = position.get(findings.ids[row])
        return [] if at is None else named_answers(data.annotations, at, data.classes)

    return answers


def previews(findings: Findings, data: LabeledData) -> Callable[[int], dict[str, Any]]:
    """Return row of the findings -> preview of its sample; images are embedded."""
    preview = by_id(data)
    return lambda row: preview(findings.ids[row])


def by_id(data: LabeledData | None) -> Callable[[str], dict[str, Any]]:
    """Return id -> preview of a sample; images are embedded."""
    position = {} if data is None else {name: row for row, name in enumerate(data.ids)}

    def preview(name: str) -> dict[str, Any]:
        at = position.get(name)
        if at is None or data is None:
            return {"kind": "none"}
        sample = preview_sample(data.inputs, at, short=False)
        return _embedded_image(open_image(data.inputs, at)) if sample["kind"] == "image" else sample

    return preview


def _embedded_image(image: "Image | None") -> dict[str, Any]:
    if image is None:
        return {"kind": "none"}
    for side in THUMBNAIL_SIDES:
        thumbnail = encode_thumbnail(image, side)
        if len(thumbnail.content) <= MAX_THUMBNAIL_BYTES:
            break
    address = f"data:{thumbnail.type};base64,{b64encode(thumbnail.content).decode()}"
    return {"kind": "image", "address": address, "small": max(image.size) <= MAX_LOSSLESS_SIDE}


def _details(run: Run, findings: Findings, data: LabeledData) -> dict[str, object]:
    recipe, noise = run.recipe, findings.metadata.get("noise") or {}
    if run.task == GIVEN:
        return _given_details(recipe, findings)
    details = {
        "Data": repr(data).partition("(")[2].removesuffix(")"),
        "Source": recipe.data.source,
        "Images": recipe.data.images or "",
        "Synthetic noise": recipe.data.noise,
        **_classifier(recipe, findings),
        "Seed": recipe.training.seed,
        "Threshold": f"{100 * findings.threshold:g} %",
        "Noise rate estimated from": f"{noise['rows']:,} held-out labels" if noise.get("by") == "held_out" else "",
        "Made by": f"permll {__version__}",
    }
    return {name: value for name, value in details.items() if value != ""}


def _given_details(recipe: Recipe, findings: Findings) -> dict[str, object]:
    """Return the details of findings without a training."""
    details = {
        "Data": findings.metadata["data"],
        "Source": recipe.data.source,
        "Images": recipe.data.images or "",
        "Findings from": recipe.title,
        "Threshold": f"{100 * findings.threshold:g} %" if findings.flagged is None else "",
        "Made by": f"permll {__version__}",
    }
    return {name: value for name, value in details.items() if value != ""}


def _classifier(recipe: Recipe, findings: Findings) -> dict[str, object]:
    """Return what predicted the labels: estimators, or the training of a network."""
    if recipe.estimator is not None:
        return {"Estimator": recipe.estimator.given or recipe.estimator.name, "Folds": recipe.estimator.folds}
    epochs = f"{recipe.training.epochs}, predictions averaged up to epoch {findings.metadata.get('epoch', '?')}"
    return {"Method": recipe.method.name, "Network": recipe.network.name, "Epochs": epochs}
