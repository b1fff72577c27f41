"""``permll clean`` with predictions or label issues that exist already: nothing is trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from permll.cleaning.next_commands import commands_after_review
from permll.data.loading import load
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.cleaning_files import KINDS, save_csv, write_dataset
from tests.helpers.command_line import error_message, run_cli, run_process, words
from tests.helpers.given_predictions import accept_flagged, probabilities, row_of, wrong_rows
from tests.helpers.mislabeled_data import CLASSES

OPTIONS: dict[str, dict[str, str]] = {"texts": {"text": "words", "label": "kind"}}
NEW_NAMES = {"images": "fixed", "texts": "fixed.csv", "table": "fixed.csv", "vectors": "fixed.npz"}


def save_npy(path: Path, ids: tuple[str, ...], p: np.ndarray[Any, Any]) -> Path:
    np.save(path.with_suffix(".npy"), p)
    return path.with_suffix(".npy")


def save_npz(path: Path, ids: tuple[str, ...], p: np.ndarray[Any, Any]) -> Path:
    np.savez(path.with_suffix(".npz"), pred_probs=p[:, ::-1], classes=np.array(CLASSES[::-1]))
    return path.with_suffix(".npz")


def save_table(path: Path, ids: tuple[str, ...], p: np.ndarray[Any, Any]) -> Path:
    """Save classes in another order than that of the data."""
    rows = [[f"{value:.6f}" for value in row] for row in p[:, [2, 0, 1]].tolist()]
    save_csv(path.with_suffix(".csv"), [CLASSES[k] for k in (2, 0, 1)], rows)
    return path.with_suffix(".csv")


def save_shuffled(path: Path, ids: tuple[str, ...], p: np.ndarray[Any, Any]) -> Path:
    """Save the rows in another order, with their ids."""
    order = np.random.default_rng(3).permutation(len(ids))
    columns = {"id": [ids[row] for row in order], **{name: p[order, k] for k, name in enumerate(CLASSES)}}
    pl.DataFrame(columns).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


@pytest.mark.parametrize(
    ("kind", "save"), [("vectors", save_npy), ("table", save_npz), ("texts", save_table), ("images", save_shuffled)]
)
def test_probabilities_lead_to_corrected_data(kind: str, save: Callable[..., Path], tmp_path: Path) -> None:
    wrong = {row_of(id) for id in write_dataset(kind, tmp_path)}
    ids = load(tmp_path / KINDS[kind][0], **OPTIONS.get(kind, {})).ids
    file = save(tmp_path / "p", ids, probabilities(ids))
    run = run_process if kind == "vectors" else run_cli
    found = run("clean", *KINDS[kind], "--pred-probs", file.name, "--out", "run", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    new = f"{kind}-{NEW_NAMES[kind]}"
    assert lines[lines.index("Report: run/report.html") + 1 :][:3] == [
        "All labels: run/findings.csv",
        "Review the flagged labels:  permll review run",
        f"Write the corrected data:  permll apply run --out {new}",
    ]
    assert lines[-1].endswith(f"permll apply run --out {new} --auto")
    accepted = accept_flagged(tmp_path / "run")
    assert accepted <= wrong
    assert len(accepted) >= 0.8 * len(wrong)
    applied = run("apply", "run", "--out", NEW_NAMES[kind], cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    assert f"{len(accepted)} of 200 labels change ({len(accepted)} accepted)." in applied.stdout
    assert wrong_rows(tmp_path / NEW_NAMES[kind], **OPTIONS.get(kind, {})) == wrong - accepted
    report = (tmp_path / "run" / "report.html").read_text()
    assert "predicted probabilities" in report
    assert "Epochs" not in report


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, probabilities, and a run of both."""
    folder = tmp_path_factory.mktemp("given")
    write_dataset("table", folder)
    np.save(folder / "p.npy", probabilities(map(str, range(200))))
    assert run_cli("clean", "table.csv", "--pred-probs", "p.npy", cwd=folder).returncode == 0
    return folder


RUN = "runs/table-pred-probs"


def test_same_command_again_keeps_decisions(given: Path) -> None:
    before = Findings.load(given / RUN)
    accepted = accept_flagged(given / RUN)
    again = run_cli("clean", "table.csv", "--pred-probs", "p.npy", "--threshold", "0.1", cwd=given)
    assert again.returncode == 0, again.stderr
    after = Findings.load(given / RUN)
    assert (before.threshold, after.threshold) == (0.5, 0.1)
    assert np.array_equal(before.label_quality, after.label_quality)
    assert [text for text, _ in commands_after_review(Run(given / RUN))] == ["Write the corrected data:"]
    dry = run_cli("apply", RUN, "--dry-run", cwd=given)
    assert f"{len(accepted)} of 200 labels change" in dry.stdout
    over = run_cli("clean", "table.csv", "--pred-probs", "p.npy", "--overwrite", cwd=given)
    assert f"{RUN} has {len(accepted)} review decisions, which would be lost" in error_message(over)


def test_other_probabilities_need_another_folder(given: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", probabilities(map(str, range(200)), seed=1))
    arguments = ("clean", "table.csv", "--pred-probs", tmp_path / "other.npy")
    assert "holds other findings: choose another folder" in error_message(run_cli(*arguments, cwd=given))
    run = tmp_path / "run"
    for more in ([], ["--overwrite"]):
        assert run_cli(*arguments, "--out", run, *more, cwd=given).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["predict", RUN, "table.csv"], ["export", RUN], ["clean", "--continue", RUN], ["train", RUN]],
)
def test_commands_that_need_a_network_say_so(given: Path, arguments: list[str]) -> None:
    expected = f"{RUN} has no network, since its findings come from predicted probabilities: permll clean DATA"
    assert error_message(run_cli(*arguments, cwd=given)).startswith(expected)


def test_show_and_clean_read_the_run(given: Path) -> None:
    shown = run_cli("show", RUN, cwd=given)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"{RUN}, not trained" in shown.stdout
    assert "of the labels are wrong" in shown.stdout
    facts = json.loads(run_cli("show", RUN, "--json", cwd=given).stdout)
    assert facts["runs"][0]["epochs"] == 0
    read = run_cli("clean", RUN, "--threshold", "0.2", cwd=given)
    assert (read.returncode, read.stderr) == (0, "")
    assert Findings.load(given / RUN).threshold == 0.2


def test_run_can_be_moved_with_its_data(given: Path, tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    np.save(tmp_path / "p.npy", probabilities(map(str, range(200))))
    assert run_cli("clean", "table.csv", "--pred-probs", "p.npy", "--out", "run", cwd=tmp_path).returncode == 0
    (tmp_path / "table.csv").rename(tmp_path / "new.csv")
    (tmp_path / "run").rename(tmp_path / "moved")
    accept_here = run_cli("apply", "moved", "--auto", "--data", "new.csv", "--out", "fixed.csv", cwd=tmp_path)
    assert accept_here.returncode == 0, accept_here.stderr
    assert Run(tmp_path / "moved").recipe.data.source == str(tmp_path / "new.csv")


def test_rows_that_are_left_out_need_no_probabilities(tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    lines = (tmp_path / "table.csv").read_text().splitlines()
    lines.insert(1, "1,2,red,")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    p = probabilities(map(str, range(200)))
    np.save(tmp_path / "some.npy", p)
    np.save(tmp_path / "all.npy", np.vstack([[[1 / 3] * 3], p]))
    for name in ("some", "all"):
        arguments = ("clean", "table.csv", "--drop-empty", "--pred-probs", f"{name}.npy", "--out", name)
        result = run_cli(*arguments, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    some, every = (Findings.load(tmp_path / name) for name in ("some", "all"))
    assert np.array_equal(some.label_quality, every.label_quality)
    np.save(tmp_path / "few.npy", p[:-1])
    result = run_cli("clean", "table.csv", "--drop-empty", "--pred-probs", "few.npy", cwd=tmp_path)
    assert error_message(result) == (
        "few.npy has 199 rows, but table.csv has 200 labeled samples in 201 rows: give one row per sample, in the same "
        "order."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pred-probs", "none.npy"], "no such file: none.npy"),
        (["--pred-probs", "p.txt"], "unsupported file type: p.txt"),
        (["--pred-probs", "p.npy", "--epochs", "3", "--method", "elr"], "has no use for --method, --epochs"),
        (["--pred-probs", "p.npy", "--set", "optimizer.lr=1"], "has no use for --set"),
        (["--pred-probs", "p.npy", "--issues", "p.csv"], "--pred-probs and --issues exclude each other"),
        (["--issues", "i.csv", "--threshold", "0.4"], "--issues has no use for --threshold"),
        (["--pred-probs", "two.npy"], "two.npy has 2 columns, but table.csv has 3 classes (ant, bee, cow)"),
        (["--pred-probs", "logits.npy"], "logits.npy must not be negative and each row must sum to 1"),
        (["--pred-probs", "nan.npy"], "nan.npy must not be negative and each row must sum to 1"),
        (["--pred-probs", "empty.npy"], "empty.npy has 0 rows, but table.csv has 200 labeled samples"),
        (["--pred-probs", "words.csv"], "there are no numbers in 1 column (cow)"),
        (["--pred-probs", "names.csv"], "names.csv has no column for 1 class (cow) of table.csv"),
        (["--pred-probs", "twice.csv"], "twice.csv has several rows of 1 sample (1)"),
        (["--pred-probs", "ids.csv"], "ids.csv has no row of table.csv: its first id is x"),
        (["--pred-probs", "part.csv"], "part.csv has no row for 199 samples (1, 2,"),
        (["--pred-probs", "arrays.npz"], "arrays.npz has 2 arrays (a, b): name the one of probabilities pred_probs."),
        (["--pred-probs", "pickled.npz"], "holds Python objects"),
        (["--pred-probs", "p.npy", "--annotators", "a,b"], "needs a training: clean the data without predictions"),
        (["--pred-probs", "p.npy", "--estimator", "none"], "has no use for --estimator"),
        (["--pred-probs", "p.npy", "--images", "nowhere"], "the folder of images, does not exist"),
        (["--pred-probs", "p.npy", "--images", "."], "contains no images"),
    ],
)
def test_bad_predictions_are_one_sentence(given: Path, arguments: list[str], message: str) -> None:
    p = np.load(given / "p.npy")
    np.save(given / "two.npy", np.full((200, 2), 0.5))
    np.save(given / "logits.npy", 5 * p)
    np.save(given / "nan.npy", np.where(p > 0.5, np.nan, p))
    np.save(given / "empty.npy", p[:0])
    np.savez(given / "arrays.npz", a=p, b=p)
    np.savez(given / "pickled.npz", pred_probs=np.array([{}, 1], object))
    head = ["ant", "bee", "cow"]
    save_csv(given / "words.csv", head, [["0.5", "0.5", "none"]] * 200)
    save_csv(given / "names.csv", ["ant", "bee", "Cow"], [["0.5", "0.5", "0"]] * 200)
    save_csv(given / "twice.csv", ["id", *head], [["1", "1", "0", "0"]] * 200)
    save_csv(given / "ids.csv", ["id", *head], [[f"x{row}"[: row + 1], "1", "0", "0"] for row in range(5)])
    save_csv(given / "part.csv", ["id", *head], [["0", "1", "0", "0"]])
    save_csv(given / "i.csv", ["is_label_issue"], [["True"]])
    (given / "p.txt").touch()
    before = sorted((given / "runs").iterdir())
    result = run_cli("clean", "table.csv", *arguments, cwd=given)
    assert message in words(error_message(result))
    assert sorted((given / "runs").iterdir()) == before
