"""Noise models: which samples are selected, and which class a selected sample gets.

Papers that report "symmetric 60 %" mean different things. They differ in whether a selected label may keep its class,
and in how samples are selected: independently, an exact number of all samples, or an exact number of each class.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from permll.noise.class_maps import ClassMap

Pick = Literal["coin", "exact", "per_class"]


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """Class-dependent noise: a fraction of the samples is selected, and class i becomes j with ``destinations[i, j]``.

    Args:
        name: name in records and figures.
        rate: fraction of selected samples in [0, 1]; the noise rate is lower if a selected label may keep its class.
        destinations: (c, c) matrix whose rows sum to 1; a row with 1 on the diagonal leaves its class unchanged.
        pick: selection: ``"coin"`` (each sample independently), ``"exact"`` (that fraction of all samples, rounded
            down) or ``"per_class"`` (that fraction of each class, rounded down).
        cycle: assign destinations in turn, starting one before the true class, instead of sampling them, as in the
            paper's code for symmetric noise; needs ``pick="per_class"`` and rows without zeros.
    """

    name: str
    rate: float
    destinations: NDArray[np.float64]
    pick: Pick = "coin"
    cycle: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"the noise rate must lie in [0, 1], got {self.rate}.")
        if self.pick not in get_args(Pick):
            raise ValueError(f"pick must be one of {', '.join(get_args(Pick))}; got {self.pick!r}.")
        matrix = self.destinations
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(f"destinations must be a c x c matrix with c > 1, got shape {matrix.shape}.")
        invalid = np.flatnonzero((matrix < 0).any(1) | ~np.isclose(matrix.sum(1), 1))
        if len(invalid):
            raise ValueError(f"row {invalid[0]} of the destinations is not a distribution: {matrix[invalid[0]]}.")
        if self.cycle and (self.pick != "per_class" or not (matrix > 0).all()):
            raise ValueError("cycle needs pick='per_class' and destinations without zeros.")

    def __repr__(self) -> str:
        cycle = ", cycle" if self.cycle else ""
        return f"Noise({self.name!r}, rate {self.rate:g}, {self.num_classes} classes, pick {self.pick}{cycle})"

    @property
    def num_classes(self) -> int:
        """Number of classes c."""
        return len(self.destinations)

    @property
    def transition(self) -> NDArray[np.float64]:
        """Expected transition matrix T (c, c), T[i, j] = P(given = j | true = i)."""
        return (1 - self.rate) * np.eye(self.num_classes) + self.rate * self.destinations


def symmetric(
    num_classes: int,
    rate: float,
    *,
    include_true: bool,
    pick: Pick = "coin",
    cycle: bool = False,
    name: str = "symmetric",
) -> Noise:
    """Return noise with uniform destinations; ``include_true`` says whether they include the true class.

    Examples:
        >>> float(symmetric(10, 0.6, include_true=True).transition[0, 0].round(2))
        0.46
        >>> float(symmetric(10, 0.6, include_true=False).transition[0, 0].round(2))
        0.4
    """
    if include_true:
        destinations = np.full((num_classes, num_classes), 1 / num_classes)
    else:
        destinations = (1 - np.eye(num_classes)) / (num_classes - 1)
    return Noise(name, rate, destinations, pick, cycle)


def asymmetric(
    class_map: ClassMap, num_classes: int, rate: float, *, pick: Pick = "coin", name: str = "asymmetric"
) -> Noise:
    """Return noise that flips each class of ``class_map`` to its image and leaves the other classes unchanged.

    Examples:
        >>> asymmetric({0: 1}, 2, 0.25).transition
        array([[0.75, 0.25],
               [0.  , 1.  ]])
    """
    outside = [c for pair in class_map.items() for c in pair if not 0 <= c < num_classes]
    if outside:
        raise ValueError(f"the class map contains class {outside[0]}, outside 0..{num_classes - 1}.")
    destinations = np.eye(num_classes)[[class_map.get(true, true) for true in range(num_classes)]]
    return Noise(name, rate, destinations, pick)


def from_matrix(transition: Any, name: str = "matrix") -> Noise:
    """Return noise with transition matrix T (c, c), T[i, j] = P(given = j | true = i), sampled independently."""
    return Noise(name, 1.0, np.asarray(transition, dtype=np.float64))
