"""Metrics of predictions, label-error detection and label correction; the only package that sees clean labels."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.evaluation import accuracy as accuracy
    from permll.evaluation import calibration as calibration
    from permll.evaluation import correction as correction
    from permll.evaluation import detection as detection
    from permll.evaluation import protocol as protocol
    from permll.evaluation.evaluator import evaluate_labels as evaluate_labels
    from permll.evaluation.evaluator import evaluate_predictions as evaluate_predictions

# Metrics are accessed through their modules: a function `accuracy` would clash with the module `accuracy`.
__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "accuracy": (),
        "calibration": (),
        "correction": (),
        "detection": (),
        "evaluator": ("evaluate_labels", "evaluate_predictions"),
        "protocol": (),
    },
)
