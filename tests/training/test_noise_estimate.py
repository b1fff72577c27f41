"""``estimate_noise``: of runs and of predicted probabilities."""

from pathlib import Path

import pytest
import torch

import permll
from permll.training.noise_estimate import ESTIMATORS, NOISE_ESTIMATE
from permll.training.recipe_files import load_recipe
from permll.training.run import Run
from permll.training.train import train
from tests.helpers.toy_training import StopAfter, quick_recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Digits with 40 % wrong labels."""
    out = tmp_path_factory.mktemp("noise") / "run"
    return train(method="permll", recipe="tiny/digits", out=out, overrides={"training.evaluate_every": 1000})


def test_estimate_noise_of_run(run: Run) -> None:
    truth = 1 - run.result["final"]["correction_accuracy_before"]
    found = permll.estimate_noise(run)
    assert found.by == "held_out"
    assert found.rate == pytest.approx(truth, abs=0.12)
    assert found.interval[0] < found.rate < found.interval[1]
    torch.testing.assert_close(found.transition.sum(1), torch.ones(10, dtype=torch.float64))
    assert found.transition.diagonal().mean() > 0.4
    assert found.joint is not None
    assert 1 - found.joint.trace().item() == pytest.approx(found.rate)
    assert found.classes == tuple(map(str, range(10)))
    assert f"{100 * found.rate:.1f} % of the labels are wrong" in str(found)


def test_estimate_noise_by_every_estimator(run: Run) -> None:
    for name in ("held_out", "corrected_labels", "mixture"):
        assert name in ESTIMATORS
        found = permll.estimate_noise(run.folder, by=name)
        assert found.by == name
        assert 0 < found.rate < 0.7
    with pytest.raises(ValueError, match="no estimate by 'guess': it has held_out, corrected_labels, mixture"):
        permll.estimate_noise(str(run.folder), by="guess")
    with pytest.raises(ValueError, match="gives only a rate"):
        _ = permll.estimate_noise(run, by="mixture").transition


def test_estimate_noise_without_held_out_rows(tmp_path: Path) -> None:
    recipe = load_recipe("tiny/digits", {"training.epochs": 4})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"validation": None})})
    run = train(recipe=recipe, out=tmp_path / "run")
    assert permll.estimate_noise(run).by == "corrected_labels"


def test_estimate_noise_refuses_run_without_estimate(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run: pass a folder"):
        permll.estimate_noise(tmp_path)
    begun = train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[StopAfter(3)])
    with pytest.raises(FileNotFoundError, match="has no noise estimate yet: permll train"):
        permll.estimate_noise(begun)


def test_estimate_noise_of_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.randint(5, (800,), generator=generator)
    p = (3 * torch.nn.functional.one_hot(clean, 5) + torch.rand(800, 5, generator=generator)).softmax(1)
    wrong = torch.rand(800, generator=generator) < 0.25
    labels = torch.where(wrong, (clean + 1) % 5, clean)
    found = permll.estimate_noise(p, labels)
    assert found.interval[0] < wrong.double().mean() < found.interval[1]
    for i in range(5):
        assert found.transition[i, (i + 1) % 5] == pytest.approx(0.25, abs=0.1)
    for array in (p.numpy(), p.numpy().astype("float64")):
        assert permll.estimate_noise(array, labels.numpy()).rate == pytest.approx(found.rate, abs=1e-4)
    assert permll.estimate_noise(p, labels.tolist()).rate == found.rate


EVEN = torch.full((4, 3), 1 / 3)
GIVEN = torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("p", "labels", "message"),
    [
        (EVEN, None, "need the given labels"),
        (EVEN, GIVEN[:3], r"got \(4, 3\) and \(3,\)"),
        (EVEN[:, 0], GIVEN, r"got \(4,\) and \(4,\)"),
        (EVEN[:0], GIVEN[:0], "N >= 1"),
        (EVEN, GIVEN + 1, "labels must be i"),
        (EVEN, GIVEN - 1, "labels must be i"),
        (EVEN, GIVEN.float(), "labels must be i"),
        (9 * EVEN, GIVEN, "apply softmax to logits first"),
        (EVEN * torch.nan, GIVEN, "each row must sum to 1"),
    ],
)
def test_estimate_noise_refuses_bad_probabilities(p: torch.Tensor, labels: torch.Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        permll.estimate_noise(p, labels)


def test_estimate_noise_of_probabilities_has_one_estimator() -> None:
    with pytest.raises(ValueError, match="by='mixture' needs a run"):
        permll.estimate_noise(EVEN, GIVEN, by="mixture")


def test_noise_estimate_file_is_small(run: Run) -> None:
    assert (run.folder / NOISE_ESTIMATE).stat().st_size < 20_000
