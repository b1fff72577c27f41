"""Published class maps of asymmetric noise, as true class -> given class.

Asymmetric noise on CIFAR-100 has four different meanings in the literature; each has its own name here.
"""

from collections.abc import Mapping

import numpy as np

ClassMap = Mapping[int, int]

# truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog (Patrini et al. 2017)
CIFAR10: ClassMap = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
CIFAR10_WITHOUT_DOG_TO_CAT: ClassMap = {true: given for true, given in CIFAR10.items() if true != 5}

# shirt -> T-shirt, pullover <-> coat, ankle boot -> sneaker, sandal -> sneaker, dress -> T-shirt
FASHION_MNIST: ClassMap = {6: 0, 2: 4, 4: 2, 9: 7, 5: 7, 3: 0}

# Fine classes of the 20 superclasses of CIFAR-100, in the order of the released coarse labels.
CIFAR100_SUPERCLASSES: tuple[tuple[int, ...], ...] = (
    (4, 30, 55, 72, 95), (1, 32, 67, 73, 91), (54, 62, 70, 82, 92), (9, 10, 16, 28, 61), (0, 51, 53, 57, 83),
    (22, 39, 40, 86, 87), (5, 20, 25, 84, 94), (6, 7, 14, 18, 24), (3, 42, 43, 88, 97), (12, 17, 37, 68, 76),
    (23, 33, 49, 60, 71), (15, 19, 21, 31, 38), (34, 63, 64, 66, 75), (26, 45, 77, 79, 99), (2, 11, 35, 46, 98),
    (27, 29, 44, 78, 93), (36, 50, 65, 74, 80), (47, 52, 56, 59, 96), (8, 13, 48, 58, 90), (41, 69, 81, 85, 89),
)  # fmt: skip

_BLOCKS = tuple(tuple(range(first, first + 5)) for first in range(0, 100, 5))


def next_class(num_classes: int) -> ClassMap:
    """Return i -> i + 1 mod c: pair flip, and one of the meanings of asymmetric noise on CIFAR-100."""
    return _cyclic_map((tuple(range(num_classes)),))


def cifar100_blocks() -> ClassMap:
    """Return the cyclic map within blocks of five consecutive classes, as in the paper's code.

    The classes of CIFAR-100 are in alphabetical order, so these blocks are not the superclasses.

    Examples:
        >>> cifar100_blocks()[9]
        5
    """
    return _cyclic_map(_BLOCKS)


def cifar100_superclasses() -> ClassMap:
    """Return the cyclic map within superclasses, as in the paper's text.

    Examples:
        >>> cifar100_superclasses()[95]  # whale -> beaver
        4
    """
    return _cyclic_map(CIFAR100_SUPERCLASSES)


def cifar100_block_pairs(seed: int) -> ClassMap:
    """Return the map that swaps two random classes of each block of five; 60 classes stay unchanged."""
    generator = np.random.default_rng(seed)
    pairs = [generator.choice(block, 2, replace=False).tolist() for block in _BLOCKS]
    return {true: given for a, b in pairs for true, given in ((a, b), (b, a))}


def _cyclic_map(groups: tuple[tuple[int, ...], ...]) -> ClassMap:
    return {true: group[(i + 1) % len(group)] for group in groups for i, true in enumerate(group)}
