"""Recipe settings that depend on the data."""

import torch

from permll.cleaning.auto_config import PIXEL_WARM_UP, adapt_recipe, adapt_recipe_like, adapt_recipe_to_size
from permll.data.dataset import LabeledData
from permll.data.inputs import Images, Inputs, Vectors
from permll.training.recipe_files import load_recipe


def test_adapt_recipe_depends_on_number_of_rows() -> None:
    recipe = load_recipe("auto/clean", {"training.epochs": 40})

    def chosen(rows: int, classes: int = 10) -> tuple[int, float | str | None]:
        found = adapt_recipe_to_size(recipe, rows, classes)
        return found.training.epochs, found.data.validation

    assert [chosen(rows) for rows in (39, 40, 20_000, 1_000_000)] == [(40, None), (40, 0.25), (40, 0.1), (6, 0.1)]
    assert [chosen(rows)[1] for rows in (11, 100, 2_500, 5_000)] == [None, 0.2, 0.2, 0.1]
    assert [chosen(100, classes)[1] for classes in (80, 81)] == [0.2, None]  # each keeps a row to train on


def test_adapt_recipe_keeps_fixed_settings() -> None:
    recipe = load_recipe("auto/clean", {"training.epochs": 40, "data.validation": 0.3})
    fixed = adapt_recipe_to_size(recipe, 1_000_000, 10, {"training.epochs", "data.validation"})
    assert (fixed.training.epochs, fixed.data.validation) == (40, 0.3)
    assert adapt_recipe_to_size(recipe, 1_000_000, 10, {"data.validation"}).training.epochs == 6


def test_adapt_recipe_adds_warm_up_on_pixels() -> None:
    def samples(inputs: Inputs) -> LabeledData:
        return LabeledData(inputs, torch.arange(50) % 2, ("a", "b"), tuple(map(str, range(50))))

    images, vectors = samples(Images(torch.zeros(50, 1, 8, 8, dtype=torch.uint8))), samples(Vectors(torch.zeros(50, 3)))
    recipe = load_recipe("auto/clean")
    started = adapt_recipe(recipe, images)
    assert started.method.settings == recipe.method.settings | {"warm_up": PIXEL_WARM_UP}
    assert adapt_recipe_like(recipe, started).hash == started.hash
    assert adapt_recipe(recipe, vectors).method == recipe.method
    fixed = load_recipe("auto/clean", {"method.warm_up": 7})
    assert adapt_recipe(fixed, images, {"method.warm_up"}).method.settings["warm_up"] == 7
    other = load_recipe("auto/clean", {"method.name": "elr"})
    assert adapt_recipe(other, images).method == other.method
