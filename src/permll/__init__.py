"""PermLL: train on wrong labels, find them, correct them.

The public names. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING

from permll._lazy import lazy
from permll._version import __version__ as __version__

if TYPE_CHECKING:
    from permll import data as data
    from permll import functional as functional
    from permll import noise as noise
    from permll.cleaning.clean import clean as clean
    from permll.cleaning.findings import Findings as Findings
    from permll.cleaning.label_errors import find_label_errors as find_label_errors
    from permll.estimator.classifier import PermLLClassifier as PermLLClassifier
    from permll.layer.module import PermutationLayer as PermutationLayer
    from permll.training.noise_estimate import NoiseEstimate as NoiseEstimate
    from permll.training.noise_estimate import estimate_noise as estimate_noise
    from permll.training.run import Run as Run
    from permll.training.train import train as train

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "data": (),
        "functional": (),
        "noise": (),
        "cleaning.clean": ("clean",),
        "cleaning.findings": ("Findings",),
        "cleaning.label_errors": ("find_label_errors",),
        "estimator.classifier": ("PermLLClassifier",),
        "layer.module": ("PermutationLayer",),
        "training.train": ("train",),
        "training.noise_estimate": ("NoiseEstimate", "estimate_noise"),
        "training.run": ("Run",),
    },
)
