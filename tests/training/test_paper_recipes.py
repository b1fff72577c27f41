"""The recipes of tier paper: training steps on real data, resume from a checkpoint, and noise rates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from permll.noise import corrupt, named_noise
from permll.training.checkpoint import load_state, save_state
from permll.training.data_preparation import prepare_data
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe, recipe_names
from permll.training.train import build_trainer
from permll.training.trainer import Trainer
from tests.helpers.clothing1m_files import write_learnable_clothing1m
from tests.helpers.dataset_files import write_cifar_binary
from tests.helpers.real_data import real_cifar
from tests.helpers.tiny_encoders import import_torchvision

CIFAR = [name for name in recipe_names() if name.startswith("paper/cifar")]
# One of each data set and noise type: the others differ in the noise rate only.
TRAINED = [f"paper/{data}-{kind}-40" for data in ("cifar10", "cifar100") for kind in ("sym", "asym")]


@pytest.fixture
def clothing(tmp_path: Path) -> Path:
    return write_learnable_clothing1m(tmp_path)


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_cifar(tmp_path_factory)


@pytest.fixture(scope="module")
def cifar100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random images in the official layout: the real training set is not available."""
    root, random = tmp_path_factory.mktemp("cifar100"), np.random.default_rng(0)
    for name, rows in (("train", 50_000), ("test", 10_000)):
        fine = np.arange(rows) % 100
        images = random.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)
        write_cifar_binary(root / "cifar-100-binary" / f"{name}.bin", [fine // 5, fine], images)
    return root


def run_steps(trainer: Trainer, count: int) -> None:
    remaining = iter(range(count - 1, -1, -1))
    trainer.run(lambda trainer: trainer.stop() if next(remaining) == 0 else None, lambda _: None)
    trainer._stop_requested = False


def train_and_resume(recipe: Recipe, tmp_path: Path) -> Trainer:
    """Return a trainer after three steps, a checkpoint, and a fourth step that equals the uninterrupted one."""
    prepared = prepare_data(recipe)
    first = build_trainer(recipe, prepared)
    run_steps(first, 3)
    path = save_state(tmp_path / "state.safetensors", first.state_dict())
    run_steps(first, 1)
    expected = {key: value.clone() for key, value in first.method.networks["net"].state_dict().items()}
    second = build_trainer(recipe, prepared)
    second.load_state_dict(load_state(path))
    run_steps(second, 1)
    assert second.step == 4
    for key, value in second.method.networks["net"].state_dict().items():
        assert torch.equal(value, expected[key])
    return second


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_cifar_recipe_trains_and_resumes(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    root = request.getfixturevalue("cifar100" if "cifar100" in name else "cifar")
    recipe = load_recipe(name, {"data.root": str(root), "training.batch_size": 4})
    trainer = train_and_resume(recipe, tmp_path)
    assert len(trainer.data) == 45_000
    assert sum(value.numel() for value in trainer.method.networks["net"].parameters()) > 21_000_000


@pytest.mark.parametrize("name", CIFAR)
def test_cifar_recipes_differ_in_noise_rate_only(name: str) -> None:
    kind, _, percent = name.rpartition("-")
    recipe, trained = load_recipe(name), load_recipe(f"{kind}-40")
    assert f"{kind}-40" in TRAINED
    data = trained.data.model_copy(update={"noise": f"{(trained.data.noise or '').rpartition(':')[0]}:0.{percent[0]}"})
    assert recipe == trained.model_copy(update={"data": data, "title": trained.title.replace("40 %", f"{percent} %")})
    classes, rate = 100 if "cifar100" in name else 10, int(percent) / 100
    noise = named_noise(str(recipe.data.noise), classes, data_set=recipe.data.source)
    wrong = corrupt(np.arange(5000) % classes, noise, seed=0).rate  # below the rate: some labels are drawn unchanged
    assert 0.49 * rate < wrong < 1.01 * rate


@pytest.mark.parametrize("method", ["dividemix", "elr_plus", "unicon"])
def test_clothing1m_recipe_predicts_drawn_rows_only(method: str, clothing: Path) -> None:
    changes: dict[str, Any] = {"method.name": method, "method.draws": 24, "data.root": str(clothing)}
    changes |= {"views.resize": 16, "views.crop": 14, "training.batch_size": 8, "training.workers": 0}
    recipe = load_recipe("paper/clothing1m", changes | {"training.epochs": 3})
    trainer = build_trainer(
        recipe, prepare_data(recipe), lambda: nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 14))
    )
    predict_logits, num_predicted = trainer.predict_logits, []

    def recording_predict_logits(*names: str, rows: Tensor | None = None) -> Tensor:
        num_predicted.append(len(trainer.data) if rows is None else len(rows))
        return predict_logits(*names, rows=rows)

    trainer.predict_logits = recording_predict_logits  # type: ignore[assignment,method-assign]
    assert trainer.run(lambda _: None, lambda _: None)
    assert set(num_predicted) <= {24}
    assert len(trainer.data) == 120


@pytest.mark.slow
def test_clothing1m_recipe_trains_and_resumes(clothing: Path, tmp_path: Path) -> None:
    import_torchvision()
    changes = {"data.root": str(clothing), "network.pretrained": False, "training.batch_size": 4, "training.workers": 0}
    trainer = train_and_resume(load_recipe("paper/clothing1m", changes), tmp_path)
    assert int(trainer.method.steps) == 4
    assert trainer.data.num_classes == 14
