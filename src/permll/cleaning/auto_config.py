"""How a training suits the data: how many rows are held out, how often it goes through the others, how it begins."""

from collections.abc import Container

from permll.data.dataset import LabeledData
from permll.data.readers.input_spec import input_kind
from permll.training.feature_cache import settle_features
from permll.training.recipe import Named, Recipe

FEWEST_HELD_OUT = 10  # fewer tell nothing about the noise: labels would be changed at random
ENOUGH_HELD_OUT = 500  # tell the noise rate to two points or so; a fifth of the rows is given for that, then a tenth
FULL_LENGTH = 20_000  # rows, up to which a training has all its epochs
FEWEST_EPOCHS = 5
WARM_UP = (
    0.3  # of the epochs, on pixels: a CNN learns them more slowly than labels turn, and whole classes would be lost
)


def adapt_recipe_to_size(recipe: Recipe, rows: int, classes: int, settled: Container[str] = ()) -> Recipe:
    """Return the recipe for so many rows.

    Args:
        recipe: for any number of rows.
        rows: how many there are.
        classes: how many there are, each of which keeps a row to train on.
        settled: values that stay as they are: "data.validation", "training.epochs".
    """
    return _with(recipe, held_out(rows, classes), epochs_for(rows, recipe.training.epochs), settled)


def adapt_recipe_like(recipe: Recipe, begun: Recipe, settled: Container[str] = ()) -> Recipe:
    """Return the recipe with what suited the rows when the training was begun: some may have come or gone since."""
    recipe = _with(recipe, begun.data.validation, begun.training.epochs, settled)
    share = begun.method.settings.get("warm_up")
    return recipe if share is None else _warmed_up(recipe, share, settled)


def adapt_recipe(recipe: Recipe, data: LabeledData, settled: Container[str] = ()) -> Recipe:
    """Return the recipe for these samples: for their number and, where PermLL sees pixels, with a warm-up."""
    recipe = adapt_recipe_to_size(recipe, len(data), data.num_classes, settled)
    pixels = input_kind(data.inputs) == "images" and not settle_features(recipe, data.inputs).backbone
    return _warmed_up(recipe, WARM_UP, settled) if pixels else recipe


def _warmed_up(recipe: Recipe, share: object, settled: Container[str]) -> Recipe:
    if recipe.method.name != "permll" or "method.warm_up" in settled:
        return recipe
    method = Named.model_validate({**recipe.method.model_dump(), "warm_up": share})
    return recipe.model_copy(update={"method": method})


def _with(recipe: Recipe, validation: float | str | None, epochs: int, settled: Container[str]) -> Recipe:
    if "data.validation" not in settled:
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"validation": validation})})
    return recipe if "training.epochs" in settled else recipe.with_training(epochs=epochs)


def held_out(rows: int, classes: int) -> float | None:
    """Return the share of rows to hold out: a fifth up to 2,500 rows, then 500 rows, from 5,000 on a tenth.

    Ten rows at least, if these are not more than a quarter and leave a row of every class; otherwise none.

    Examples:
        >>> [held_out(rows, 3) for rows in (30, 45, 1_000, 4_000, 100_000)]
        [None, 0.222..., 0.2, 0.125, 0.1]
    """
    share = max(min(max(ENOUGH_HELD_OUT / rows, 0.1), 0.2), FEWEST_HELD_OUT / rows)
    return share if share <= 0.25 and round(share * rows) <= rows - classes else None


def epochs_for(rows: int, most: int) -> int:
    """Return how many epochs: all of the recipe's up to 20,000 rows, then fewer, as 1 / sqrt(rows), but at least five.

    Examples:
        >>> [epochs_for(rows, 40) for rows in (100, 20_000, 100_000, 1_000_000)]
        [40, 40, 18, 6]
    """
    fewer = round(most * (FULL_LENGTH / max(rows, FULL_LENGTH)) ** 0.5)
    return min(max(fewer, FEWEST_EPOCHS), most)
