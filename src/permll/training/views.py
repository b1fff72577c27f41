"""From a recipe's words to views."""

from collections.abc import Callable, Mapping

from permll.data.inputs import Images, Inputs, LazyImages, Vectors
from permll.data.transforms import defaults
from permll.data.transforms.image_transforms import (
    CenterCrop,
    Compose,
    Cutout,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    Transform,
)
from permll.data.transforms.policies import AutoAugment, RandAugment
from permll.data.transforms.vector_transforms import FeatureDropout, GaussianNoise, Standardize
from permll.training.recipe import ViewsSection
from permll.utils.messages import did_you_mean

_PUBLISHED = {"cifar10": defaults.CIFAR10, "cifar100": defaults.CIFAR100, "imagenet": defaults.IMAGENET}


def build_views(inputs: Inputs, section: ViewsSection) -> dict[str, Transform]:
    """Return the views "plain", "weak" and "strong"; statistics come from ``inputs``, the training rows.

    Examples:
        >>> import torch
        >>> sorted(build_views(Vectors(torch.rand(4, 2)), ViewsSection(weak=["jitter"])))
        ['plain', 'strong', 'weak']
    """
    views = dict(defaults.default_views(inputs)) if section.weak is None or section.strong is None else {}
    scale = _scale(inputs, section)
    if section.weak is not None:
        views["plain"] = Compose(*_plain(inputs, section), scale)
        views["weak"] = _chain(section.weak, inputs, section, scale)
    if section.strong is not None:
        views["strong"] = _chain(section.strong, inputs, section, scale)
    return views


def _scale(inputs: Inputs, section: ViewsSection) -> Transform:
    if isinstance(inputs, Vectors):
        return Standardize(*defaults.vector_statistics(inputs))
    if section.normalize != "data":
        return _PUBLISHED[section.normalize]
    if isinstance(inputs, Images):
        return defaults.image_statistics(inputs)
    return defaults.IMAGENET if isinstance(inputs, LazyImages) else defaults.identity


def _plain(inputs: Inputs, section: ViewsSection) -> list[Transform]:
    return [CenterCrop(section.crop)] if section.crop and not isinstance(inputs, Vectors) else []


def _chain(words: list[str], inputs: Inputs, section: ViewsSection, scale: Transform) -> Transform:
    """Put the steps in the order of the words, those on raw pixels before the scaling and the others after it."""
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
    known = [*before, *after]
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ValueError(
            f"{unknown[0]!r} is no step of a view{did_you_mean(unknown[0], known) or '.'} There are {', '.join(known)}."
        )
    first = [before[word]() for word in words if word in before]
    if first == [] and section.crop and not isinstance(inputs, Vectors):
        first = [CenterCrop(section.crop)]
    return Compose(*first, scale, *(after[word]() for word in words if word in after))


def mean_and_std(view: Transform) -> Normalize | Standardize | None:
    """Return the scaling inside a view, for the export of a trained network."""
    steps = view.steps if isinstance(view, Compose) else (view,)
    return next((step for step in steps if isinstance(step, Normalize | Standardize)), None)
