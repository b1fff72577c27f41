"""Features in which samples are compared: those that the training used, scaled so that distances are meaningful."""

from collections.abc import Callable

import torch
from torch import Tensor

from permll.data.inputs import Images, Inputs, LazyImages, Vectors

NEAR_SIDE, OUTLIER_SIDE = 8, 16  # pixels to which images are averaged: small shifts matter less, textures are kept
LAZY_SIDE = 32  # to which images in files are decoded
BLOCK_ROWS = 2_048


def comparable_features(inputs: Inputs, side: int = NEAR_SIDE, *, gray: bool = False) -> Tensor:
    """Return (N, d) features of encoded samples: vectors of unit variance or unit length, or pixels.

    Args:
        inputs: vectors, images, or items of a PyTorch dataset.
        side: of averaged images, in pixels.
        gray: whether the colors of images are averaged, too.

    Examples:
        >>> comparable_features(Images(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))).shape
        torch.Size([2, 192])
        >>> comparable_features(Vectors(torch.tensor([[1.0, 5.0], [2.0, 5.0]])))
        tensor([[-1.,  0.],
                [ 1.,  0.]])
    """
    if isinstance(inputs, Vectors):
        x = inputs.values
        return torch.nn.functional.normalize(x, dim=1) if inputs.scaled else _standardize(x)
    if isinstance(inputs, LazyImages):
        inputs = inputs.small if inputs.small is not None else inputs.resize(LAZY_SIDE, "stretch")
    blocks = [_flatten(inputs.batch(rows), side, gray) for rows in torch.arange(len(inputs)).split(BLOCK_ROWS)]
    x = torch.cat(blocks)
    return x if _is_image_like(inputs) else _standardize(x)


def without_flags(x: Tensor) -> Tensor:
    """Return the features without columns of two values, such as categories and empty cells, if others are left.

    A rare category or an empty cell would make a sample an outlier, whatever its other columns say.

    Examples:
        >>> without_flags(torch.tensor([[0.1, 0.0], [0.4, 0.0], [0.2, 1.0]]))
        tensor([[0.1000],
                [0.4000],
                [0.2000]])
    """
    is_flag = ((x == x.amin(0)) | (x == x.amax(0))).all(0)
    return x if is_flag.all() else x[:, ~is_flag]


def _is_image_like(inputs: Inputs) -> bool:
    return inputs.batch(torch.arange(1)).ndim == 4


def _flatten(batch: Tensor, side: int, gray: bool) -> Tensor:
    """Return images (B, C, H, W) averaged to at most side x side, or other samples, as vectors."""
    x = batch.float() / 255 if batch.dtype == torch.uint8 else batch.float()
    x = x.mean(1, keepdim=True) if gray and x.ndim == 4 else x
    if x.ndim == 4 and max(x.shape[2:]) > side:
        x = torch.nn.functional.adaptive_avg_pool2d(x, (min(side, x.shape[2]), min(side, x.shape[3])))
    return x.flatten(1)


def _standardize(x: Tensor) -> Tensor:
    """Return columns with mean 0 and variance 1; constant ones are 0."""
    x = x / x.abs().amax(0).clamp_min(torch.finfo(x.dtype).tiny)  # squares of huge numbers would overflow
    x -= x.mean(0, dtype=torch.float64).float()
    std = x.square().mean(0, dtype=torch.float64).sqrt().float()
    return x / std.masked_fill(std <= 1e-7, torch.inf)


def blank_rows(inputs: Inputs, rows: Callable[[], Tensor]) -> list[int]:
    """Return samples without content: images of one color, or vectors of zeros.

    Args:
        inputs: images or vectors as they were read.
        rows: returns those to decode, if images are in files.

    Examples:
        >>> pixels = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8)
        >>> pixels[1] = 7
        >>> blank_rows(Images(pixels), lambda: torch.arange(0))
        [1]
    """
    if isinstance(inputs, Vectors):
        return (inputs.values == 0).all(1).nonzero()[:, 0].tolist()
    if isinstance(inputs, LazyImages):
        selected = rows()
        small = inputs.small if inputs.small is not None else inputs.resize(LAZY_SIDE, "stretch")
        spread = _spread(small.batch(selected)) if len(selected) else torch.empty(0)
        return selected[spread <= 4].tolist()
    if isinstance(inputs, Images):
        parts = torch.arange(len(inputs)).split(BLOCK_ROWS)
        return (torch.cat([_spread(inputs.batch(part)) for part in parts]) <= 4).nonzero()[:, 0].tolist()
    return []


def _spread(pixels: Tensor) -> Tensor:
    """Return (B,) the largest range of a channel; a compressed image of one color has a few levels."""
    flat = pixels.flatten(2)
    return (flat.amax(2).int() - flat.amin(2).int()).amax(1)
