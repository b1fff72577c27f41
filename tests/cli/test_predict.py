"""``permll predict``."""

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
from permll.training.train import train
from tests.helpers.command_line import error_message, run_cli, run_process
from tests.helpers.toy_training import quick_recipe


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.set_num_threads(1)
    return train(recipe=quick_recipe(), out=tmp_path_factory.mktemp("digits") / "run")


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run whose training table was renamed to new.csv."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("flowers")
    generator = np.random.default_rng(0)
    kind = np.arange(60) % 2
    frame = pl.DataFrame(
        {
            "length": (3.0 * kind + generator.normal(size=60)).round(2),
            "color": [("white", "blue")[k] if row % 5 else "" for row, k in enumerate(kind)],
            "flower": [("daisy", "iris")[k] for k in kind],
        }
    )
    frame.write_csv(folder / "train.csv")
    recipe = quick_recipe(
        data__source=str(folder / "train.csv"),
        data__options={"label": "flower"},
        data__noise="",
        data__validation=None,
        views__weak=None,
        views__strong=None,
        training__epochs=10,
    )
    train(recipe=recipe, out=folder / "run")
    (folder / "train.csv").rename(folder / "new.csv")
    return folder


def test_predict_writes_csv_of_built_in_dataset(digits: Run, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    result = run_process("predict", digits.folder, "digits", "--split", "test", "--out", out, "--all")
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    with out.open() as file:
        rows = list(csv.DictReader(file))
    test = load("digits", split="test")
    expected = load_predictor(digits).predict(test.inputs)
    assert list(rows[0]) == ["id", "predicted", "probability", "given", *(f"p_{name}" for name in test.classes)]
    assert tuple(row["id"] for row in rows) == test.ids
    assert [row["predicted"] for row in rows] == [test.classes[index] for index in expected.argmax(1).tolist()]
    probabilities = torch.tensor([[float(row[f"p_{name}"]) for name in test.classes] for row in rows])
    assert torch.allclose(probabilities, expected, atol=2e-6)
    accuracy = digits.result["final"]["test_accuracy"]
    assert f"{round(450 * accuracy)} of 450 predictions agree with the label." in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]


def test_predict_prints_json_without_training_data(flowers: Path) -> None:
    result = run_cli("predict", flowers / "run", flowers / "new.csv", "--json", "--label", "flower")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert list(rows[0]) == ["id", "predicted", "probability", "given"]
    assert len(rows) == 60
    right = sum(row["predicted"] == row["given"] for row in rows)
    assert right > 50
    assert result.stderr.strip() == f"{right} of 60 predictions agree with the label."


def test_predict_warns_about_unfinished_run(flowers: Path, tmp_path: Path) -> None:
    shutil.copytree(flowers / "run", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    result = run_cli("predict", tmp_path / "run", flowers / "new.csv")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "id,predicted,probability"
    assert len(result.stdout.splitlines()) == 61
    assert "is unfinished: using the network after epoch 10 of 10." in result.stderr


def test_predict_refuses_bad_input_in_one_line(digits: Run, flowers: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", np.zeros((3, 28, 28), np.uint8))
    pl.DataFrame({"length": [1.0]}).write_csv(tmp_path / "short.csv")
    cases: list[tuple[tuple[str | Path, ...], list[str]]] = [
        ((digits.folder, tmp_path / "large.npy"), ["1 x 28 x 28", "1 x 8 x 8"]),
        ((flowers / "run", tmp_path / "short.csv"), ["short.csv", "1 column (color)"]),
        ((tmp_path, "digits"), [str(tmp_path), "run"]),
        ((digits.folder, "digits", "--out", tmp_path / "no" / "x.csv"), [f"{tmp_path / 'no'}", "does not exist"]),
    ]
    for arguments, phrases in cases:
        result = run_cli("predict", *arguments)
        message = error_message(result)
        assert all(phrase in message for phrase in phrases), message
        assert result.stdout == ""
