"""Label issues of cleanlab become findings; end to end with cleanlab itself, if it is installed."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from permll.cleaning.apply.api import apply
from permll.cleaning.cleanlab_issues import findings_from_cleanlab
from permll.findings import Findings
from permll.report.findings_text import findings_facts
from tests.helpers.cleaning_files import write_dataset
from tests.helpers.command_line import error_message, run_cli, run_process, words
from tests.helpers.given_predictions import accept_flagged, probabilities, row_of, wrong_rows
from tests.helpers.mislabeled_data import CLASSES, mislabeled


def issues(rows: int = 200, **changes: Any) -> pd.DataFrame:
    """Return the frame of CleanLearning for the data of ``cleaning_files``; without cleanlab."""
    known, p = mislabeled(), probabilities(map(str, range(rows)))
    quality = p[np.arange(rows), known.given[:rows]]
    columns = {
        "is_label_issue": quality < 0.5,
        "label_quality": quality,
        "given_label": known.given[:rows],
        "predicted_label": p.argmax(1),
    }
    return pd.DataFrame(columns | changes)


def as_datalab(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame that Datalab has for the same issues."""
    frame = frame.rename(columns={"label_quality": "label_score"})
    names = {name: frame[name].map(dict(enumerate(CLASSES))) for name in ("given_label", "predicted_label")}
    return frame.assign(**names)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_dataset("table", tmp_path)
    return tmp_path / "table.csv"


def test_flags_and_scores_are_those_of_cleanlab(table: Path) -> None:
    frame = issues()
    found = findings_from_cleanlab(frame, table)
    assert np.array_equal(found.is_issue, frame["is_label_issue"])
    assert np.allclose(found.label_quality, frame["label_quality"])
    assert np.array_equal(found.proposed_labels, frame["predicted_label"])
    differs = (frame["predicted_label"] != frame["given_label"]).to_numpy()
    expected = np.where(differs, 1 - frame["label_quality"], frame["label_quality"])
    assert np.allclose(found.confidence, expected)
    assert not found.conservative_confidence.any()
    assert found.noise_rate is None
    row = int(found.order[0])
    assert list(found.class_probs(row)) == [found[row].proposed_label, found[row].given_label]
    assert len(found.class_probs(int(found.order[-1]))) == 1
    first = found.head(1)[0]
    assert "cleanlab flags it" in first.reason
    assert first.label_quality == pytest.approx(frame["label_quality"][frame["is_label_issue"]].min(), abs=1e-6)


def test_flags_survive_a_file_and_do_not_depend_on_a_threshold(table: Path, tmp_path: Path) -> None:
    frame = issues(is_label_issue=np.arange(200) % 2 == 0)  # also labels of high quality
    found = findings_from_cleanlab(frame, table, out=tmp_path / "run")
    saved = Findings.load(tmp_path / "run")
    assert np.array_equal(saved.is_issue, found.is_issue)
    assert int(saved.is_issue.sum()) == 100
    assert findings_facts(saved)["flagged"] == 100
    assert (saved.rank[saved.is_issue] <= 100).all()


@pytest.mark.parametrize("form", ["subset", "shuffled", "ids", "names", "datalab", "polars"])
def test_forms_of_the_frame(form: str, table: Path) -> None:
    frame = issues()
    expected = findings_from_cleanlab(frame, table)
    flagged = frame[frame["is_label_issue"]].sort_values("label_quality")
    changed: Any = {
        "subset": flagged,
        "shuffled": frame.sample(frac=1, random_state=0),
        "ids": flagged.reset_index(names="id").astype({"id": str}),
        "names": flagged.rename(index=str),
        "datalab": as_datalab(frame),
        "polars": pl.from_pandas(frame),
    }[form]
    found = findings_from_cleanlab(changed, table)
    assert np.array_equal(found.is_issue, expected.is_issue)
    assert np.array_equal(found.proposed_labels[found.is_issue], expected.proposed_labels[found.is_issue])
    if len(changed) < 200:
        assert (found.label_quality[~found.is_issue] == 1).all()
    else:
        assert np.allclose(found.label_quality, expected.label_quality)


@pytest.mark.parametrize("name", ["issues.csv", "issues.parquet"])
@pytest.mark.parametrize("index", [True, False])
def test_files_of_the_frame(name: str, index: bool, table: Path) -> None:
    frame = as_datalab(issues())
    frame = frame[::-1] if index else frame
    path = table.with_name(name)
    if path.suffix == ".csv":
        frame.to_csv(path, index=index)
    else:
        frame.to_parquet(path, index=index)
    found = findings_from_cleanlab(path, table)
    assert np.array_equal(found.is_issue, issues()["is_label_issue"])


def test_numbers_that_are_also_names_are_told_by_the_given_labels() -> None:
    labels = np.tile([1, 2, 3], 10)
    frame = pd.DataFrame(
        {
            "is_label_issue": np.arange(30) == 4,
            "label_quality": 0.5,
            "given_label": labels - 1,  # class numbers, although 1 and 2 are names, too
            "predicted_label": np.where(np.arange(30) == 4, 0, labels - 1),
        }
    ).iloc[[3, 4]]
    found = findings_from_cleanlab(frame, np.random.rand(30, 2), labels=labels)
    (issue,) = [finding for finding in found.head(None) if finding.is_issue]
    assert (issue.id, issue.given_label, issue.proposed_label) == ("4", "2", "1")


def test_reviewed_labels_are_not_flagged(table: Path) -> None:
    gold = issues()["is_label_issue"].tolist()
    found = findings_from_cleanlab(issues(), table, gold=gold)
    assert not found.is_issue.any()
    assert (found.label_quality[np.array(gold)] == 1).all()


@pytest.mark.parametrize("kind", ["table", "images"])
def test_issues_lead_to_corrected_data(kind: str, tmp_path: Path) -> None:
    """The frame of cleanlab, through the command line as a process, to a corrected data set."""
    wrong = {row_of(id) for id in write_dataset(kind, tmp_path)}
    name = {"table": "table.csv", "images": "images"}[kind]
    frame = as_datalab(issues())
    if kind == "images":
        frame["id"] = [f"{label}/{row:03}.png" for row, label in enumerate(frame["given_label"])]
    frame.to_csv(tmp_path / "issues.csv", index=False)
    found = run_process("clean", name, "--issues", "issues.csv", "--out", "run", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    fixed = f"{name.removesuffix('.csv')}-fixed{Path(name).suffix}"
    assert found.stdout.splitlines()[-1] == f"Write the corrected data:  permll apply run --out {fixed}"
    automatic = run_cli("apply", "run", "--auto", "--out", fixed, cwd=tmp_path)
    assert error_message(automatic).startswith("no label of run changes without a review")
    assert accept_flagged(tmp_path / "run") == wrong
    applied = run_process("apply", "run", "--out", fixed, cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    assert wrong_rows(tmp_path / fixed) == set()
    report = (tmp_path / "run" / "report.html").read_text()
    assert "label issues of cleanlab" in report
    assert "--auto" not in report
    assert "flagged if at most" not in report
    assert "are estimated to be wrong" not in report


@pytest.mark.parametrize("source", ["CleanLearning", "Datalab"])
def test_cleanlab_itself(source: str, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("cleanlab", reason="no cleanlab here: pip install cleanlab")
    known = mislabeled()
    frame = _by_clean_learning() if source == "CleanLearning" else _by_datalab()
    found = findings_from_cleanlab(frame, table, out=tmp_path / "run")
    assert np.array_equal(found.is_issue, frame["is_label_issue"])
    accepted = accept_flagged(tmp_path / "run")
    assert len(accepted & known.wrong) >= 0.9 * len(known.wrong)
    apply(tmp_path / "run", tmp_path / "fixed.csv")
    assert wrong_rows(tmp_path / "fixed.csv") == (known.wrong - accepted) | (accepted - known.wrong)


def _by_clean_learning() -> pd.DataFrame:
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    known = mislabeled()
    learning = CleanLearning(LogisticRegression(), verbose=False)
    learning.find_label_issues(known.values, known.given)
    return learning.get_label_issues()


def _by_datalab() -> pd.DataFrame:
    pytest.importorskip("datasets", reason="no datasets here: pip install datasets")
    from cleanlab import Datalab

    lab = Datalab({"label": np.array(mislabeled().labels)}, label_name="label", verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cleanlab reports them as failures
        lab.find_issues(pred_probs=probabilities(map(str, range(200))), issue_types={"label": {}})
    return lab.get_issues("label")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_quality": None}, "has no column label_quality or label_score: save CleanLearning"),
        ({"is_label_issue": None, "predicted_label": None}, "no column is_label_issue and no column predicted_label"),
        ({"label_quality": 1.5}, "label_quality of issues must hold numbers from 0 to 1."),
        ({"label_quality": np.nan}, "label_quality of issues must hold numbers from 0 to 1."),
        ({"is_label_issue": "maybe"}, "is_label_issue of issues must hold true or false, got maybe."),
        ({"predicted_label": "dog"}, "labels that are not classes of"),
        ({"given_label": 0}, "given_label of issues differs from the labels of"),
    ],
)
def test_bad_frames_are_refused(changes: dict[str, Any], message: str, table: Path) -> None:
    frame = issues().assign(**changes)
    frame = frame.drop(columns=[name for name, value in changes.items() if value is None])
    with pytest.raises(ValueError, match=message):
        findings_from_cleanlab(frame, table)


def test_other_samples_are_refused(table: Path) -> None:
    with pytest.raises(ValueError, match=r"issues has 199 rows, but .*table.csv has 200 labeled samples"):
        findings_from_cleanlab(issues()[:199].reset_index(drop=True), table)
    with pytest.raises(ValueError, match="several rows of 1 sample"):
        findings_from_cleanlab(issues().rename(index={1: 0}), table)
    with pytest.raises(ValueError, match="has 0 rows"):
        findings_from_cleanlab(issues()[:0], table)
    with pytest.raises(TypeError, match="issues must be a data frame or a file of one, got list"):
        findings_from_cleanlab([1, 2], table)
    result = run_cli("clean", table, "--issues", table)
    assert "has no column is_label_issue" in words(error_message(result))
