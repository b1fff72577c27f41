"""Recipe settings that depend on the data: estimator or network, held-out fraction, number of epochs, warm-up."""

from collections.abc import Callable, Collection, Iterable

from permll.data.dataset import LabeledData
from permll.data.readers.input_spec import input_kind
from permll.training.feature_cache import TFIDF, resolve_features
from permll.training.recipe import ComponentSection, EstimatorSection, Recipe

MIN_HELD_OUT = 10  # fewer rows cannot estimate the noise
TARGET_HELD_OUT = 500  # estimate the noise rate to about two points
MAX_ROWS_FULL_EPOCHS = 20_000
MIN_EPOCHS = 5
CLASSIFIER_SECTIONS = ("estimator", "method", "network", "optimizer", "schedule", "views")
CLASSIFIER_SETTINGS = ("training.epochs", "training.batch_size", "data.validation")
TABLE_ESTIMATOR = "logistic_regression+random_forest"
TEXT_ESTIMATOR = "logistic_regression+naive_bayes"
MIN_ROWS_ESTIMATOR, MAX_ROWS_ESTIMATOR = 50, 20_000  # fewer say nothing about it; more take longer than a network
PIXEL_WARM_UP = 0.3  # fraction of the epochs: without it, PermLL corrects labels faster than a CNN learns the classes


def adapt_recipe(
    recipe: Recipe, data: LabeledData, fixed: Collection[str] = (), notify: Callable[[str], None] | None = None
) -> Recipe:
    """Return the recipe with estimators for a table or texts, or adapted to the number of samples.

    PermLL on pixels gets a warm-up.

    Args:
        recipe: to adapt.
        data: the samples.
        fixed: dotted names of settings that stay: "data.validation", "training.epochs", "method.warm_up".
        notify: called with a sentence before a pretrained network is downloaded.
    """
    if recipe.estimator is not None:
        return recipe
    if name := default_estimator(recipe, data, fixed, notify):
        recipe = recipe.with_data(encoder=TFIDF) if input_kind(data.inputs) == "texts" else recipe
        return recipe.model_copy(update={"estimator": EstimatorSection(name=name)})
    recipe = adapt_recipe_to_size(recipe, len(data), data.num_classes, fixed)
    on_pixels = input_kind(data.inputs) == "images" and not resolve_features(recipe, data.inputs, notify).backbone
    return _with_warm_up(recipe, PIXEL_WARM_UP, fixed) if on_pixels else recipe


def default_estimator(
    recipe: Recipe, data: LabeledData, fixed: Collection[str] = (), notify: Callable[[str], None] | None = None
) -> str:
    """Return the estimators that check the labels of a table, or of texts without a sentence encoder; "" for a network.

    A network is trained if a setting of one is given, or if only a part of the samples is trained on as it is.
    """
    kind, section = input_kind(data.inputs), recipe.data
    if names_classifier(fixed) or kind not in ("table", "texts"):
        return ""
    if section.noise or section.train is not None or section.trusted is not None:
        return ""
    if (recipe.training.devices, recipe.training.num_nodes) != (1, 1):
        return ""
    if not MIN_ROWS_ESTIMATOR <= len(data) <= MAX_ROWS_ESTIMATOR:
        return ""
    if kind == "table":
        return TABLE_ESTIMATOR
    return "" if resolve_features(recipe, data.inputs, notify).encoder else TEXT_ESTIMATOR


def adapt_recipe_to_size(recipe: Recipe, rows: int, classes: int, fixed: Collection[str] = ()) -> Recipe:
    """Return the recipe adapted to a number of rows and classes; see ``adapt_recipe``."""
    return _with(recipe, held_out_fraction(rows, classes), num_epochs(rows, recipe.training.epochs), fixed)


def adapt_recipe_like(recipe: Recipe, started: Recipe, fixed: Collection[str] = ()) -> Recipe:
    """Return the recipe adapted as a run was when it started, since rows may have been added or removed."""
    if not names_classifier(fixed):
        recipe = recipe.model_copy(update={"estimator": started.estimator})
    recipe = _with(recipe, started.data.validation, started.training.epochs, fixed)
    warm_up = started.method.settings.get("warm_up")
    return recipe if warm_up is None else _with_warm_up(recipe, warm_up, fixed)


def names_classifier(settings: Iterable[str]) -> bool:
    """Return whether the dotted names of settings contain one of a network or an estimator."""
    return any(name.split(".")[0] in CLASSIFIER_SECTIONS or name in CLASSIFIER_SETTINGS for name in settings)


def _with_warm_up(recipe: Recipe, warm_up: object, fixed: Collection[str]) -> Recipe:
    if recipe.method.name != "permll" or "method.warm_up" in fixed:
        return recipe
    method = ComponentSection.model_validate({**recipe.method.model_dump(), "warm_up": warm_up})
    return recipe.model_copy(update={"method": method})


def _with(recipe: Recipe, validation: float | str | None, epochs: int, fixed: Collection[str]) -> Recipe:
    if "data.validation" not in fixed:
        recipe = recipe.with_data(validation=validation)
    return recipe if "training.epochs" in fixed else recipe.with_training(epochs=epochs)


def held_out_fraction(rows: int, classes: int) -> float | None:
    """Return the fraction of rows to hold out: a fifth up to 2,500 rows, then 500 rows, from 5,000 on a tenth.

    At least ten rows, unless these are more than a quarter or leave a class without a training row; then None.

    Examples:
        >>> [held_out_fraction(rows, 3) for rows in (30, 45, 1_000, 4_000, 100_000)]
        [None, 0.222..., 0.2, 0.125, 0.1]
    """
    fraction = max(min(max(TARGET_HELD_OUT / rows, 0.1), 0.2), MIN_HELD_OUT / rows)
    return fraction if fraction <= 0.25 and round(fraction * rows) <= rows - classes else None


def num_epochs(rows: int, maximum: int) -> int:
    """Return the number of epochs: the maximum up to 20,000 rows, then proportional to 1 / sqrt(rows), at least five.

    Examples:
        >>> [num_epochs(rows, 40) for rows in (100, 20_000, 100_000, 1_000_000)]
        [40, 40, 18, 6]
    """
    epochs = round(maximum * (MAX_ROWS_FULL_EPOCHS / max(rows, MAX_ROWS_FULL_EPOCHS)) ** 0.5)
    return min(max(epochs, MIN_EPOCHS), maximum)
