"""Training: one loop for all methods, recipes, and runs that resume from their checkpoints."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.training.callbacks import Callback as Callback
    from permll.training.predictor import load_predictor as load_predictor
    from permll.training.recipe import Recipe as Recipe
    from permll.training.recipe_files import load_recipe as load_recipe
    from permll.training.run import Run as Run
    from permll.training.trainer import Trainer as Trainer

# `train` is not here: permll.training.train is the module that holds it, and permll.train the function.
__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "callbacks": ("Callback",),
        "predictor": ("load_predictor",),
        "recipe": ("Recipe",),
        "recipe_files": ("load_recipe",),
        "run": ("Run",),
        "trainer": ("Trainer",),
    },
)
