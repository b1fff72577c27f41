"""Decisions read from an export of Label Studio."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from permll.cleaning.apply import apply, export, plan
from permll.cleaning.apply.label_studio import NO_CLASS
from permll.cleaning.apply.label_studio_import import read_annotations
from permll.cleaning.review_decisions import DECISIONS_FILE, Decisions
from permll.findings import Findings
from permll.training.run import Run

FIRST, LATER = "2024-05-01T12:00:00.123456Z", "2024-05-02T10:00:00.000000+02:00"


def annotation(*choices: str, user: Any = 7, at: str = FIRST, skipped: bool = False) -> dict[str, Any]:
    """Return an annotation as Label Studio exports it."""
    value = {"choices": list(choices)}
    result = [{"id": "x", "from_name": "label", "to_name": "sample", "type": "choices", "value": value}]
    return {
        "id": 1001,
        "completed_by": user,
        "result": result if choices else [],
        "was_cancelled": skipped,
        "ground_truth": False,
        "created_at": FIRST,
        "updated_at": at,
        "lead_time": 4.2,
    }


def write_export(run: Run, folder: Path, annotations: Mapping[str, list[dict[str, Any]]]) -> Path:
    """Write the tasks of a run as a project exports them, with annotations by sample id."""
    export(run, folder / "tasks.json", "label-studio", limit=10)
    tasks = json.loads((folder / "tasks.json").read_text())
    for number, task in enumerate(tasks, 1):
        task |= {"id": number, "project": 3, "annotations": annotations.get(task["data"]["id"], []), "drafts": []}
    path = folder / "export.json"
    path.write_text(json.dumps(tasks))
    return path


def test_annotations_become_decisions(run: Run, tmp_path: Path) -> None:
    findings = Findings.load(run.folder)
    others = [findings.ids[row] for row in findings.order[3:8].tolist()]
    annotations = {
        "3": [annotation("dog", user={"id": 7, "email": "ada@example.org"})],
        "4": [annotation("owl"), annotation("dog", at=LATER)],
        "5": [annotation("cat", skipped=True)],
        others[0]: [annotation(NO_CLASS)],
        others[1]: [annotation("ox", user=None)],
        others[2]: [annotation()],
    }
    decisions = read_annotations(write_export(run, tmp_path, annotations), findings)
    found = {name: (decision.verdict, decision.label, decision.reviewer) for name, decision in decisions.items()}
    assert found == {
        "3": ("accept", "dog", "ada@example.org"),
        "4": ("keep", "dog", "Label Studio user 7"),
        "5": ("unsure", "owl", "Label Studio user 7"),
        others[0]: ("drop", "", "Label Studio user 7"),
        others[1]: ("choose", "ox", ""),
        others[2]: ("unsure", findings[int(findings.order[5])].given_label, "Label Studio user 7"),
    }
    assert decisions["3"].at == "2024-05-01T12:00:00.123+00:00"
    assert decisions["4"].at == "2024-05-02T08:00:00.000+00:00"


def test_apply_merges_annotations_and_decisions_by_time(run: Run, tmp_path: Path) -> None:
    annotations = {
        "3": [annotation("dog")],
        "4": [annotation("owl", at="2199-01-01T00:00:00Z")],
        "5": [annotation(NO_CLASS)],
    }
    path, decisions = write_export(run, tmp_path, annotations), Decisions(run.folder)
    decisions.add("3", "keep", "cat", "Ada", expected=None)  # newer than the annotation
    decisions.add("4", "keep", "dog", "Ada", expected=None)
    log = decisions.log()
    applied = apply(run, tmp_path / "new.csv", annotations=path)
    assert applied.by_source == {"kept": 1, "accepted": 1, "dropped": 1}
    with applied.changes_path.open(newline="") as file:
        rows = [(row["id"], row["after"], row["reviewer"], row["at"]) for row in csv.DictReader(file)]
    assert rows == [
        ("4", "owl", "Label Studio user 7", "2199-01-01T00:00:00.000+00:00"),
        ("5", "", "Label Studio user 7", "2024-05-01T12:00:00.123+00:00"),
    ]
    assert decisions.log() == log


def test_annotations_need_no_decisions_in_the_run(run: Run, tmp_path: Path) -> None:
    path = write_export(run, tmp_path, {"3": [annotation("dog")]})
    planned = plan(run, annotations=path)
    assert [(each.id, each.after) for each in planned.corrections] == [("3", "dog")]
    assert not (run.folder / DECISIONS_FILE).exists()


def test_every_class_is_a_choice_of_the_tasks(run: Run, tmp_path: Path) -> None:
    write_export(run, tmp_path, {})
    config = (tmp_path / "tasks.xml").read_text()
    for name in ("cat", "dog", "owl", NO_CLASS):
        assert f'<Choice value="{name}" />' in config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ('{"a": 1}', r"is not an export of tasks of permll: choose the format JSON \(not JSON-MIN\)"),
        ('[{"id": 1, "label": "dog", "given_label": "cat"}]', "is not an export of tasks of permll"),
        ('[{"data": {"id": 3}, "annotations": []}]', "is not an export of tasks of permll"),
        ("[]", "has no annotations"),
        ('[{"data": {"id": "3"}, "annotations": []}]', "has no annotations"),
        ('[{"data": {"id": "nobody"}, "annotations": []}]', r"contains 1 sample \(nobody\) that the run does not have"),
        ('[{"data": {"id": "3", "given_label": "owl"}, "annotations": []}]', "has other given labels for 1 sample"),
        ('[{"data": {"id": "3"}, "annotations": [{"result": []}]}]', "has an annotation of 3 that cannot be read"),
        ('[{"data": {"id": "3"}, "annotations": ["x"]}]', "has an annotation of 3 that cannot be read"),
    ],
)
def test_other_files_are_refused(content: str, message: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        plan(run, annotations=path)
    assert "\n" not in str(error.value)


def test_bad_choices_and_missing_file_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.json does not exist: export the project"):
        plan(run, annotations=tmp_path / "none.json")
    path = write_export(run, tmp_path, {"3": [annotation("dog", "owl")]})
    with pytest.raises(ValueError, match=r"has several classes for 3 \(dog, owl\)"):
        plan(run, annotations=path)
    (tmp_path / "tasks.json").unlink()
    (tmp_path / "tasks.xml").unlink()
    path = write_export(run, tmp_path, {"3": [annotation("Dog")]})
    with pytest.raises(ValueError, match="'Dog' differs from 'dog' in case or form only"):
        plan(run, annotations=path)
