"""Views: the transforms of a training, built from the section ``views`` of a recipe."""

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
    center_crop = [CenterCrop(section.crop)] if section.crop and not isinstance(inputs, Vectors) else []
    if section.weak is not None:
        views["plain"] = Compose(*center_crop, normalize)
    for view, names in (("weak", section.weak), ("strong", section.strong)):
        if names is not None:
            before, after = _build_transforms(names, inputs, section)
            views[view] = Compose(*(before or center_crop), normalize, *after)
    return views


def _build_normalize(inputs: Inputs, section: ViewsSection) -> Transform:
    if isinstance(inputs, Vectors):
        return Standardize(*defaults.vector_statistics(inputs))
    if section.normalize != "data":
        return _PUBLISHED[section.normalize]
    if isinstance(inputs, Images):
        return defaults.image_statistics(inputs)
    return defaults.IMAGENET if isinstance(inputs, LazyImages) else defaults.identity


def _build_transforms(
    names: list[str], inputs: Inputs, section: ViewsSection
) -> tuple[list[Transform], list[Transform]]:
    """Return the named transforms in their order: those of raw pixels, before normalization, and those after it."""
    size = inputs.pixels.shape[2] if isinstance(inputs, Images) else section.crop or 224
    crop = RandomCrop(section.crop) if section.crop else RandomCrop(padding=section.padding, mode=section.padding_mode)
    before: dict[str, Transform] = {
        "crop": crop,
        "flip": RandomHorizontalFlip(),
        "randaugment": RandAugment(),
        "autoaugment": AutoAugment(),
    }
    after: dict[str, Transform] = {
        "cutout": Cutout(size // 2),
        "jitter": GaussianNoise(0.1),
        "drop": FeatureDropout(0.2, inputs.features if isinstance(inputs, Vectors) else None),
    }
    for name in names:
        if name not in before and name not in after:
            raise ValueError(unknown_name("transform of a view", name, [*before, *after]))
    return [before[name] for name in names if name in before], [after[name] for name in names if name in after]
