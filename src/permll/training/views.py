"""Views: the transforms of a training, built from the section ``views`` of a recipe."""

from collections.abc import Callable, Mapping

from permll.data.inputs import Images, Inputs, LazyImages, Vectors
from permll.data.transforms import defaults
from permll.data.transforms.image_transforms import (
    CenterCrop,
    Compose,
    Cutout,
    RandomCrop,
    RandomHorizontalFlip,
    Transform,
)
from permll.data.transforms.policies import AutoAugment, RandAugment
from permll.data.transforms.vector_transforms import FeatureDropout, GaussianNoise, Standardize
from permll.training.recipe import ViewsSection
from permll.utils.messages import unknown_name

_PUBLISHED = {"cifar10": defaults.CIFAR10, "cifar100": defaults.CIFAR100, "imagenet": defaults.IMAGENET}


def build_views(inputs: Inputs, section: ViewsSection) -> dict[str, Transform]:
    """Return the views "plain", "weak" and "strong"; statistics are those of ``inputs``, the training samples.

    Examples:
        >>> import torch
        >>> sorted(build_views(Vectors(torch.rand(4, 2)), ViewsSection(weak=["jitter"])))
        ['plain', 'strong', 'weak']
    """
    views = dict(defaults.default_views(inputs)) if section.weak is None or section.strong is None else {}
    normalize = _build_normalize(inputs, section)
    if section.weak is not None:
        views["plain"] = Compose(*_center_crop(inputs, section), normalize)
        views["weak"] = _build_chain(section.weak, inputs, section, normalize)
    if section.strong is not None:
        views["strong"] = _build_chain(section.strong, inputs, section, normalize)
    return views


def _build_normalize(inputs: Inputs, section: ViewsSection) -> Transform:
    if isinstance(inputs, Vectors):
        return Standardize(*defaults.vector_statistics(inputs))
    if section.normalize != "data":
        return _PUBLISHED[section.normalize]
    if isinstance(inputs, Images):
        return defaults.image_statistics(inputs)
    return defaults.IMAGENET if isinstance(inputs, LazyImages) else defaults.identity


def _center_crop(inputs: Inputs, section: ViewsSection) -> list[Transform]:
    return [CenterCrop(section.crop)] if section.crop and not isinstance(inputs, Vectors) else []


def _build_chain(names: list[str], inputs: Inputs, section: ViewsSection, normalize: Transform) -> Transform:
    """Return the named transforms in their order, those of raw pixels before normalization and the others after it."""
    size = inputs.pixels.shape[2] if isinstance(inputs, Images) else section.crop or 224
    before: Mapping[str, Callable[[], Transform]] = {
        "crop": lambda: (
            RandomCrop(section.crop) if section.crop else RandomCrop(padding=section.padding, mode=section.padding_mode)
        ),
        "flip": RandomHorizontalFlip,
        "randaugment": RandAugment,
        "autoaugment": AutoAugment,
    }
    after: Mapping[str, Callable[[], Transform]] = {
        "cutout": lambda: Cutout(size // 2),
        "jitter": lambda: GaussianNoise(0.1),
        "drop": lambda: FeatureDropout(0.2, inputs.features if isinstance(inputs, Vectors) else None),
    }
    for name in names:
        if name not in before and name not in after:
            raise ValueError(unknown_name("transform of a view", name, [*before, *after]))
    first = [before[name]() for name in names if name in before] or _center_crop(inputs, section)
    return Compose(*first, normalize, *(after[name]() for name in names if name in after))
