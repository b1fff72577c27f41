"""Default views of every kind of data: plain (for evaluation), weak and strong augmentation."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from permll.data.inputs import Images, Inputs, Items, LazyImages, Vectors
from permll.data.transforms.image_transforms import (
    CenterCrop,
    Compose,
    Cutout,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    Transform,
)
from permll.data.transforms.policies import RandAugment
from permll.data.transforms.vector_transforms import FeatureDropout, GaussianNoise, Standardize

IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CIFAR10 = Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100 = Normalize((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))

_MAX_IMAGES = 10_000  # enough for three digits of mean and standard deviation


def default_views(inputs: Inputs) -> Mapping[str, Transform]:
    """Return the views "plain", "weak" and "strong" for a kind of inputs, normalized by the statistics of ``inputs``.

    Compute them from the training samples and use them for all. Color images are flipped, gray ones are not: they may
    be digits or letters.

    Examples:
        >>> sorted(default_views(Vectors(torch.rand(5, 3))))
        ['plain', 'strong', 'weak']
    """
    if isinstance(inputs, Images):
        return image_views(image_statistics(inputs), inputs.pixels.shape[1:])
    if isinstance(inputs, LazyImages):
        size = inputs.size * 7 // 8  # 224 of 256
        flip = RandomHorizontalFlip()
        return {
            "plain": Compose(CenterCrop(size), IMAGENET),
            "weak": Compose(RandomCrop(size), flip, IMAGENET),
            "strong": Compose(RandomCrop(size), flip, RandAugment(), IMAGENET),
        }
    if isinstance(inputs, Vectors):
        standardize = Standardize(*vector_statistics(inputs))
        return {
            "plain": standardize,
            "weak": Compose(standardize, GaussianNoise(0.05)),
            "strong": Compose(standardize, GaussianNoise(0.2), FeatureDropout(0.2, inputs.features)),
        }
    if isinstance(inputs, Items):
        return {"plain": identity, "weak": identity, "strong": identity}
    raise TypeError(f"{inputs} must be encoded before they can be transformed: permll.data.encode(data).")


def image_views(normalize: Normalize, shape: Sequence[int]) -> Mapping[str, Transform]:
    """Return the views of small images (C, H, W).

    Weak: crop with a padding of an eighth, and horizontal flip of color images. Strong: also RandAugment (for 1 or 3
    channels) and cutout.
    """
    channels, size = shape[0], min(shape[1:])
    padding = max(size // 8, 1) if size > 2 else 0  # a line of pixels would be shifted out of the image
    weak: list[Transform] = [RandomCrop(padding=padding), *([RandomHorizontalFlip()] if channels == 3 else [])]
    policy: list[Transform] = [RandAugment()] if channels in (1, 3) else []
    return {
        "plain": Compose(normalize),
        "weak": Compose(*weak, normalize),
        "strong": Compose(*weak, *policy, normalize, Cutout(max(size // 2, 1))),
    }


def image_statistics(images: Images) -> Normalize:
    """Return mean and standard deviation of each channel, from at most 10,000 evenly spaced images."""
    step = -(-len(images) // _MAX_IMAGES)
    pixels = images.pixels[::step].transpose(0, 1).flatten(1)
    # From the histogram: exact, and without a float copy of all pixels.
    counts = torch.stack([torch.bincount(channel, minlength=256) for channel in pixels]).cpu().double()
    values = torch.arange(256, dtype=torch.float64) / 255
    mean = (counts * values).sum(1) / counts.sum(1)
    variance = (counts * values**2).sum(1) / counts.sum(1) - mean**2
    std = variance.clamp(min=0).sqrt()
    std[std == 0] = 1.0
    return Normalize(tuple(mean.tolist()), tuple(std.tolist()))


def vector_statistics(vectors: Vectors) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (F,) of each column; 1 for constant columns and for scaled vectors."""
    values = vectors.values.double()
    mean, std = values.mean(0), values.std(0, correction=0)
    if vectors.scaled:
        std = torch.ones_like(std)
    return mean.float(), torch.where(std > 1e-12, std, 1.0).float()


def identity(batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG001
    """Return the batch unchanged."""
    return batch
