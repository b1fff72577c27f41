"""PermLL: train on noisy labels, find the wrong ones, and correct them.

The public names. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING

from permll._lazy import lazy
from permll._version import __version__ as __version__

if TYPE_CHECKING:
    from permll import data as data
    from permll import functional as functional
    from permll import noise as noise
    from permll.cleaning.apply.api import apply as apply
    from permll.cleaning.clean import clean as clean
    from permll.cleaning.cleanlab_issues import findings_from_cleanlab as findings_from_cleanlab
    from permll.cleaning.find_label_errors import find_label_errors as find_label_errors
    from permll.data.indexed_dataset import IndexedDataset as IndexedDataset
    from permll.estimator.classifier import PermLLClassifier as PermLLClassifier
    from permll.findings import Findings as Findings
    from permll.layer.module import PermutationLayer as PermutationLayer
    from permll.methods._registry import list_methods as list_methods
    from permll.noise.apply_noise import corrupt as corrupt
    from permll.training.noise_estimate import NoiseEstimate as NoiseEstimate
    from permll.training.noise_estimate import estimate_noise as estimate_noise
    from permll.training.predictor import load_predictor as load_predictor
    from permll.training.run import Run as Run
    from permll.training.train import train as train

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "data": (),
        "functional": (),
        "noise": (),
        "cleaning.apply.api": ("apply",),
        "cleaning.clean": ("clean",),
        "cleaning.cleanlab_issues": ("findings_from_cleanlab",),
        "cleaning.find_label_errors": ("find_label_errors",),
        "data.indexed_dataset": ("IndexedDataset",),
        "estimator.classifier": ("PermLLClassifier",),
        "findings": ("Findings",),
        "layer.module": ("PermutationLayer",),
        "methods._registry": ("list_methods",),
        "noise.apply_noise": ("corrupt",),
        "training.noise_estimate": ("NoiseEstimate", "estimate_noise"),
        "training.predictor": ("load_predictor",),
        "training.run": ("Run",),
        "training.train": ("train",),
    },
)
