"""A run: a folder with everything about one training. It resumes by itself; a finished one is only read."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from permll.data.problems import listed
from permll.data.record import Data
from permll.noise.corruption import Corruption
from permll.training.checkpoint import Checkpoints
from permll.training.recipe import Recipe, load_recipe


class Run:
    """The folder of a training.

    ``recipe.toml`` (resolved), ``labels.npz`` (given labels, ids, classes), ``noise.npz`` (the record of noise, if
    any), ``metrics.jsonl`` (a line for every epoch, the same however often the run was interrupted), ``checkpoints/``,
    and at the end ``result.json``.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'finished' if self.finished else f'{len(self.metrics)} epochs done'})"

    @property
    def exists(self) -> bool:
        """Whether a training was begun here."""
        return (self.folder / "recipe.toml").is_file()

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return (self.folder / "result.json").is_file()

    @property
    def recipe(self) -> Recipe:
        """What was trained, and how."""
        return load_recipe(self.folder / "recipe.toml")

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """One entry for every epoch."""
        return list(self._lines("metrics.jsonl"))

    @property
    def result(self) -> dict[str, Any]:
        """The numbers to report; only a finished run has them."""
        if not self.finished:
            raise FileNotFoundError(f"{self.folder} is not finished: permll train {self.folder} goes on with it.")
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return result

    @property
    def rows(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of the samples that are trained on, and of those set aside to validate."""
        with np.load(self.folder / "labels.npz", allow_pickle=False) as saved:
            return tuple(saved["ids"].tolist()), tuple(saved["validation"].tolist())

    def begin(
        self, recipe: Recipe, data: Data, noise: Corruption | None = None, validation: Data | None = None
    ) -> None:
        """Make the folder; an empty one may be there already."""
        ours = {"labels.npz", "noise.npz"}  # of a beginning that was killed before it was one
        if self.folder.exists() and any(
            path.name not in ours and path.suffix != ".part" for path in self.folder.iterdir()
        ):
            raise FileExistsError(f"{self.folder} is not empty: choose another folder, or permll train {self.folder}.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.note_rows(data, validation)
        if noise is not None:
            noise.save(self.folder / "noise.npz")
        write_text(self.folder / "recipe.toml", recipe.to_toml())  # last: from now on it is a run

    def note_rows(self, data: Data, validation: Data | None = None) -> None:
        """Write down which samples with which labels are trained on, and which are set aside."""
        partial = self.folder / f".labels.npz.{os.getpid()}.part"
        with partial.open("wb") as file:
            np.savez_compressed(
                file,
                given=data.labels.numpy(),
                ids=np.array(data.ids),
                classes=np.array(data.classes),
                validation=np.array(() if validation is None else validation.ids, dtype=np.str_),
            )
        partial.replace(self.folder / "labels.npz")

    def check(self, data: Data) -> bool:
        """Refuse data that are not those of the run; return whether they are the same rows in the same order."""
        with np.load(self.folder / "labels.npz", allow_pickle=False) as saved:
            given, ids, classes = saved["given"], saved["ids"].tolist(), tuple(saved["classes"].tolist())
        if classes != data.classes:
            raise ValueError(
                f"{self.folder} was begun with {len(classes)} classes ({', '.join(classes[:5])}, ...), the data have "
                f"{len(data.classes)} ({', '.join(data.classes[:5])}, ...): start a new run."
            )
        if tuple(ids) == data.ids:
            changed = [data.ids[row] for row in np.flatnonzero(given != data.labels.numpy())]
        else:
            before = dict(zip(ids, given.tolist(), strict=True))
            known = [name for name in data.ids if name in before]
            if not known:
                raise ValueError(f"{self.folder} was begun with other data: it knows none of these samples.")
            now = dict(zip(data.ids, data.labels.tolist(), strict=True))
            changed = [name for name in known if before[name] != now[name]]
        if changed:
            raise ValueError(
                f"{self.folder} was begun with other labels for {listed(changed, 'sample')}: start a new run."
            )
        return tuple(ids) == data.ids

    def add_metrics(self, entry: Mapping[str, Any]) -> None:
        """Add the line of an epoch."""
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def forget_after(self, epoch: int) -> None:
        """Remove the lines of epochs beyond ``epoch``: they will be trained again."""
        lines = [json.dumps(entry) + "\n" for entry in self._lines("metrics.jsonl") if entry["epoch"] <= epoch]
        write_text(self.folder / "metrics.jsonl", "".join(lines))

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write down the numbers to report."""
        write_text(self.folder / "result.json", json.dumps(result, indent=2) + "\n")

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        path = self.folder / name
        if path.is_file():
            for line in path.read_text().splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    return  # a line that was being written when the process died


def default_folder(name: Recipe | Path | str | None, recipe: Recipe) -> Path:
    """Return the folder of a run that was not given one: runs/RECIPE-METHOD-SEED, or named after the data."""
    if name is None or isinstance(name, Recipe):
        name = Path(recipe.data.source).stem or recipe.title or "own"
    words = [str(name).removesuffix(".toml"), recipe.method.name, str(recipe.training.seed)]
    return Path("runs") / re.sub(r"[^\w.-]+", "-", "-".join(words)).strip("-.")


def write_text(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with partial.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
