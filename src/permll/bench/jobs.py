"""A cell of the grid: one method on one data set with one noise and one seed, trained in a folder of its own."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from permll.training.recipe import Recipe, recipe_diff
from permll.training.run import Run

Part = Literal["table1", "table2", "figure3"]
Standing = Literal["finished", "begun", "missing", "other"]
FIRST_DRAW = 42  # seed s draws noise and splits with 42 + s


class Named(NamedTuple):
    """What the name of a cell's folder says."""

    column: str
    method: str
    variant: str
    seed: int


@dataclass(frozen=True)
class Cell:
    """One training.

    Args:
        part: of what: ``"table1"``, ``"table2"`` or ``"figure3"``.
        tier: of the experiment.
        data: the data set.
        noise: such as ``"sym-60"``, or ``"real"``.
        method: its name in the registry.
        variant: of the method, ``""`` for the method as its recipe has it.
        seed: of initial weights and orders; noise and splits are drawn with 42 + seed.
        frame: the built-in recipe it begins with.
        changes: what is changed in it, by dotted keys, the method and the seed among them.
        recipe: what comes of both.
        folder: where it is trained.
        source: the file of real noisy labels that its data are made of, if any.
    """

    part: Part
    tier: str
    data: str
    noise: str
    method: str
    variant: str
    seed: int
    frame: str
    changes: Mapping[str, Any] = field(repr=False)
    recipe: Recipe = field(repr=False)
    folder: Path
    source: Path | None = None

    @property
    def title(self) -> str:
        """The cell in a few words: "permll-label on fashion_mnist, sym-60, seed 1"."""
        return f"{spelled(self.method, self.variant)} on {self.data}, {self.noise}, seed {self.seed}"

    @property
    def command(self) -> str:
        """What trains this cell alone, on any machine: where built-in data are, it leaves to ``$PERMLL_DATA``."""
        short = {"method.name": "--method", "training.seed": "--seed"}
        words = ["permll", "train", self.frame]
        for key, value in self.changes.items():
            text = value if isinstance(value, str) else json.dumps(value)
            if key != "data.root":
                words += [short[key], text] if key in short else ["--set", f"{key}={text}"]
        return shlex.join([*words, "--out", str(self.folder)])

    @property
    def standing(self) -> Standing:
        """Whether it is finished, begun or missing; or its folder holds a run of another recipe."""
        run = Run(self.folder)
        if not run.exists:
            return "missing"
        found = run.result["recipe_hash"] if run.finished else run.recipe.hash
        if found != self.recipe.hash:
            return "other"
        return "finished" if run.finished else "begun"

    @property
    def obstacle(self) -> str:
        """Say what is in the folder of a cell that stands as ``"other"``."""
        what = recipe_diff(Run(self.folder).recipe, self.recipe)
        return f"{self.folder} is a run of another recipe ({what}): it is left alone; choose another --out."


def spelled(method: str, variant: str) -> str:
    """Return how a method and its variant are written together.

    Examples:
        >>> spelled("permll", "label"), spelled("ce", "")
        ('permll-label', 'ce')
    """
    return f"{method}-{variant}" if variant else method


def folder_name(named: Named) -> str:
    """Return the name of a cell's folder; a method of one's own is named by letters alone.

    Examples:
        >>> folder_name(Named("sym-60", "permll", "label", 1))
        'sym-60-permll-label-1'
    """
    return f"{named.column}-{spelled(_word(named.method), named.variant)}-{named.seed}"


def read_folder_name(name: str, method: str, seed: int) -> Named | None:
    """Return what a folder's name says about a run of this method and seed, or None if it is no cell's name.

    Examples:
        >>> read_folder_name("cifar10-sym-60-permll-label-1", "permll", 1)
        Named(column='cifar10-sym-60', method='permll', variant='label', seed=1)
        >>> read_folder_name("first", "permll", 1) is None
        True
    """
    found = re.fullmatch(rf"(?P<column>.+?)-{re.escape(_word(method))}(?:-(?P<variant>.+))?-{seed}", name)
    return None if found is None else Named(found["column"], method, found["variant"] or "", seed)


def _word(method: str) -> str:
    return re.sub(r"\W+", "_", method)
