"""Strong views: RandAugment and the CIFAR policy of AutoAugment, on whole batches.

Every image draws its own operations. Images that drew the same one are worked on together.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from permll.data.transforms import color
from permll.data.transforms.counter_rng import fold, uniform, whole
from permll.data.transforms.geometry import affine, shear_matrix, shift_matrix, turn_matrix

FILL = 128  # grey: what comes into the picture from outside

# Operations come in three forms, so that images that drew different ones can still be worked on together. All take a
# strength (B,) in [0, 1], most also a sign (B,) of -1 or 1. Strength 1: shear by 0.3, move by 150/331 of the size, turn
# by 30 degrees, blend by 0.9, keep 4 bits, invert all.
MOVES: dict[str, Callable[[Tensor, int, int], Tensor]] = {  # signed strength, height, width -> matrix
    "shear_x": lambda s, _h, _w: shear_matrix(0.3 * s, 0 * s),
    "shear_y": lambda s, _h, _w: shear_matrix(0 * s, 0.3 * s),
    "translate_x": lambda s, _h, w: shift_matrix((150 / 331 * w * s).trunc(), 0 * s),
    "translate_y": lambda s, h, _w: shift_matrix(0 * s, (150 / 331 * h * s).trunc()),
    "rotate": lambda s, h, w: turn_matrix(30 * s, h, w),
}
BLENDS: dict[str, Callable[[Tensor], Tensor]] = {  # images -> what they are blended with
    "brightness": torch.zeros_like,
    "color": lambda x: color.gray(x).expand_as(x),
    "contrast": color.mean_gray,
    "sharpness": color.smooth,
}
CHANGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # images, strength -> images
    "posterize": lambda x, s: color.posterize(x, 8 - (4 * s).round()),
    "solarize": lambda x, s: color.solarize(x, 255 * (1 - s)),
    "autocontrast": lambda x, _s: color.autocontrast(x),
    "equalize": lambda x, _s: color.equalize(x),
    "invert": lambda x, _s: color.invert(x),
}
OPERATIONS = ("identity", *MOVES, *BLENDS, *CHANGES)
_RANDOM = len(OPERATIONS) - 1  # RandAugment draws from all but the last, invert

# The 25 pairs found for CIFAR-10: (operation, chance, strength in ninths).
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
    """``operations`` random operations in turn on each image, all of one ``strength`` in [0, 1].

    The published settings count strength in 30ths: 9 of 30 is 0.3.
    """

    operations: int = 2
    strength: float = 0.3

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch, uint8 as it came."""
        strength = torch.full((len(batch),), self.strength)
        for number in range(self.operations):
            own = fold(keys, number)
            batch = apply_operations(batch, whole(own, _RANDOM), strength, _signs(own))
        return batch


@dataclass(frozen=True)
class AutoAugment:
    """The policy that AutoAugment found for CIFAR-10: one of 25 pairs of operations for each image."""

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch, uint8 as it came."""
        pair = whole(fold(keys, 2), len(CIFAR_POLICY))
        for place in (0, 1):
            own = fold(keys, place)
            table = [sub[place] for sub in CIFAR_POLICY]
            operation = torch.tensor([OPERATIONS.index(name) for name, _, _ in table])[pair]
            chance = torch.tensor([chance for _, chance, _ in table])[pair]
            strength = torch.tensor([level / 9 for _, _, level in table])[pair]
            skipped = uniform(fold(own, 0), 1)[:, 0] >= chance
            operation = operation.masked_fill(skipped, OPERATIONS.index("identity"))
            batch = apply_operations(batch, operation, strength, _signs(own))
        return batch


def apply_operations(batch: Tensor, operation: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """Return the batch with operation number ``operation`` (B,) of ``OPERATIONS`` done to each image."""
    if batch.dtype != torch.uint8:
        raise TypeError(f"policies work on uint8 images, before Normalize; got {batch.dtype}.")
    if len(batch) == 0:
        return batch
    drawn = {OPERATIONS[number]: _where(operation == number) for number in operation.unique().tolist()}
    # The draws were made on the CPU; from here on all happens where the images are.
    drawn = {name: rows.to(batch.device) for name, rows in drawn.items()}
    strength, sign = strength.to(batch.device), sign.to(batch.device)
    parts = [_moved, _blended, _changed, _left]
    done = [piece for part in parts for piece in part(batch, drawn, strength, sign)]
    order = torch.cat([rows for rows, _ in done]).argsort()  # far faster than writing the pieces into their places
    return torch.cat([images for _, images in done]).index_select(0, order)


Pieces = list[tuple[Tensor, Tensor]]  # rows of the batch, and what became of them


def _moved(batch: Tensor, drawn: dict[str, Tensor], strength: Tensor, sign: Tensor) -> Pieces:
    own = {name: rows for name, rows in drawn.items() if name in MOVES}
    if not own:
        return []
    matrix = torch.cat([MOVES[name]((strength * sign)[rows], *batch.shape[2:]) for name, rows in own.items()])
    rows = torch.cat(list(own.values()))
    return [(rows, affine(batch.index_select(0, rows), matrix, FILL))]


def _blended(batch: Tensor, drawn: dict[str, Tensor], strength: Tensor, sign: Tensor) -> Pieces:
    own = {name: rows for name, rows in drawn.items() if name in BLENDS}
    if not own:
        return []
    other = torch.cat([BLENDS[name](batch.index_select(0, rows)) for name, rows in own.items()])
    rows = torch.cat(list(own.values()))
    return [(rows, color.blend(other, batch.index_select(0, rows), (1 + 0.9 * strength * sign)[rows]))]


def _changed(batch: Tensor, drawn: dict[str, Tensor], strength: Tensor, _sign: Tensor) -> Pieces:
    own = {name: rows for name, rows in drawn.items() if name in CHANGES}
    return [(rows, CHANGES[name](batch.index_select(0, rows), strength[rows])) for name, rows in own.items()]


def _left(batch: Tensor, drawn: dict[str, Tensor], _strength: Tensor, _sign: Tensor) -> Pieces:
    return [(rows, batch.index_select(0, rows)) for name, rows in drawn.items() if name == "identity"]


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero()[:, 0]


def _signs(keys: Tensor) -> Tensor:
    return 1 - 2 * whole(fold(keys, 1), 2).float()
