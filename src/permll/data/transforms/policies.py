"""RandAugment and the CIFAR-10 policy of AutoAugment, on whole batches.

Every image draws its own operations; images with the same operation are processed together.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from permll.data.transforms import color
from permll.data.transforms.counter_rng import fold_in, randint, uniform
from permll.data.transforms.geometry import affine, rotation_matrix, shear_matrix, translation_matrix

FILL = 128  # gray, for pixels from outside the image

# Operations come in three forms, so that different ones can still be processed together. All take a magnitude (B,) in
# [0, 1], most also a sign (B,) of -1 or 1. Magnitude 1: shear by 0.3, shift by 150/331 of the size, rotate by 30
# degrees, blend by 0.9, keep 4 bits, invert all.
GEOMETRIC_OPS: dict[str, Callable[[Tensor, int, int], Tensor]] = {  # signed magnitude, height, width -> matrix
    "shear_x": lambda m, _h, _w: shear_matrix(0.3 * m, 0 * m),
    "shear_y": lambda m, _h, _w: shear_matrix(0 * m, 0.3 * m),
    "translate_x": lambda m, _h, w: translation_matrix((150 / 331 * w * m).trunc(), 0 * m),
    "translate_y": lambda m, h, _w: translation_matrix(0 * m, (150 / 331 * h * m).trunc()),
    "rotate": lambda m, h, w: rotation_matrix(30 * m, h, w),
}
BLEND_OPS: dict[str, Callable[[Tensor], Tensor]] = {  # images -> images to blend with
    "brightness": torch.zeros_like,
    "color": lambda x: color.gray(x).expand_as(x),
    "contrast": color.mean_gray,
    "sharpness": color.smooth,
}
PIXEL_OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # images, magnitude -> images
    "posterize": lambda x, m: color.posterize(x, 8 - (4 * m).round()),
    "solarize": lambda x, m: color.solarize(x, 255 * (1 - m)),
    "autocontrast": lambda x, _m: color.autocontrast(x),
    "equalize": lambda x, _m: color.equalize(x),
    "invert": lambda x, _m: color.invert(x),
}
OPERATIONS = ("identity", *GEOMETRIC_OPS, *BLEND_OPS, *PIXEL_OPS)
_NUM_RANDOM = len(OPERATIONS) - 1  # RandAugment draws from all but the last, invert

# The 25 sub-policies for CIFAR-10: two of (operation, probability, magnitude in ninths).
CIFAR_POLICY: tuple[tuple[tuple[str, float, int], tuple[str, float, int]], ...] = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)), (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)), (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)), (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)), (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)), (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)), (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)), (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)), (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)), (("color", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)), (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)), (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)), (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 1)),
)  # fmt: skip


@dataclass(frozen=True)
class RandAugment:
    """``num_ops`` random operations in turn on each image, all of one ``magnitude`` in [0, 1].

    The published settings count the magnitude in 30ths: 9 of 30 is 0.3.
    """

    num_ops: int = 2
    magnitude: float = 0.3

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch, uint8."""
        magnitude = torch.full((len(batch),), self.magnitude)
        for number in range(self.num_ops):
            op_keys = fold_in(keys, number)
            batch = apply_operations(batch, randint(op_keys, _NUM_RANDOM), magnitude, _signs(op_keys))
        return batch


@dataclass(frozen=True)
class AutoAugment:
    """AutoAugment's policy for CIFAR-10: one of 25 pairs of operations for each image."""

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch, uint8."""
        pair = randint(fold_in(keys, 2), len(CIFAR_POLICY))
        for number in (0, 1):
            op_keys = fold_in(keys, number)
            table = [sub_policy[number] for sub_policy in CIFAR_POLICY]
            operation = torch.tensor([OPERATIONS.index(name) for name, _, _ in table])[pair]
            probability = torch.tensor([p for _, p, _ in table])[pair]
            magnitude = torch.tensor([level / 9 for _, _, level in table])[pair]
            skip = uniform(fold_in(op_keys, 0), 1)[:, 0] >= probability
            operation = operation.masked_fill(skip, OPERATIONS.index("identity"))
            batch = apply_operations(batch, operation, magnitude, _signs(op_keys))
        return batch


def apply_operations(batch: Tensor, operation: Tensor, magnitude: Tensor, sign: Tensor) -> Tensor:
    """Return the batch with operation number ``operation`` (B,) of ``OPERATIONS`` applied to each image."""
    if batch.dtype != torch.uint8:
        raise TypeError(f"augmentation policies take uint8 images, before Normalize; got {batch.dtype}.")
    if len(batch) == 0:
        return batch
    # The draws were made on the CPU; from here on all happens on the device of the images.
    rows_by_op = {
        OPERATIONS[number]: (operation == number).nonzero()[:, 0].to(batch.device)
        for number in operation.unique().tolist()
    }
    magnitude, sign = magnitude.to(batch.device), sign.to(batch.device)
    pieces = [piece for apply in (_geometric, _blend, _pixel) for piece in apply(batch, rows_by_op, magnitude, sign)]
    pieces += [(rows, batch.index_select(0, rows)) for name, rows in rows_by_op.items() if name == "identity"]
    order = torch.cat([rows for rows, _ in pieces]).argsort()  # far faster than writing the pieces into the batch
    return torch.cat([images for _, images in pieces]).index_select(0, order)


Pieces = list[tuple[Tensor, Tensor]]  # rows of the batch, and their images


def _geometric(batch: Tensor, rows_by_op: dict[str, Tensor], magnitude: Tensor, sign: Tensor) -> Pieces:
    ops = {name: rows for name, rows in rows_by_op.items() if name in GEOMETRIC_OPS}
    if not ops:
        return []
    matrix = torch.cat([GEOMETRIC_OPS[name]((magnitude * sign)[rows], *batch.shape[2:]) for name, rows in ops.items()])
    chosen = torch.cat(list(ops.values()))
    return [(chosen, affine(batch.index_select(0, chosen), matrix, FILL))]


def _blend(batch: Tensor, rows_by_op: dict[str, Tensor], magnitude: Tensor, sign: Tensor) -> Pieces:
    ops = {name: rows for name, rows in rows_by_op.items() if name in BLEND_OPS}
    if not ops:
        return []
    other = torch.cat([BLEND_OPS[name](batch.index_select(0, rows)) for name, rows in ops.items()])
    chosen = torch.cat(list(ops.values()))
    return [(chosen, color.blend(other, batch.index_select(0, chosen), (1 + 0.9 * magnitude * sign)[chosen]))]


def _pixel(batch: Tensor, rows_by_op: dict[str, Tensor], magnitude: Tensor, _sign: Tensor) -> Pieces:
    ops = {name: rows for name, rows in rows_by_op.items() if name in PIXEL_OPS}
    return [(rows, PIXEL_OPS[name](batch.index_select(0, rows), magnitude[rows])) for name, rows in ops.items()]


def _signs(keys: Tensor) -> Tensor:
    return 1 - 2 * randint(fold_in(keys, 1), 2).float()
