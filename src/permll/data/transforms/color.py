"""Color operations of augmentation policies, on whole batches of uint8 (B, C, H, W).

They follow the definitions and the rounding of Pillow's ``ImageEnhance`` and ``ImageOps``, with one parameter per
image; torchvision's operations take one for the whole batch.
"""

import torch
from torch import Tensor


def blend(other: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """Return other + factor * (x - other) with a factor (B,) per image, clamped to 0..255 and rounded down.

    ``other`` is the gray version of the image to change its saturation, its mean gray for contrast, black for
    brightness, a smoothed version for sharpness. Factor 0 gives ``other``, 1 the image, more than 1 extrapolates.
    """
    start = other.float()
    return torch.addcmul(start, x - start, factor.float()[:, None, None, None]).clamp_(0, 255).to(torch.uint8)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest ``bits`` (B,) of each value."""
    return x & (0xFF << (8 - bits.long())).to(torch.uint8)[:, None, None, None]


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values that are at least ``threshold`` (B,)."""
    return x ^ 255 * (x >= threshold[:, None, None, None]).to(torch.uint8)  # 255 - x inverts all bits


def invert(x: Tensor) -> Tensor:
    """Return 255 - x."""
    return 255 - x


def autocontrast(x: Tensor) -> Tensor:
    """Stretch each channel of each image to 0..255; a constant channel stays."""
    values = x.flatten(2)
    low, high = values.amin(2, keepdim=True).double(), values.amax(2, keepdim=True).double()
    scale = 255 / (high - low).clamp(min=1)
    levels = torch.arange(256, device=x.device).double()
    table = torch.where(high > low, levels * scale - low * scale, levels).clamp(0, 255)
    return _apply_table(table, x)


def equalize(x: Tensor) -> Tensor:
    """Equalize the histogram of each channel of each image."""
    values = x.flatten(2).long()
    histogram = torch.zeros(*x.shape[:2], 256, dtype=torch.int64, device=x.device)
    histogram.scatter_add_(2, values, torch.ones_like(values))
    last = histogram.gather(2, values.amax(2, keepdim=True))
    step = (values.shape[2] - last) // 255
    num_smaller = histogram.cumsum(2) - histogram
    table = ((step // 2 + num_smaller) // step.clamp(min=1)).clamp(max=255)
    return _apply_table(torch.where(step > 0, table, torch.arange(256, device=x.device)), x)


def gray(x: Tensor) -> Tensor:
    """Return the luminance (B, 1, H, W) by the ITU-R 601 weights; gray images are returned unchanged."""
    if x.shape[1] == 1:
        return x
    if x.shape[1] != 3:
        raise ValueError(f"color operations need images with 1 or 3 channels, got {x.shape[1]}.")
    red, green, blue = x.int().unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).to(torch.uint8)[:, None]


def mean_gray(x: Tensor) -> Tensor:
    """Return the mean luminance of each image, rounded, in every pixel."""
    mean = (gray(x).double().mean(dim=(1, 2, 3), keepdim=True) + 0.5).floor()
    return mean.to(torch.uint8).expand_as(x)


def smooth(x: Tensor) -> Tensor:
    """Average each inner pixel (weight 5) with its eight neighbors (weight 1); border pixels stay."""
    values = x.float()
    rows = values[:, :, :-2] + values[:, :, 1:-1] + values[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * values[:, :, 1:-1, 1:-1]
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = (total / 13 + 0.5).to(torch.uint8)
    return out


def _apply_table(table: Tensor, x: Tensor) -> Tensor:
    """Replace each value by its entry in the table (B, C, 256) of its image and channel."""
    return table.to(torch.uint8).gather(2, x.flatten(2).long()).view_as(x)
