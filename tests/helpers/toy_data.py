"""A small dataset for the tests of streams and splits."""

import torch

from permll.data import Images, LabeledData


def toy(rows: int, classes: int = 3, seed: int = 0) -> LabeledData:
    """Return random images of 8 x 8 with unbalanced labels."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (rows, 3, 8, 8), generator=generator).byte()
    class_probs = 1.0 / torch.arange(1, classes + 1)
    labels = torch.multinomial(class_probs, rows, replacement=True, generator=generator)
    names = tuple(f"class {number}" for number in range(classes))
    return LabeledData(Images(pixels), labels, names, tuple(f"{row}.png" for row in range(rows)))
