"""Data with several annotators: from their answers to a corrected file, in Python."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import permll
from permll.cleaning.annotations import NETWORK, annotator_quality, is_disputed, wilson_interval
from permll.cleaning.apply.api import apply
from permll.cleaning.review_decisions import Decisions
from permll.data.annotations import Annotations
from permll.findings import Findings
from permll.functional.multiple_annotators import Answers
from tests.helpers.annotated_files import ACCURACY, Annotated, annotated, write_long, write_wide
from tests.helpers.mislabeled_data import CLASSES


@pytest.fixture(scope="module")
def data() -> Annotated:
    return annotated()


def clean(*args: Any, **options: Any) -> Findings:
    return permll.clean(*args, epochs=12, callbacks=[], **options)


def right(findings: Findings, numbers: Any, true: Any) -> float:
    names = [findings.classes[k] for k in numbers.tolist()]
    return float(np.mean([name == CLASSES[k] for name, k in zip(names, true.tolist(), strict=True)]))


def named(answers: Any) -> Any:
    return [[CLASSES[k] if k >= 0 else None for k in row] for row in answers.tolist()]


@pytest.fixture(scope="module")
def wide(data: Annotated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    write_wide(folder, data)
    findings = clean(folder / "wide.csv", annotators="ann_*", out=folder / "run")
    first, second = findings.head(2)
    decisions = Decisions(folder / "run")
    decisions.add(first.id, "choose", "ant", "Ada", expected=0)
    decisions.add(second.id, "drop", second.given_label, "Ada", expected=0)
    return folder


def test_consensus_is_judged_by_annotators_and_network(wide: Path, data: Annotated) -> None:
    findings = Findings.load(wide / "run")
    people = right(findings, findings.given_labels, data.true)
    assert people < right(findings, findings.proposed_labels, data.true) - 0.05
    assert findings.noise_rate == pytest.approx(1 - people, abs=0.06)
    wrong = np.array([findings.classes[k] for k in findings.given_labels]) != np.array(CLASSES)[data.true]
    assert np.median(findings.label_quality[wrong]) < 0.2 < 0.8 < np.median(findings.label_quality[~wrong])
    quality = findings.metadata["annotators"]
    assert quality[0]["annotator"] == "ann_5"
    assert quality[-1]["annotator"] == NETWORK
    for one in quality[:-1]:
        a = list(ACCURACY).index(one["annotator"])
        answered = data.answers[:, a] >= 0
        accuracy = float((data.answers[:, a] == data.true)[answered].mean())
        assert one["answers"] == int(answered.sum())
        assert one["accuracy"] == pytest.approx(accuracy, abs=0.06)
        assert one["low"] < one["accuracy"] < one["high"]
    disputed = {f"s{row}" for row, cells in enumerate(map(data.cells, range(240))) if len({*cells} - {""}) > 1}
    assert disputed <= {findings.ids[row] for row in range(240) if "its annotators disagree" in findings[row].reason}


def test_resumed_run_reads_the_answers_again(wide: Path) -> None:
    first = Findings.load(wide / "run")
    again = permll.clean(wide / "run", threshold=0.99999, callbacks=[])
    assert again.metadata["annotators"] == first.metadata["annotators"]
    assert int(again.is_issue.sum()) > int(first.is_issue.sum())
    assert 'id="annotators"' in (wide / "run" / "report.html").read_text()


def test_corrected_file_has_a_label_column_and_the_answers(wide: Path, data: Annotated, tmp_path: Path) -> None:
    findings = Findings.load(wide / "run")
    result = apply(wide / "run", tmp_path / "fixed.csv", auto=True)
    with (tmp_path / "fixed.csv").open(newline="") as file:
        lines = {line["id"]: line for line in csv.DictReader(file)}
    assert len(lines) == 239
    row = int(findings.order[0])
    fixed = lines[findings.ids[row]]
    assert (fixed["label"], fixed["label_source"]) == ("ant", "chosen")
    assert [fixed[name] for name in ACCURACY] == data.cells(row)
    given = {name: findings.classes[k] for name, k in zip(findings.ids, findings.given_labels.tolist(), strict=True)}
    assert all(line["label_original"] == given[name] for name, line in lines.items())
    assert all(line["label"] == given[name] for name, line in lines.items() if line["label_source"] == "given")
    again = clean(tmp_path / "fixed.csv", annotators="ann_*", out=tmp_path / "again")
    (kept,) = (one for one in again.head(None) if one.id == findings.ids[row])
    assert (kept.given_label, kept.reason) == ("ant", "a person reviewed it")
    (command,) = result.commands
    assert "annotators" not in command
    assert 'data.options.features=["size", "weight", "height"]' in command


def test_next_round_keeps_reviewed_labels(wide: Path) -> None:
    found = permll.clean(previous=wide / "run", out=wide / "round2", callbacks=[])
    first = Findings.load(wide / "run")
    assert found[int(first.order[0])].reason == "a person reviewed it"
    assert found.metadata["annotators"][0]["annotator"] == "ann_5"
    assert 0 <= (found.noise_rate or 0) < 0.5


@pytest.mark.parametrize("kind", ["array", "frame", "names", "long"])
def test_answers_in_memory(kind: str, data: Annotated, tmp_path: Path) -> None:
    table = data.answers
    names = named(table)
    long = [(row, a, names[row][a]) for row in range(240) for a in range(5) if names[row][a]]
    answers: Any = {
        "array": table,
        "frame": pd.DataFrame(table, columns=list(ACCURACY)).replace(-1, np.nan),
        "names": names,
        "long": pd.DataFrame(long, columns=["id", "annotator", "label"]),
    }[kind]
    found = clean(data.values, annotations=answers, out=tmp_path / "run")
    assert len(found.metadata["annotators"]) == 6
    if kind in ("names", "long"):
        assert right(found, found.proposed_labels, data.true) > 0.9
    again = clean(data.values, annotations=answers, out=tmp_path / "run")
    np.testing.assert_array_equal(again.label_quality, found.label_quality)


def test_answers_in_memory_beside_a_file(data: Annotated, tmp_path: Path) -> None:
    vectors, path = write_long(tmp_path, data)
    by_file = clean(vectors, annotations=path, annotation_columns=["item", "worker", "answer"], out=tmp_path / "file")
    assert Path(by_file.metadata["source"]) == vectors
    in_memory = clean(vectors, annotations=named(data.answers), out=tmp_path / "memory")
    assert in_memory.metadata["source"] == ""
    np.testing.assert_allclose(in_memory.label_quality, by_file.label_quality, atol=1e-4)
    moved = tmp_path / "answers.csv"
    moved.rename(tmp_path / "elsewhere.csv")
    with pytest.raises(FileNotFoundError, match=r"no such file: .*answers.csv"):
        apply(tmp_path / "file", tmp_path / "fixed.npz", auto=True, min_probability=0.1)


def test_own_labels_of_a_folder_are_corrected_to_the_consensus(tmp_path: Path) -> None:
    from PIL import Image

    rng, lines = np.random.default_rng(0), ["id,annotator,label"]
    for row in range(120):
        true = row % 2
        folder = ("cat", "dog")[true if row >= 8 else 1 - true]  # eight are in the wrong folder
        pixels = rng.integers(0, 80, (8, 8, 3)) + np.eye(3, dtype=int)[true] * 150
        path = tmp_path / "photos" / folder / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
        lines += [f"{folder}/{row}.png,{who},{('cat', 'dog')[true]}" for who in ("ann", "bob")]
    (tmp_path / "answers.csv").write_text("\n".join(lines) + "\n")
    clean(tmp_path / "photos", annotations=tmp_path / "answers.csv", backbone="none", out=tmp_path / "run")
    findings = Findings.load(tmp_path / "run")
    Decisions(tmp_path / "run").add(findings.ids[20], "keep", findings[20].given_label, "Ada", expected=0)
    apply(tmp_path / "run", tmp_path / "fixed")
    for row in range(120):
        name = f"{row}.png"
        assert (tmp_path / "fixed" / ("cat", "dog")[row % 2] / name).exists()


@given(st.integers(0, 2**31))
def test_quality_matches_loops(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(-1, 3, (20, 4), generator=generator)
    table[0] = torch.tensor([0, 1, 2, 0])
    posterior = torch.rand(20, 3, generator=generator).softmax(1)
    labels = torch.randint(3, (20,), generator=generator)
    log_p = torch.rand(20, 3, generator=generator)
    log_p[::2] = torch.nan
    annotations = Annotations(("a", "b", "c", "d"), Answers.from_table(table, 3))
    found = annotator_quality(annotations, posterior, labels, ["x", "y", "z"], log_p)
    columns = {name: table[:, i].tolist() for i, name in enumerate("abcd")}
    columns[NETWORK] = [-1 if n % 2 == 0 else int(log_p[n].argmax()) for n in range(20)]
    assert [one["annotator"] for one in found[:-1]] == sorted(
        "abcd", key=lambda name: next(one["accuracy"] for one in found if one["annotator"] == name)
    )
    for one in found:
        given = [(n, y) for n, y in enumerate(columns[one["annotator"]]) if y >= 0]
        accuracy = sum(float(posterior[n, y]) for n, y in given) / len(given)
        assert one["accuracy"] == pytest.approx(accuracy, abs=1e-4)
        assert one["agreement"] == pytest.approx(sum(int(labels[n]) == y for n, y in given) / len(given), abs=1e-4)
        counts = {
            (k, y): sum(float(posterior[n, k]) for n, z in given if z == y)
            for k in range(3)
            for y in range(3)
            if k != y
        }
        best = max(counts.values())
        confusion = one["confusion"]
        assert (confusion is None) == (best < 0.5)
        assert confusion is None or confusion["count"] == pytest.approx(best, abs=0.06)
    disputed = [any(y >= 0 and y != int(labels[n]) for y in row) for n, row in enumerate(table.tolist())]
    assert is_disputed(annotations, labels).tolist() == disputed


def test_wilson_interval_matches_its_definition() -> None:
    for fraction, count in ((0.0, 3), (0.5, 10), (0.93, 200), (1.0, 5)):
        for limit in wilson_interval(fraction, count):  # where the score test is exactly at 1.96
            distance = abs(fraction - limit)
            assert distance == pytest.approx(1.96 * (limit * (1 - limit) / count) ** 0.5, abs=1e-9)
