"""``report.html`` of a run: its findings as one page, with how the samples look."""

import shlex
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permll._version import __version__
from permll.cleaning.findings import Findings
from permll.cleaning.preview import look_at
from permll.cleaning.thumbnails import SMALL, encode, to_image
from permll.data.dataset import LabeledData
from permll.report.findings_page import REPORT_FILE, findings_page
from permll.training.run import Run
from permll.utils.files import atomic_write_text

if TYPE_CHECKING:
    from PIL.Image import Image

SIDES = (240, 120, 60)  # longest sides of pictures: the first that is not too heavy
HEAVY = 48 * 2**10  # bytes: so the page stays under 10 MB


def write_report(folder: Path | str, findings: Findings, data: LabeledData) -> Path:
    """Write the page of findings into a run's folder, whole or not at all, and return its path.

    Args:
        folder: of the run.
        findings: what was found in it.
        data: its samples, in any order; texts and tables as they are, not encoded. One that is gone is not shown.
    """
    run = Run(folder)
    page = findings_page(
        findings,
        looking(findings, data),
        title=str(data.metadata.get("name") or run.folder.name),
        details=_made(run, findings, data),
        commands=_commands(run, findings),
    )
    atomic_write_text(run.folder / REPORT_FILE, page)
    return run.folder / REPORT_FILE


def looking(findings: Findings, data: LabeledData) -> Callable[[int], dict[str, Any]]:
    """Return row of the findings -> how its sample looks, an image with all of its picture."""
    place = {name: row for row, name in enumerate(data.ids)}

    def look(row: int) -> dict[str, Any]:
        found = place.get(findings.ids[row])
        if found is None:
            return {"kind": "none"}
        seen = look_at(data.inputs, found, short=False)
        return seen if seen["kind"] != "image" else _picture(data, found)

    return look


def _picture(data: LabeledData, row: int) -> dict[str, Any]:
    try:
        image = to_image(data.inputs.show(row))
    except (OSError, ValueError, SyntaxError):  # Pillow's decoders raise all of these
        image = None
    return {"kind": "none"} if image is None else _thumbnail(image)


def _thumbnail(image: "Image") -> dict[str, Any]:
    for side in SIDES:
        picture = encode(image, side)
        if len(picture.content) <= HEAVY:
            break
    address = f"data:{picture.type};base64,{b64encode(picture.content).decode()}"
    return {"kind": "image", "address": address, "small": max(image.size) <= SMALL}


def _made(run: Run, findings: Findings, data: LabeledData) -> dict[str, object]:
    recipe, noise = run.recipe, findings.metadata.get("noise") or {}
    held_out = f"{noise['rows']:,} held-out labels" if noise.get("rows") else ""
    details = {
        "LabeledData": repr(data).removeprefix("Data(").removesuffix(")"),
        "Source": recipe.data.source,
        "Noise put on the labels": recipe.data.noise,
        "Method": recipe.method.name,
        "Network": recipe.network.name,
        "Epochs": f"{recipe.training.epochs}, predictions averaged up to epoch {findings.metadata.get('epoch', '?')}",
        "Seed": recipe.training.seed,
        "Flagged if right with at most": f"{100 * findings.threshold:g} %",
        "Share of wrong labels estimated from": held_out,
        "Made by": f"permll {__version__}",
    }
    return {name: value for name, value in details.items() if value != ""}


def _commands(run: Run, findings: Findings) -> list[tuple[str, str]]:
    """Return what to do next; a review needs the samples, which a run on data in memory does not keep."""
    folder, any_flagged = shlex.quote(str(run.folder)), bool(findings.flagged.any())
    words = "Look at them and decide:" if any_flagged else "Look at the labels all the same:"
    review = [(words, f"permll review {folder}")] if run.recipe.data.source else []
    apply = [("Write the corrected data:", f"permll apply {folder} --auto --out NEW")] if any_flagged else []
    return review + apply
