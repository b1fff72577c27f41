"""Three views for every kind of data: plain (to evaluate), weak and strong, so that any method runs on any data."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from permll.data.inputs import Images, Inputs, Items, LazyImages, Vectors
from permll.data.transforms.image_transforms import CenterCrop, Chain, Crop, Cutout, Flip, Normalize, Transform
from permll.data.transforms.policies import RandAugment
from permll.data.transforms.vector_transforms import Drop, Jitter, Standardize

IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CIFAR10 = Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100 = Normalize((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))

_SAMPLE = 10_000  # so many images tell mean and spread to three digits


def default_views(inputs: Inputs) -> Mapping[str, Transform]:
    """Return the views "plain", "weak" and "strong" for a kind of inputs, scaled by the statistics of ``inputs``.

    Take them from the training rows and use them for all. Colour images are mirrored, grey ones are not: they may be
    digits or letters.

    Examples:
        >>> sorted(default_views(Vectors(torch.rand(5, 3))))
        ['plain', 'strong', 'weak']
    """
    if isinstance(inputs, Images):
        return image_views(image_statistics(inputs), inputs.pixels.shape[1:])
    if isinstance(inputs, LazyImages):
        size = inputs.size * 7 // 8  # 224 of 256
        flip = Flip()
        return {
            "plain": Chain(CenterCrop(size), IMAGENET),
            "weak": Chain(Crop(size), flip, IMAGENET),
            "strong": Chain(Crop(size), flip, RandAugment(), IMAGENET),
        }
    if isinstance(inputs, Vectors):
        scale = Standardize(*vector_statistics(inputs))
        return {
            "plain": scale,
            "weak": Chain(scale, Jitter(0.05)),
            "strong": Chain(scale, Jitter(0.2), Drop(0.2, inputs.features)),
        }
    if isinstance(inputs, Items):
        return {"plain": as_it_is, "weak": as_it_is, "strong": as_it_is}
    raise TypeError(f"{inputs} have no views before they are encoded: permll.data.encode(data).")


def image_views(normalize: Normalize, shape: Sequence[int]) -> Mapping[str, Transform]:
    """Return the views of small images (C, H, W): crop with padding of an eighth, mirror; strong: a policy and a hole.

    The policy is for images whose channels are grey or red, green and blue.
    """
    channels, size = shape[0], min(shape[1:])
    padding = max(size // 8, 1) if size > 2 else 0  # a line of pixels would be moved out of its own picture
    moves: list[Transform] = [Crop(padding=padding), *([Flip()] if channels == 3 else [])]
    policy: list[Transform] = [RandAugment()] if channels in (1, 3) else []
    return {
        "plain": Chain(normalize),
        "weak": Chain(*moves, normalize),
        "strong": Chain(*moves, *policy, normalize, Cutout(max(size // 2, 1))),
    }


def image_statistics(images: Images) -> Normalize:
    """Return mean and standard deviation of each channel, from an even choice of at most 10,000 images."""
    step = -(-len(images) // _SAMPLE)
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
    """Return mean and standard deviation (F,) of each column; a constant column, and scaled ones, keep their scale."""
    values = vectors.values.double()
    mean, std = values.mean(0), values.std(0, correction=0)
    if vectors.scaled:
        std = torch.ones_like(std)
    return mean.float(), torch.where(std > 1e-12, std, 1.0).float()


def as_it_is(batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG001
    """Return the batch: its own data set has already made its view."""
    return batch
