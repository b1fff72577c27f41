"""``report.html`` of a run: previews of all kinds of data, and of missing files."""

import base64
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import permll
from permll.cleaning.html_report import MAX_THUMBNAIL_BYTES, make_report, previews
from permll.cleaning.source import load_source
from permll.cli.main import main
from permll.data.dataset import LabeledData
from permll.data.inputs import LazyImages
from permll.data.loading import load
from permll.findings import Findings
from tests.helpers.mislabeled_data import mislabeled
from tests.helpers.review_runs import KINDS, make_run


def pictures(page: str) -> list[Image.Image]:
    found = re.findall(r'<img[^>]* src="data:image/\w+;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(content))) for content in found]


@pytest.mark.parametrize("kind", KINDS)
def test_report_previews_every_kind_of_data(kind: str, tmp_path: Path) -> None:
    run = make_run(kind, tmp_path)
    findings = Findings.load(run.folder)
    page = make_report(run, findings, load_source(run))
    count = int(findings.is_issue.sum()) + 1  # and one group of duplicates
    if kind == "images":
        assert [image.size for image in pictures(page)] == [(120, 90)] * count
    name = {"images": "image", "texts": "text", "table": "cells", "vectors": "vector"}[kind]
    assert page.count(f'<div class="preview preview-{name}">') == count
    assert f"permll review {run.folder}" in page
    assert "40 samples, 3 classes" in page


def test_report_thumbnails_are_small_and_lossless_if_tiny() -> None:
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (600, 500, 4), np.uint8), "RGBA")  # the worst to compress
    tiny = Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8))
    data = pictured(noise, tiny)
    findings = Findings.from_posterior(data.ids, data.classes, data.labels.numpy(), np.eye(2))
    look = previews(findings, data)
    large, small = look(0), look(1)
    assert (large["small"], small["small"]) == (False, True)
    assert len(base64.b64decode(large["address"].split(",")[1])) <= MAX_THUMBNAIL_BYTES
    with Image.open(io.BytesIO(base64.b64decode(small["address"].split(",")[1]))) as image:
        np.testing.assert_array_equal(np.asarray(image), np.asarray(tiny))


def pictured(*images: Image.Image) -> LabeledData:
    inputs = LazyImages(lambda row: images[row].copy(), torch.arange(len(images)))
    return LabeledData(
        inputs, torch.arange(len(images)), tuple("abcd"[: len(images)]), tuple(map(str, range(len(images))))
    )


def test_report_without_preview_of_missing_or_damaged_images(tmp_path: Path) -> None:
    run = make_run("images", tmp_path)
    findings, data = Findings.load(run.folder), load_source(run)
    first, second = (next(tmp_path.rglob(findings.head(2)[place].id)) for place in (0, 1))
    first.write_bytes(first.read_bytes()[:50])
    second.unlink()
    some = data.take([row for row in range(len(data)) if data.ids[row] != findings.head(3)[2].id])
    page = make_report(run, findings, some)
    cards = page.split('<li class="card"')[1:]
    assert ["No preview." in card for card in cards[:4]] == [True, True, True, False]


def test_clean_command_writes_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = mislabeled()
    source, out = tmp_path / "vectors.npz", tmp_path / "my run"
    np.savez(source, x=rows.values, y=np.array(rows.labels))
    found = permll.clean(source, out=out, epochs=6, callbacks=[])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"{int(found.is_issue.sum())} of 200 labels are flagged" in page
    assert f"permll review &#39;{out}&#39;" in page  # to be pasted as it is
    permll.clean(source, out=out, epochs=6, threshold=0, callbacks=[])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "No label is flagged" in page
    assert "permll apply" not in page
    monkeypatch.setattr(sys, "argv", ["permll", "clean", str(source), "--out", str(out), "--epochs", "6"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    printed = capsys.readouterr().out.splitlines()
    assert f"Report: {out / 'report.html'}" in printed
    assert f"All labels: {out / 'findings.csv'}" in printed


def test_report_of_data_in_memory_omits_review(tmp_path: Path) -> None:
    rows = mislabeled()
    permll.clean(load(rows.values, labels=rows.labels), out=tmp_path / "run", epochs=6, callbacks=[])
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "permll review" not in page
    assert "permll apply" in page
    assert '<table class="cells numbers">' in page
