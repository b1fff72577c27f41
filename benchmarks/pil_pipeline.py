"""Conventional input pipeline for CIFAR-10: PIL images, augmented one by one, in a DataLoader."""

import random
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor
from torch.utils.data import Dataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
_MEAN, _STD = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))


class PilImages(Dataset[tuple[Tensor, int]]):
    """Images (N, H, W, 3) as PIL images: zero padding and crop, flip, optionally RandAugment, normalization."""

    def __init__(self, pixels: NDArray[np.uint8], labels: list[int], *, strong: bool) -> None:
        self.pixels, self.labels, self.strong = pixels, labels, strong

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.pixels[position])
        width, height = image.size
        padded = ImageOps.expand(image, border=4, fill=0)
        left, top = random.randint(0, 8), random.randint(0, 8)
        image = padded.crop((left, top, left + width, top + height))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if self.strong:
            for operation in random.choices(OPERATIONS, k=2):
                image = operation(image, random.choice((-1, 1)))
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        return tensor.sub_(_MEAN).div_(_STD), self.labels[position]


STRENGTH, GRAY = 0.3, (128, 128, 128)


def _affine(image: Image.Image, *coefficients: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, coefficients, Image.Resampling.NEAREST, fillcolor=GRAY)


_SHEAR, _SHIFT, _BLEND = 0.3 * STRENGTH, int(150 / 331 * 32 * STRENGTH), 0.9 * STRENGTH
OPERATIONS: list[Callable[[Image.Image, int], Image.Image]] = [
    lambda image, _: image,
    lambda image, sign: _affine(image, 1, sign * _SHEAR, 0, 0, 1, 0),
    lambda image, sign: _affine(image, 1, 0, 0, sign * _SHEAR, 1, 0),
    lambda image, sign: _affine(image, 1, 0, sign * _SHIFT, 0, 1, 0),
    lambda image, sign: _affine(image, 1, 0, 0, 0, 1, sign * _SHIFT),
    lambda image, sign: image.rotate(sign * 30 * STRENGTH, fillcolor=GRAY),
    lambda image, sign: ImageEnhance.Brightness(image).enhance(1 + sign * _BLEND),
    lambda image, sign: ImageEnhance.Color(image).enhance(1 + sign * _BLEND),
    lambda image, sign: ImageEnhance.Contrast(image).enhance(1 + sign * _BLEND),
    lambda image, sign: ImageEnhance.Sharpness(image).enhance(1 + sign * _BLEND),
    lambda image, _: ImageOps.posterize(image, 8 - round(4 * STRENGTH)),
    lambda image, _: ImageOps.solarize(image, round(255 * (1 - STRENGTH))),
    lambda image, _: ImageOps.autocontrast(image),
    lambda image, _: ImageOps.equalize(image),
]
