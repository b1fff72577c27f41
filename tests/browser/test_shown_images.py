"""Vectors with a folder of images: report and review show the pictures, and decisions correct the vectors' labels."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'permll[review]'")

from PIL import Image

from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from tests.helpers.browser import Reviewer, current_id, press, wait_until_idle
from tests.helpers.command_line import run_process
from tests.helpers.given_predictions import probabilities, wrong_rows
from tests.helpers.mislabeled_data import mislabeled

PICTURE_SIZES = "elements => elements.map(one => [one.naturalWidth, one.naturalHeight])"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run of vectors with probabilities and pictures; the width of a picture tells its row."""
    known = mislabeled()
    np.savez(tmp_path / "features.npz", X=known.values, y=np.array(known.labels))
    np.save(tmp_path / "p.npy", probabilities(map(str, range(200))))
    (tmp_path / "photos").mkdir()
    for row in range(200):
        Image.new("RGB", (40 + row // 10, 30 + row % 10), (row, 90, 90)).save(tmp_path / "photos" / f"{row:03}.png")
    arguments = ("features.npz", "--pred-probs", "p.npy", "--images", "photos", "--out", "run")
    done = run_process("clean", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def test_review_shows_pictures_and_apply_corrects_vectors(run: Path, reviewer: Reviewer) -> None:
    findings = Findings.load(run)
    ids = [findings.ids[row] for row in np.flatnonzero(findings.has_proposal).tolist()]
    with reviewer.serve_process(run, "--reviewer", "Ada") as server:
        page = reviewer.open(server.url)
        for _ in range(3):
            row = int(current_id(page))
            assert page.evaluate("document.querySelector('.sample img').decode().then(() => true)")
            (size, *_) = page.eval_on_selector_all(".sample img", PICTURE_SIZES)
            assert size == [40 + row // 10, 30 + row % 10]
            press(page, "a")
        wait_until_idle(page)
    decided = Decisions(run).current()
    assert len(decided) == 3
    assert set(decided) <= set(ids)
    applied = run_process("apply", "run", "--out", "fixed.npz", cwd=run.parent)
    assert applied.returncode == 0, applied.stderr
    known = mislabeled()
    assert wrong_rows(run.parent / "fixed.npz") == known.wrong - {int(name) for name in decided}


def test_report_shows_pictures(run: Path, reviewer: Reviewer) -> None:
    page = reviewer.browser.new_page()
    page.goto((run / "report.html").as_uri())
    sizes = page.eval_on_selector_all(".card img", PICTURE_SIZES)
    findings = Findings.load(run)
    rows = findings.order[: int(findings.is_issue.sum())].tolist()
    assert sizes == [[40 + row // 10, 30 + row % 10] for row in rows]
    page.close()
