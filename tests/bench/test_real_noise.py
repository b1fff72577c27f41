"""Files of real noisy labels, and training on them."""

from pathlib import Path

import numpy as np
import pytest

from permll.bench import collect, plan, run
from permll.bench.real_noise import unpack
from permll.data import load
from permll.noise import Corruption
from permll.noise.annotators import majority_vote


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """Return a file like LabelMe's: three clusters, and answers of five crowd workers with errors."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(3, 6))
    y = {part: np.arange(rows) % 3 for part, rows in (("train", 120), ("test", 60))}
    arrays = {f"x_{part}": centers[labels] + 0.3 * random.normal(size=(len(labels), 6)) for part, labels in y.items()}
    answers = np.where(random.random((120, 5)) < 0.7, y["train"][:, None], random.integers(0, 3, (120, 5)))
    answers[random.random((120, 5)) < 0.5] = -1
    answers[7] = -1  # no answer
    path = tmp_path / "crowd.npz"
    np.savez(path, answers=answers, **arrays, **{f"y_{part}": labels for part, labels in y.items()})
    return path


def test_unpack_draws_one_answer_per_sample_and_seed(crowd: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        unpack(crowd, tmp_path, seed)
    with np.load(crowd) as arrays:
        answers, true = arrays["answers"], arrays["y_train"]
    rows = np.array([row for row in range(120) if (answers[row] >= 0).any()])
    assert 7 not in rows
    folder = tmp_path / "data" / "crowd"
    records = [Corruption.load(folder / f"noise-{seed}.npz") for seed in (1, 2)]
    for record in records:
        assert (record.clean == true[rows]).all()
        assert all(given in answers[row] for given, row in zip(record.noisy, rows, strict=True))
        assert 0.05 < record.rate < 0.5
    assert (records[0].noisy != records[1].noisy).any()
    train, test = (load(folder / f"{part}.npz") for part in ("train", "test"))
    assert (train.labels.numpy() == true[rows]).all()
    assert (len(test), test.classes) == (60, train.classes)


def test_unpack_takes_the_majority_of_rules(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rules = np.where(random.random((50, 4)) < 0.6, random.integers(0, 2, (50, 4)), -1)
    y = np.arange(50) % 2
    words = np.array([f"question {row}" for row in range(50)])
    path = tmp_path / "trec_rules.npz"
    np.savez(path, text_train=words, y_train=y, rules_train=rules, text_test=words, y_test=y)
    unpack(path, tmp_path, seed=3)
    record = Corruption.load(tmp_path / "data" / "trec" / "noise-3.npz")
    labels = majority_vote(rules, 2, seed=3)
    assert (record.noisy == labels[labels >= 0]).all()


def test_unpack_refuses_file_without_annotations(tmp_path: Path) -> None:
    np.savez(tmp_path / "clean.npz", x_train=np.zeros((4, 2)), y_train=np.zeros(4))
    with pytest.raises(ValueError, match=r"clean.npz lacks the arrays x_test, y_test, answers"):
        unpack(tmp_path / "clean.npz", tmp_path, 1)


@pytest.mark.slow
def test_run_trains_and_evaluates_on_real_noise(crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = {"training.epochs": 2, "training.threads": 1}
    grid = plan("table2", tier="tiny", methods=["permll"], seeds=[1], out="out", data=[crowd], overrides=overrides)
    assert run(grid) == []
    (row,) = collect("out")
    assert (row["data"], row["noise"], row["method"], row["tier"]) == ("crowd", "real", "permll", "tiny")
    clean = Corruption.load(Path("out/data/crowd/noise-1.npz"))
    assert row["right_before"] == pytest.approx(1 - clean.rate, abs=0.05)  # a tenth of the samples is held out
    assert isinstance(row["last"], float)
    assert isinstance(row["auroc"], float)
