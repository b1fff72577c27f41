"""Settings that a recipe leaves to the data (``"auto"``): chosen for a new run, copied for one that resumes."""

import math

from permll.data.inputs import Images, LazyImages
from permll.data.readers.image_files import SMALL_IMAGE_SIZE
from permll.training.data_preparation import PreparedData
from permll.training.recipe import AUTO, USER_NETWORK, Recipe, recipe_diff
from permll.training.run import Run


def fill_auto_settings(recipe: Recipe, prepared: PreparedData) -> Recipe:
    """Return the recipe with encoder, network and batch size chosen by the data."""
    inputs, rows = prepared.train.inputs, len(prepared.train)
    recipe = recipe.model_copy(update={"data": prepared.section or recipe.data})
    if recipe.network.name == AUTO:
        if isinstance(inputs, Images):
            name = "cnn" if inputs.pixels.shape[2] < 24 else "resnet8"
        elif isinstance(inputs, LazyImages):
            name = "resnet8" if inputs.size <= SMALL_IMAGE_SIZE else "resnet18"
        else:
            name = "mlp"
        recipe = recipe.model_copy(update={"network": recipe.network.model_copy(update={"name": name})})
    if recipe.training.batch_size == AUTO:  # at least ten steps in an epoch
        recipe = recipe.with_training(batch_size=min(max(2 ** int(math.log2(rows / 10)) if rows > 10 else 2, 16), 128))
    return recipe


def match_run(recipe: Recipe, run: Run) -> Recipe:
    """Return the recipe with the settings that were chosen when the run started; refuse a run of another recipe."""
    saved = run.recipe
    if recipe.network.name == AUTO and not saved.network.name.startswith(USER_NETWORK):
        recipe = recipe.model_copy(update={"network": saved.network})
        if not (recipe.data.backbone or recipe.data.pixels):
            recipe = recipe.with_data(
                pixels=saved.data.pixels, backbone=saved.data.backbone, weights=saved.data.weights
            )
    if recipe.training.batch_size == AUTO:
        recipe = recipe.with_training(batch_size=saved.training.batch_size)
    if recipe.hash != saved.hash:
        raise ValueError(
            f"{run.folder} is a run of another recipe ({recipe_diff(saved, recipe)}): choose another folder, or resume "
            f"it with permll train {run.folder}."
        )
    return recipe
