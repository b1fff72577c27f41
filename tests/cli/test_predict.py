"""``permll predict``, run as the process a user would start, and for its other forms and refusals in this one."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from permll.data import load
from permll.training import Run
from permll.training.predictor import load_predictor
from tests.cli.conftest import Inside
from tests.cli.test_commands import run
from tests.helpers.toy_training import quick_recipe
from tests.training.test_export import own, trained_run


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.set_num_threads(1)
    return trained_run(quick_recipe(), tmp_path_factory.mktemp("digits") / "run")[0]


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table that is no longer there, beside a table of new rows."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("flowers")
    generator = np.random.default_rng(0)
    kind = np.arange(60) % 2
    frame = pl.DataFrame(
        {
            "length": (3.0 * kind + generator.normal(size=60)).round(2),
            "colour": [("white", "blue")[k] if row % 5 else "" for row, k in enumerate(kind)],
            "flower": [("daisy", "iris")[k] for k in kind],
        }
    )
    frame.write_csv(folder / "train.csv")
    recipe = own(data__source=str(folder / "train.csv"), data__options={"label": "flower"}, training__epochs=10)
    trained_run(recipe, folder / "run")
    (folder / "train.csv").rename(folder / "new.csv")
    return folder


def test_a_built_in_set_as_csv(digits: Run, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    shown = run("predict", digits.folder, "digits", "--split", "test", "--out", out, "--all")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == ""
    with out.open() as file:
        rows = list(csv.DictReader(file))
    test = load("digits", split="test")
    expected = load_predictor(digits).predict(test.inputs)
    assert list(rows[0]) == ["id", "predicted", "probability", "given", *(f"p_{name}" for name in test.classes)]
    assert tuple(row["id"] for row in rows) == test.ids
    assert [row["predicted"] for row in rows] == [test.classes[place] for place in expected.argmax(1).tolist()]
    found = torch.tensor([[float(row[f"p_{name}"]) for name in test.classes] for row in rows])
    assert torch.allclose(found, expected, atol=2e-6)
    accuracy = digits.result["final"]["test_accuracy"]
    assert f"{round(450 * accuracy)} of 450 predictions agree with the label." in shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]


def test_a_table_as_json_without_the_training_data(flowers: Path, inside: Inside) -> None:
    shown = inside("predict", flowers / "run", flowers / "new.csv", "--json", "--label", "flower")
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)
    assert list(rows[0]) == ["id", "predicted", "probability", "given"]
    assert len(rows) == 60
    right = sum(row["predicted"] == row["given"] for row in rows)
    assert right > 50
    assert shown.stderr.strip() == f"{right} of 60 predictions agree with the label."


def test_an_unfinished_run_says_so(flowers: Path, tmp_path: Path, inside: Inside) -> None:
    shutil.copytree(flowers / "run", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    shown = inside("predict", tmp_path / "run", flowers / "new.csv")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0] == "id,predicted,probability"
    assert len(shown.stdout.splitlines()) == 61
    assert "is not finished: this is its network after epoch 10 of 10." in shown.stderr


def test_what_does_not_fit_is_one_sentence(digits: Run, flowers: Path, tmp_path: Path, inside: Inside) -> None:
    np.save(tmp_path / "large.npy", np.zeros((3, 28, 28), np.uint8))
    pl.DataFrame({"length": [1.0]}).write_csv(tmp_path / "short.csv")
    wrong = {
        (
            str(digits.folder),
            str(tmp_path / "large.npy"),
        ): "the inputs are images of 1 x 28 x 28, but the network was trained on images of 1 x 8 x 8.",
        (
            str(flowers / "run"),
            str(tmp_path / "short.csv"),
        ): f"{tmp_path / 'short.csv'} lacks 1 column (colour) that the "
        "network was trained on; it has 1 column (length).",
        (str(tmp_path), "digits"): f"{tmp_path} is no run: give a folder that permll train made.",
        (
            str(digits.folder),
            "digits",
            "--out",
            str(tmp_path / "no" / "x.csv"),
        ): f"there is no folder {tmp_path / 'no'} to write x.csv to: make it first.",
    }
    for arguments, message in wrong.items():
        shown = inside("predict", *arguments)
        assert (shown.returncode, shown.stdout, shown.stderr) == (1, "", f"permll: {message}\n")
