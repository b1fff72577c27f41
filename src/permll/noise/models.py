"""What noise is: which samples are picked, and what becomes of a label that was.

Papers that write "symmetric 60 %" mean different things. Two questions settle what is meant, and a ``Noise`` answers
both: where a picked label may go (also back to the true class?), and how samples are picked (a coin for each, an exact
number, an exact number in each class).
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from permll.noise.maps import ClassMap

Pick = Literal["coin", "exact", "per_class"]


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """A share ``rate`` of the samples is picked; a picked sample of class i gets class j with ``destinations[i, j]``.

    Args:
        name: what to call it in records and figures.
        rate: the share that is picked, in [0, 1]. How many labels change is another matter: some may keep their class.
        destinations: (c, c), rows sum to one. A row with all its weight on the diagonal leaves its class alone.
        pick: ``"coin"`` (each sample by itself), ``"exact"`` (that share of all samples, rounded down), ``"per_class"``
            (of each class).
        cycle: deal destinations out in turn, beginning one before the true class, instead of drawing them: what the
            paper's code does for symmetric noise. Needs ``pick="per_class"`` and a row that allows every class.
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
        bad = np.flatnonzero((matrix < 0).any(1) | ~np.isclose(matrix.sum(1), 1))
        if len(bad):
            raise ValueError(f"row {bad[0]} of the destinations is not a distribution: {matrix[bad[0]]}.")
        if self.cycle and (self.pick != "per_class" or not (matrix > 0).all()):
            raise ValueError("cycle needs pick='per_class' and destinations that allow every class.")

    def __repr__(self) -> str:
        cycle = ", cycle" if self.cycle else ""
        return f"Noise({self.name!r}, rate {self.rate:g}, {self.num_classes} classes, pick {self.pick}{cycle})"

    @property
    def num_classes(self) -> int:
        """Return c."""
        return len(self.destinations)

    @property
    def transition(self) -> NDArray[np.float64]:
        """Return the expected T (c, c), T[i, j] = P(given = j | true = i)."""
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
    """Return noise that sends a picked label anywhere; ``include_true`` says whether also back to its own class.

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


def mapped(class_map: ClassMap, num_classes: int, rate: float, *, pick: Pick = "coin", name: str = "mapped") -> Noise:
    """Return noise that sends each class of ``class_map`` to its one counterpart and leaves the others alone.

    Examples:
        >>> mapped({0: 1}, 2, 0.25).transition
        array([[0.75, 0.25],
               [0.  , 1.  ]])
    """
    outside = [c for pair in class_map.items() for c in pair if not 0 <= c < num_classes]
    if outside:
        raise ValueError(f"the map names class {outside[0]}, outside 0..{num_classes - 1}.")
    destinations = np.eye(num_classes)[[class_map.get(true, true) for true in range(num_classes)]]
    return Noise(name, rate, destinations, pick)


def from_matrix(transition: Any, name: str = "matrix") -> Noise:
    """Return noise with the transition matrix T (c, c), T[i, j] = P(given = j | true = i), by coin flips."""
    return Noise(name, 1.0, np.asarray(transition, dtype=np.float64))
