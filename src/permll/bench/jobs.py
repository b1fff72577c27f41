"""Jobs of a benchmark: one method, data set, noise and seed each, trained in a run folder."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from permll.training.recipe import Recipe, recipe_diff
from permll.training.run import Run

PreparedData = Literal["table1", "table2", "figure3"]
JobStatus = Literal["finished", "started", "pending", "conflict"]
NOISE_SEED_OFFSET = 42  # a job with seed s draws noise and splits with seed 42 + s


@dataclass(frozen=True)
class Job:
    """One training run of a benchmark.

    Args:
        experiment: ``"table1"``, ``"table2"`` or ``"figure3"``.
        tier: size of the experiment.
        data: name of the data set.
        noise: noise setting such as ``"sym-60"``, or ``"real"``.
        method: name in the method registry.
        variant: variant of the method, ``""`` for the default.
        seed: seed of initial weights and sample order; noise and splits are drawn with 42 + seed.
        recipe_name: name of the built-in recipe that ``overrides`` change.
        overrides: changed values by dotted key, including the method and the seed.
        recipe: resolved recipe.
        folder: run folder.
        source: file with real noisy labels, if the data come from one.
    """

    experiment: PreparedData
    tier: str
    data: str
    noise: str
    method: str
    variant: str
    seed: int
    recipe_name: str
    overrides: Mapping[str, Any] = field(repr=False)
    recipe: Recipe = field(repr=False)
    folder: Path
    source: Path | None = None

    @property
    def columns(self) -> dict[str, str | int]:
        """The job's entries in tables of results and failures."""
        names = ("tier", "data", "noise", "method", "variant", "seed")
        return {name: getattr(self, name) for name in names} | {"folder": str(self.folder), "command": self.command}

    @property
    def title(self) -> str:
        """Short description: "permll-label on fashion_mnist, sym-60, seed 1"."""
        return f"{format_method(self.method, self.variant)} on {self.data}, {self.noise}, seed {self.seed}"

    @property
    def command(self) -> str:
        """Command line that runs this job alone; the folder of built-in data sets is left to ``$PERMLL_DATA``."""
        options = {"method.name": "--method", "training.seed": "--seed"}
        words = ["permll", "train", self.recipe_name]
        for key, value in self.overrides.items():
            text = value if isinstance(value, str) else json.dumps(value)
            if key != "data.root":
                words += [options[key], text] if key in options else ["--set", f"{key}={text}"]
        return shlex.join([*words, "--out", str(self.folder)])

    @property
    def status(self) -> JobStatus:
        """State of the run folder; ``"conflict"`` if it holds a run of another recipe."""
        run = Run(self.folder)
        if not run.exists:
            return "pending"
        recipe_hash = run.result["recipe_hash"] if run.finished else run.recipe.hash
        if recipe_hash != self.recipe.hash:
            return "conflict"
        return "finished" if run.finished else "started"

    @property
    def conflict(self) -> str:
        """Error message for a folder with the status ``"conflict"``."""
        changed = recipe_diff(Run(self.folder).recipe, self.recipe)
        return f"{self.folder} holds a run of another recipe ({changed}); it was not changed: choose another --out."


def format_method(method: str, variant: str) -> str:
    """Return the name of a method and its variant.

    Examples:
        >>> format_method("permll", "label"), format_method("ce", "")
        ('permll-label', 'ce')
    """
    return f"{method}-{variant}" if variant else method


def format_job_name(setting: str, method: str, variant: str, seed: int) -> str:
    """Return the name of a job's folder; a user-defined method ``module:Class`` is reduced to word characters.

    Examples:
        >>> format_job_name("sym-60", "permll", "label", 1)
        'sym-60-permll-label-1'
    """
    return f"{setting}-{format_method(_slug(method), variant)}-{seed}"


def parse_job_name(folder: str, method: str, seed: int) -> tuple[str, str] | None:
    """Return setting and variant in a folder name, given the method and the seed of its run; None for other folders.

    Examples:
        >>> parse_job_name("cifar10-sym-60-permll-label-1", "permll", 1)
        ('cifar10-sym-60', 'label')
        >>> parse_job_name("first", "permll", 1) is None
        True
    """
    match = re.fullmatch(rf"(?P<setting>.+?)-{re.escape(_slug(method))}(?:-(?P<variant>.+))?-{seed}", folder)
    return None if match is None else (match["setting"], match["variant"] or "")


def _slug(method: str) -> str:
    return re.sub(r"\W+", "_", method)
