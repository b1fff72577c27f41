"""Training: one loop, recipes, and runs that survive whatever happens to the process."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.training.train import fit as fit
    from permll.training.trainer import Loop as Loop
    from permll.training.callbacks import Observer as Observer
    from permll.training.recipe import Recipe as Recipe
    from permll.training.recipe_files import load_recipe as load_recipe
    from permll.training.run import Run as Run
    from permll.training.predictor import load_trained as load_trained

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "fitting": ("fit",),
        "loop": ("Loop",),
        "observers": ("Observer",),
        "recipe": ("Recipe",),
        "recipe_files": ("load_recipe",),
        "run": ("Run",),
        "trained": ("load_trained",),
    },
)
