"""Training methods for noisy labels, and the interface that they implement."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.methods._base import FitInfo as FitInfo
    from permll.methods._base import Method as Method
    from permll.methods._base import PredictLogits as PredictLogits
    from permll.methods._base import Stage as Stage
    from permll.methods._base import StreamSpec as StreamSpec
    from permll.methods._base import TrainPass as TrainPass
    from permll.methods._base import divide_epochs as divide_epochs
    from permll.methods._registry import METHODS as METHODS
    from permll.methods._registry import MethodInfo as MethodInfo
    from permll.methods._registry import find_method as find_method
    from permll.methods._registry import list_methods as list_methods
    from permll.methods._settings import setting as setting
    from permll.methods._state import SampleBuffer as SampleBuffer
    from permll.methods._state import SampleParameter as SampleParameter

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "_base": ("StreamSpec", "FitInfo", "Method", "PredictLogits", "Stage", "TrainPass", "divide_epochs"),
        "_registry": ("METHODS", "MethodInfo", "find_method", "list_methods"),
        "_settings": ("setting",),
        "_state": ("SampleBuffer", "SampleParameter"),
    },
)
