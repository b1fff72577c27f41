"""The six settings that each method may choose from at tier mini: the authors' own among them, where there are any."""

from itertools import product
from typing import Any

Setting = dict[str, Any]  # dotted keys of a recipe


def grid(**values: list[Any]) -> list[Setting]:
    """Return all combinations, keys with two underscores for a dot."""
    keys = [key.replace("__", ".") for key in values]
    return [dict(zip(keys, chosen, strict=True)) for chosen in product(*values.values())]


DECAY = [5e-4, 2e-3]

GRIDS: dict[str, list[Setting]] = {
    "ce": grid(optimizer__lr=[0.02, 0.05, 0.1], optimizer__weight_decay=DECAY),
    "permll": grid(method__init=[0.2, 0.35], method__lr=[0.046875, 0.09375, 0.1875]),  # η = 6, 12, 24
}
