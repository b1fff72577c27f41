"""``permll.clean(estimator=...)``: findings of cross-validated estimators in a run folder."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import permll
from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from permll.functional.label_errors import find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.training import Callback, Run, load_predictor
from tests.helpers.cleaning_files import KINDS, write_dataset
from tests.helpers.mislabeled_data import CLASSES, mislabeled

READING: dict[str, dict[str, str]] = {"texts.csv": {"text": "words", "label": "kind"}}


class Messages(Callback):
    """Collects messages; stops at one of them."""

    def __init__(self, stop: str = "none") -> None:
        self.texts: list[str] = []
        self.stop = stop

    def on_message(self, text: str) -> None:
        self.texts.append(text)
        if text.startswith(self.stop):
            raise KeyboardInterrupt


def clean(source: Any, out: Any, estimator: Any = "logistic_regression", **options: Any) -> Findings:
    name = Path(source).name if isinstance(source, str | Path) else ""
    return permll.clean(source, estimator=estimator, out=out, **{"callbacks": []} | READING.get(name, {}) | options)


def recall(found: Findings, wrong: set[str]) -> float:
    return len(wrong & {found.ids[row] for row in np.flatnonzero(found.is_issue)}) / len(wrong)


@pytest.mark.parametrize("kind", ["texts", "table", "vectors"])
@pytest.mark.parametrize("estimator", ["hist_gradient_boosting", "logistic_regression+naive_bayes"])
def test_estimators_find_wrong_labels_and_are_recorded(kind: str, estimator: str, tmp_path: Path) -> None:
    wrong = write_dataset(kind, tmp_path)
    found = clean(
        tmp_path / KINDS[kind][0], tmp_path / "run", estimator, seed=3, encoder="tfidf" if kind == "texts" else None
    )
    assert recall(found, wrong) > 0.5
    assert found.is_issue.sum() < 2 * len(wrong)
    run = Run(tmp_path / "run")
    assert (run.recipe.estimator.name, run.recipe.estimator.folds, run.recipe.training.seed) == (estimator, 5, 3)
    assert found.metadata["estimator"] == {"name": estimator, "folds": 5, "given": "", "seed": 3}
    assert run.findings.head(None) == found.head(None)
    assert found.texts == () if kind != "texts" else len(found.texts) == 200
    assert permll.estimate_noise(run).rate == pytest.approx(found.noise_rate)
    page = (run.folder / "report.html").read_text()
    assert estimator in page
    assert "Epochs" not in page
    assert not (run.folder / "checkpoints").exists()


def test_verdict_is_that_of_find_errors(tmp_path: Path) -> None:
    import torch

    known = mislabeled()
    found = clean(known.values, tmp_path / "run", "naive_bayes", labels=known.labels)
    with np.load(tmp_path / "run" / "cross_validation.npz") as saved:
        probs = torch.from_numpy(saved["probs"])
    x = (known.values - known.values.mean(0)) / known.values.std(0)
    labels = torch.from_numpy(known.given.astype(np.int64))
    votes = neighbor_votes(torch.from_numpy(x.astype(np.float32)), labels, 3)
    errors = find_errors(add_votes(probs.clamp_min(1e-12).log(), votes, labels), labels)
    np.testing.assert_allclose(found.label_quality, errors.quality, atol=1e-4)
    assert found.noise_rate == pytest.approx(errors.rate, abs=1e-4)


def test_finished_run_is_only_read_and_another_estimator_is_refused(tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    source, out = tmp_path / "table.csv", tmp_path / "run"
    first = clean(source, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    messages = Messages()
    assert clean(source, out, callbacks=[messages]).head(None) == first.head(None)
    assert permll.clean(out, callbacks=[messages]).head(None) == first.head(None)
    assert messages.texts == []
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    for other in ("naive_bayes", "none"):
        with pytest.raises(ValueError, match="another recipe"):
            clean(source, out, other)
    with pytest.raises(ValueError, match="another recipe"):
        permll.clean(source, out=out, method="ce", callbacks=[])
    assert permll.clean(out, threshold=0.3, callbacks=[]).threshold == 0.3


def test_stopped_run_resumes_with_the_same_findings(tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    source, out = tmp_path / "table.csv", tmp_path / "run"
    whole = clean(source, tmp_path / "whole", "random_forest")
    with pytest.raises(KeyboardInterrupt):
        clean(source, out, "random_forest", callbacks=[Messages("fold 3 of 5")])
    assert not Run(out).finished
    messages = Messages()
    found = permll.clean(out, callbacks=[messages])
    assert [text.partition(":")[0] for text in messages.texts[1:]] == ["fold 4 of 5", "fold 5 of 5"]
    assert found.head(None) == whole.head(None)
    assert (out / "findings.csv").read_bytes() == (tmp_path / "whole" / "findings.csv").read_bytes()


def test_rows_added_before_resuming_are_checked(tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    source, out = tmp_path / "table.csv", tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        clean(source, out, callbacks=[Messages("fold 2 of 5")])
    with source.open("a") as file:
        file.write("0.1,0.2,red,ant\n")
    found = permll.clean(out, callbacks=[])
    assert len(found) == 201
    assert Run(out).labels.ids == tuple(map(str, range(201)))
    shutil.rmtree(out)
    assert clean(source, out).head(None) == found.head(None)


def test_objects_and_classes(tmp_path: Path) -> None:
    known = mislabeled()
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(20, min_samples_leaf=5))
    found = clean(known.values, tmp_path / "given", forest, labels=known.labels)
    assert recall(found, set(map(str, known.wrong))) > 0.7
    section = Run(tmp_path / "given").recipe.estimator
    assert section.name == "sklearn.pipeline.Pipeline"
    assert "min_samples_leaf=5" in section.given
    assert "min_samples_leaf=5" in (tmp_path / "given" / "report.html").read_text()
    assert clean(known.values, tmp_path / "given", forest, labels=known.labels).head(None) == found.head(None)
    with pytest.raises(ValueError, match="another recipe"):
        clean(known.values, tmp_path / "given", RandomForestClassifier(), labels=known.labels)
    by_path = clean(known.values, tmp_path / "path", "sklearn.naive_bayes:GaussianNB", labels=known.labels)
    by_object = clean(known.values, None, GaussianNB(), labels=known.labels)
    assert by_path.head(None) == by_object.head(None)


def test_object_must_be_passed_again_to_resume(tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    source, out = tmp_path / "table.csv", tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        clean(source, out, GaussianNB(), callbacks=[Messages("fold 2 of 5")])
    with pytest.raises(ValueError, match="passed as an object"):
        permll.clean(out, callbacks=[])
    assert len(clean(source, out, GaussianNB())) == 200


def test_gold_labels_are_never_issues_and_are_learned_from(tmp_path: Path) -> None:
    known = mislabeled(120)
    frame = pd.DataFrame(known.values, columns=[f"x{k}" for k in range(8)]).assign(label=known.labels)
    frame["gold"] = [row in known.wrong or row < 10 for row in range(120)]
    found = permll.clean(frame, gold="gold", estimator="naive_bayes", out=tmp_path / "run", callbacks=[])
    assert found.is_reviewed.tolist() == frame["gold"].tolist()
    assert not found.is_issue[found.is_reviewed].any()
    assert (found.label_quality[found.is_reviewed] == 1).all()
    with np.load(tmp_path / "run" / "cross_validation.npz") as saved:
        assert ((saved["fold"] == -1) == frame["gold"]).all()


def test_next_round_learns_from_decisions(tmp_path: Path) -> None:
    wrong = write_dataset("table", tmp_path)
    first = clean(tmp_path / "table.csv", tmp_path / "run", "random_forest")
    decisions = Decisions(tmp_path / "run")
    reviewed = [one for one in first.head(12) if one.is_issue]
    for one in reviewed:
        verdict, label = ("accept", one.proposed_label) if one.id in wrong else ("keep", one.given_label)
        decisions.add(one.id, verdict, label, "ann", expected=None)
    found = permll.clean(previous=tmp_path / "run", callbacks=[])
    run = Run(tmp_path / "run-round2")
    assert run.recipe.estimator == Run(tmp_path / "run").recipe.estimator
    assert {found.ids[row] for row in np.flatnonzero(found.is_reviewed)} == {one.id for one in reviewed}
    assert found.metadata["earlier"]["reviewed"] == len(reviewed)
    assert not found.is_issue[found.is_reviewed].any()
    network = permll.clean(previous=tmp_path / "run", out=tmp_path / "network", method="ce", epochs=1, callbacks=[])
    assert (network.metadata["method"], Run(tmp_path / "network").recipe.estimator) == ("ce", None)
    assert len(Run(tmp_path / "network").labels.validation_ids) > 20
    again = permll.clean(tmp_path / "run-round2", callbacks=[Messages()])
    assert again.head(None) == found.head(None)
    fixed = permll.apply(run.folder, auto=True, out=tmp_path / "fixed.csv")
    assert fixed is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 3}, "trains no network, so remove 1 setting"),
        ({"method": "ce"}, "trains no network"),
        ({"overrides": {"optimizer.lr": 0.1}}, "trains no network"),
        ({"overrides": {"data.noise": "sym:0.2"}}, "remove data.noise"),
        ({"overrides": {"estimator.folds": 1}}, "estimator.folds is 1"),
        ({"overrides": {"training.devices": 2}}, "in one process"),
        ({"estimator": "magic"}, "unknown estimator 'magic'"),
    ],
)
def test_settings_without_a_meaning_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    known = mislabeled(30)
    with pytest.raises(ValueError, match=message):
        clean(known.values, tmp_path / "run", labels=known.labels, **{"estimator": "naive_bayes"} | options)
    assert not (tmp_path / "run").exists()


def test_pixels_can_be_checked_and_files_need_a_backbone(tmp_path: Path) -> None:
    found = clean("digits", None, "random_forest")
    assert len(found) > 1000
    for row in range(30):
        (tmp_path / "images" / CLASSES[row % 3]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 300), (row, 0, 0)).save(tmp_path / "images" / CLASSES[row % 3] / f"{row}.png")
    with pytest.raises(ValueError, match="an estimator needs vectors"):
        clean(tmp_path / "images", tmp_path / "run", backbone="none")


def test_few_rows_and_rare_classes(tmp_path: Path) -> None:
    known = mislabeled(12)
    labels = [*known.labels[:-1], "rare"]
    found = clean(known.values, None, "logistic_regression+random_forest", labels=labels, rare="keep")
    assert len(found) == 12
    assert np.isfinite(found.label_quality).all()
    two = clean([[0.0], [1.0]], None, "naive_bayes", labels=["a", "b"], rare="keep")
    assert np.isfinite(two.label_quality).all()


def test_run_has_no_network_to_predict_with(tmp_path: Path) -> None:
    known = mislabeled(60)
    clean(known.values, tmp_path / "run", "naive_bayes", labels=known.labels)
    with pytest.raises(FileNotFoundError, match="has no network, since naive_bayes checked its labels"):
        load_predictor(tmp_path / "run")


@pytest.mark.parametrize(
    "options", [{"epochs": 1}, {"method": "ce"}, {"estimator": "none"}, {"overrides": {"optimizer.lr": 0.1}}]
)
def test_settings_of_a_network_train_one(options: dict[str, Any], tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    found = permll.clean(
        tmp_path / "table.csv", out=tmp_path / "run", callbacks=[], **{"overrides": {"training.epochs": 1}} | options
    )
    assert Run(tmp_path / "run").recipe.estimator is None
    assert "estimator" not in found.metadata
    assert len(load_predictor(tmp_path / "run").classes) == 3


def test_defaults_depend_on_the_kind_of_data(tmp_path: Path) -> None:
    for kind in ("table", "texts"):
        write_dataset(kind, tmp_path)
    permll.clean(tmp_path / "table.csv", out=tmp_path / "table", callbacks=[])
    permll.clean(tmp_path / "texts.csv", out=tmp_path / "texts", callbacks=[], encoder="tfidf", **READING["texts.csv"])
    known = mislabeled()
    permll.clean(known.values, known.labels, out=tmp_path / "vectors", callbacks=[], overrides={"training.seed": 1})
    names = {kind: Run(tmp_path / kind).recipe.estimator for kind in ("table", "texts", "vectors")}
    assert names["table"].name == "logistic_regression+random_forest"
    assert names["texts"].name == "logistic_regression+naive_bayes"
    assert names["vectors"] is None


def test_few_rows_train_a_network(tmp_path: Path) -> None:
    frame = pd.DataFrame(mislabeled(49).values).add_prefix("x").assign(label=mislabeled(49).labels)
    permll.clean(frame, label="label", out=tmp_path / "few", callbacks=[])
    assert Run(tmp_path / "few").recipe.estimator is None


def test_run_of_a_network_is_read_whatever_the_default_is_now(tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    old = permll.clean(tmp_path / "table.csv", out=tmp_path / "run", estimator="none", callbacks=[])
    again = permll.clean(tmp_path / "table.csv", out=tmp_path / "run", callbacks=[Messages()])
    assert again.head(None) == old.head(None)
    second = permll.clean(tmp_path / "table.csv", out=tmp_path / "default", callbacks=[])
    with pytest.raises(ValueError, match="another recipe"):
        permll.clean(tmp_path / "table.csv", out=tmp_path / "default", estimator="none", callbacks=[])
    assert second.metadata["estimator"]["name"] == "logistic_regression+random_forest"
