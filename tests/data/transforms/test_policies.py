"""Batched operations of the policies against Pillow, image by image."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats
from torch import Tensor

from permll.data.transforms import AutoAugment, RandAugment
from permll.data.transforms import policies as p
from permll.data.transforms.counter_rng import visit_keys

MAGNITUDES = (0.0, 0.1, 0.3, 5 / 9, 1.0)
GRAY = (p.FILL,) * 3


def sample_images() -> Tensor:
    """Return noise, a smooth ramp, an image of low contrast, one of one color, and a nearly black one."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (3, 3, 32, 32), generator=generator)
    ramp = (torch.arange(32)[:, None] * 4 + torch.arange(32) * 3).expand(3, 32, 32) + torch.tensor([0, 20, 35])[
        :, None, None
    ]
    dull = torch.randint(100, 140, (3, 32, 32), generator=generator)
    single = torch.tensor([10, 200, 90])[:, None, None].expand(3, 32, 32)
    dark = torch.randint(0, 3, (3, 32, 32), generator=generator)
    return torch.cat([noise, torch.stack([ramp, dull, single, dark])]).byte()


def enhance(kind: Callable[[Image.Image], object]) -> Callable[[Image.Image, float, int], Image.Image]:
    return lambda image, s, sign: kind(image).enhance(1 + 0.9 * s * sign)  # type: ignore[attr-defined]


def transform(image: Image.Image, *coefficients: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, coefficients, Image.Resampling.NEAREST, fillcolor=GRAY)


def rotate(image: Image.Image, s: float, sign: int) -> Image.Image:
    return image.rotate(30 * s * sign, Image.Resampling.NEAREST, fillcolor=GRAY)


PILLOW: dict[str, Callable[[Image.Image, float, int], Image.Image]] = {
    "identity": lambda image, _s, _sign: image,
    "shear_x": lambda image, s, sign: transform(image, 1, 0.3 * s * sign, 0, 0, 1, 0),
    "shear_y": lambda image, s, sign: transform(image, 1, 0, 0, 0.3 * s * sign, 1, 0),
    "translate_x": lambda image, s, sign: transform(image, 1, 0, sign * int(150 / 331 * 32 * s), 0, 1, 0),
    "translate_y": lambda image, s, sign: transform(image, 1, 0, 0, 0, 1, sign * int(150 / 331 * 32 * s)),
    "rotate": rotate,
    "brightness": enhance(ImageEnhance.Brightness),
    "color": enhance(ImageEnhance.Color),
    "contrast": enhance(ImageEnhance.Contrast),
    "sharpness": enhance(ImageEnhance.Sharpness),
    "posterize": lambda image, s, _sign: ImageOps.posterize(image, 8 - round(4 * s)),
    "solarize": lambda image, s, _sign: ImageOps.solarize(image, 255 * (1 - s)),
    "autocontrast": lambda image, _s, _sign: ImageOps.autocontrast(image),
    "equalize": lambda image, _s, _sign: ImageOps.equalize(image),
    "invert": lambda image, _s, _sign: ImageOps.invert(image),
}


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize("name", p.OPERATIONS)
def test_operations_equal_pillow(name: str, magnitude: float, sign: int) -> None:
    batch = sample_images()
    number = torch.full((len(batch),), p.OPERATIONS.index(name))
    out = p.apply_operations(
        batch, number, torch.full((len(batch),), magnitude), torch.full((len(batch),), float(sign))
    )
    slow = [np.asarray(PILLOW[name](Image.fromarray(x.permute(1, 2, 0).numpy()), magnitude, sign)) for x in batch]
    different = np.abs(out.permute(0, 2, 3, 1).numpy().astype(int) - np.stack(slow))
    if name in p.GEOMETRIC_OPS:  # Pillow uses 16-bit fractions: a pixel on an edge may come from the neighbor
        assert (different > 0).any(-1).mean() < 0.005
    else:
        assert different.max() <= (1 if name in p.BLEND_OPS else 0)
        assert (different > 0).mean() < 0.005


def test_operations_are_independent_per_image() -> None:
    batch = sample_images()[:3].repeat(5, 1, 1, 1)
    operation = torch.arange(15)
    magnitude, sign = torch.linspace(0.1, 1, 15), torch.tensor([1.0, -1.0, 1.0]).repeat(5)
    together = p.apply_operations(batch, operation, magnitude, sign)
    for i in range(15):
        one = slice(i, i + 1)
        assert torch.equal(together[one], p.apply_operations(batch[one], operation[one], magnitude[one], sign[one]))


def test_operations_accept_gray_images() -> None:
    batch = sample_images()[:1, :1].expand(15, 1, 32, 32)
    out = p.apply_operations(batch, torch.arange(15), torch.full((15,), 0.5), torch.ones(15))
    assert out.shape == batch.shape


def test_policies_reject_normalized_images() -> None:
    with pytest.raises(TypeError, match="before Normalize"):
        RandAugment()(torch.zeros(1, 3, 8, 8), torch.zeros(1).long())


def test_rand_augment_draws_operations_uniformly(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_operations: list[Tensor] = []
    monkeypatch.setattr(p, "apply_operations", lambda batch, operation, *_: drawn_operations.append(operation) or batch)
    RandAugment(num_ops=2)(torch.zeros(7000, 1, 1, 1).byte(), visit_keys(0, 0, "x", torch.arange(7000)))
    first, second = drawn_operations
    assert stats.chisquare(torch.bincount(first, minlength=14).numpy()).pvalue > 0.01
    assert torch.bincount(second).numel() == 14
    assert abs((first == second).float().mean() - 1 / 14) < 0.02


def test_auto_augment_draws_pairs_with_their_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_operations: list[Tensor] = []
    monkeypatch.setattr(p, "apply_operations", lambda batch, operation, *_: drawn_operations.append(operation) or batch)
    count = 50_000
    AutoAugment()(torch.zeros(count, 1, 1, 1).byte(), visit_keys(0, 0, "x", torch.arange(count)))
    for number, drawn in enumerate(drawn_operations):
        expected = torch.zeros(15)
        for pair in p.CIFAR_POLICY:
            name, probability, _ = pair[number]
            expected[p.OPERATIONS.index(name)] += probability / 25
            expected[0] += (1 - probability) / 25
        fractions = torch.bincount(drawn, minlength=15) / count
        torch.testing.assert_close(fractions, expected, rtol=0, atol=0.01)
    assert len(p.CIFAR_POLICY) == 25
