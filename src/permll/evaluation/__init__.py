"""How good predictions, found errors and corrected labels are: the only room that ever sees clean labels."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.evaluation import accuracy as accuracy
    from permll.evaluation import calibration as calibration
    from permll.evaluation import correction as correction
    from permll.evaluation import detection as detection
    from permll.evaluation import protocol as protocol
    from permll.evaluation.evaluate import evaluate_labels as evaluate_labels
    from permll.evaluation.evaluate import evaluate_predictions as evaluate_predictions

# The formulas are used by the name of their module: a function `accuracy` beside a module `accuracy` would be one or
# the other, depending on what was imported first.
__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "accuracy": (),
        "calibration": (),
        "correction": (),
        "detection": (),
        "evaluate": ("evaluate_labels", "evaluate_predictions"),
        "protocol": (),
    },
)
