"""The audit of ``permll clean``: columns, report, test data, and that no run is lost by it."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

import permll
from permll.audit import COLUMNS
from permll.cleaning import audit_run as audit_run_module
from permll.findings import Findings
from tests.helpers.command_line import error_message, run_cli, run_process
from tests.helpers.mislabeled_data import mislabeled

ROWS = 180


def write_table(path: Path, values: np.ndarray, labels: list[str]) -> Path:  # type: ignore[type-arg]
    columns = {f"x{k}": values[:, k] for k in range(values.shape[1])}
    pl.DataFrame({"id": [f"é-{row}" for row in range(len(values))], **columns, "label": labels}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, its test data, and the run of both."""
    folder = tmp_path_factory.mktemp("audit")
    data = mislabeled(ROWS)
    values = data.values.copy()
    values[150] = values[3]  # identical
    values[160] = values[9] * 1.0001  # nearly
    values[170] = 60.0  # an outlier
    table = write_table(folder / "table.csv", values, data.labels)
    new = mislabeled(30, seed=5)
    new_values = new.values.copy()
    new_values[4] = values[20]
    test = write_table(folder / "test.csv", new_values, new.labels)
    result = run_process("clean", table, "--test", test, "--out", folder / "run", "--epochs", "3", "--json")
    assert result.returncode == 0, result.stderr
    (folder / "facts.json").write_text(result.stdout)
    return folder


def test_columns_of_findings_are_at_the_end(folder: Path) -> None:
    with (folder / "run" / "findings.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    found = Findings.load(folder / "run")
    assert found.column_names[-3:] == COLUMNS
    groups = {name: row["near_duplicate_group"] for name, row in rows.items() if row["near_duplicate_group"]}
    assert groups == {"é-3": "1", "é-150": "1", "é-9": "2", "é-160": "2"}
    assert rows["é-170"]["is_outlier"] == "True"
    assert float(rows["é-170"]["outlier_score"]) > 0.9
    assert sum(row["is_outlier"] == "True" for row in rows.values()) <= 4
    assert rows["é-0"]["outlier_score"] == str(found[list(found.ids).index("é-0")].outlier_score)
    frame = pl.read_parquet(folder / "run" / "findings.parquet")
    assert frame.columns == list(found.column_names)
    assert frame.schema["near_duplicate_group"] == pl.Int64
    assert found.to_pandas().shape == (ROWS, len(found.column_names))


def test_json_and_show_have_the_audit(folder: Path) -> None:
    facts = json.loads((folder / "facts.json").read_text())["audit"]
    assert facts["near_duplicates"]["groups"] == 2
    assert "pairs" not in facts["near_duplicates"]
    saved = json.loads((folder / "run" / "findings.json").read_text())["audit"]
    assert [pair["ids"] for pair in saved["leaks"]["pairs"]] == [["é-20", "é-4"]]
    assert saved["leaks"]["data"] == str(folder / "test.csv")
    text = run_cli("show", folder / "run").stdout
    assert "4 samples are near-duplicates, in 2 groups" in text
    assert "1 of 30 test samples repeats one of these samples (leaks)." in text


def test_report_shows_pairs_and_leaks(folder: Path) -> None:
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="audit">Audit</h2>' in page
    for text in ("Test samples that repeat these samples", "é-150", "é-160", "é-4", "Outliers", "é-170"):
        assert text in page


def test_a_finished_run_is_read_with_its_audit(folder: Path) -> None:
    found = permll.clean(folder / "run", threshold=0.4, callbacks=[])  # saved again
    assert found.audit is not None
    assert found.audit.groups == [[3, 150], [9, 160]]
    assert "leaks" in Findings.load(folder / "run").audit.facts  # type: ignore[union-attr]
    moved = (folder / "test.csv").rename(folder / "moved.csv")
    assert permll.clean(folder / "run", callbacks=[]).audit is not None  # without pictures of the test samples
    moved.rename(folder / "test.csv")


def test_apply_works_with_the_columns(folder: Path, tmp_path: Path) -> None:
    result = run_cli("apply", folder / "run", "--auto", "--min-probability", "0", "--out", tmp_path / "fixed.csv")
    assert result.returncode == 0, result.stderr
    assert len(pl.read_csv(tmp_path / "fixed.csv")) == ROWS


def test_no_audit(folder: Path, tmp_path: Path) -> None:
    result = run_process("clean", folder / "table.csv", "--no-audit", "--out", tmp_path / "run", "--epochs", "2")
    assert result.returncode == 0, result.stderr
    assert "near-duplicates" not in result.stdout
    found = Findings.load(tmp_path / "run")
    assert found.audit is None
    assert not set(COLUMNS) & set(found.column_names)
    assert "Audit" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_findings_of_earlier_versions_have_no_audit(folder: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(folder / "run", tmp_path / "run"))
    content = json.loads((run / "findings.json").read_text())
    del content["audit"]
    (run / "findings.json").write_text(json.dumps(content))
    found = Findings.load(run)
    assert found.audit is None
    assert found[0].outlier_score is None


def test_missing_test_data_are_refused_before_the_training(folder: Path, tmp_path: Path) -> None:
    result = run_cli("clean", folder / "table.csv", "--test", tmp_path / "nothing.csv", "--out", tmp_path / "run")
    assert "nothing.csv" in error_message(result)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_failed_audit_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(audit_run_module, "audit", fail)
    data = mislabeled(60)
    with pytest.warns(UserWarning, match="there is no audit: RuntimeError: broken"):
        found = permll.clean(data.values, data.labels, epochs=2, out=tmp_path / "run", callbacks=[])
    assert found.audit is None
    assert len(found) == 60


def test_leaks_between_folders_of_images(tmp_path: Path) -> None:
    """Colored training images, some of which are JPEG files in the test data."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(60, 3, 5, 5, generator=generator)
    coarse[1::2, 0] += 0.5
    pixels = torch.nn.functional.interpolate(coarse, (80, 80), mode="bicubic").clamp(0, 1).mul(255).to(torch.uint8)
    for part, rows in (("train", range(40)), ("test", range(36, 60))):
        for row in rows:
            folder = tmp_path / part / ("even", "odd")[row % 2]
            folder.mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(pixels[row].permute(1, 2, 0).numpy())
            image.save(folder / f"{part} {row}.{'png' if part == 'train' else 'jpg'}")
    found = permll.clean(
        tmp_path / "train", test=tmp_path / "test", backbone="none", epochs=2, out=tmp_path / "run", callbacks=[]
    )
    assert found.audit is not None
    assert not found.audit.facts["failed"]
    leaks = {tuple(Path(name).stem for name in pair["ids"]) for pair in found.audit.facts["leaks"]["pairs"]}
    assert leaks == {(f"train {row}", f"test {row}") for row in range(36, 40)}
    assert "data:image" in (tmp_path / "run" / "report.html").read_text().split('<h2 id="audit">')[1]


def test_test_data_in_memory() -> None:
    data, texts = mislabeled(60), [f"this is text number {k} about topic {k * k}" for k in range(60)]
    test = {"text": [texts[7].title(), "another one, quite short"], "label": ["ant", "bee"]}
    found = permll.clean(
        {"text": texts, "label": data.labels}, test=test, text="text", encoder="tfidf", epochs=2, out=None, callbacks=[]
    )
    assert found.audit is not None
    leaks = found.audit.facts["leaks"]
    assert [pair["ids"] for pair in leaks["pairs"]] == [["7", "0"]]
    assert found.column_names[-4:] == ("text", *COLUMNS)
