"""A run: a folder with everything about one training. It resumes by itself; a finished one is only read."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permll.data.dataset import LabeledData
from permll.noise.corruption import Corruption
from permll.training.checkpoint import Checkpoints
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe
from permll.utils.files import atomic_write, atomic_write_text
from permll.utils.messages import format_list

if TYPE_CHECKING:
    from permll.training.findings import Finding

LOCK_FILE = ".lock"


class Run:
    """The folder of a training.

    ``recipe.toml`` (resolved), ``labels.npz`` (given labels, ids, classes), ``noise.npz`` (the record of noise, if
    any), ``metrics.jsonl`` (a line for every epoch, the same however often the run was interrupted), ``checkpoints/``,
    and at the end ``findings.csv`` (every label, the most suspect first) and ``result.json``.
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
    def findings(self) -> "list[Finding]":
        """What a finished run has to say about every label, the most suspect first."""
        from permll.training.findings import read_findings

        return read_findings(self.folder)

    @property
    def rows(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of the samples that are trained on, and of those set aside to validate."""
        with np.load(self.folder / "labels.npz", allow_pickle=False) as saved:
            return tuple(saved["ids"].tolist()), tuple(saved["validation"].tolist())

    def begin(
        self, recipe: Recipe, data: LabeledData, noise: Corruption | None = None, validation: LabeledData | None = None
    ) -> None:
        """Make the folder; an empty one may be there already."""
        self.check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save_split(data, validation)
        if noise is not None:
            noise.save(self.folder / "noise.npz")
        atomic_write_text(self.folder / "recipe.toml", recipe.to_toml())  # last: from now on it is a run

    def save_split(self, data: LabeledData, validation: LabeledData | None = None) -> None:
        """Write down which samples with which labels are trained on, and which are set aside."""
        with atomic_write(self.folder / "labels.npz") as file:
            np.savez_compressed(
                file,
                given=data.labels.numpy(),
                ids=np.array(data.ids),
                classes=np.array(data.classes),
                validation=np.array(() if validation is None else validation.ids, dtype=np.str_),
                validation_given=np.array(() if validation is None else validation.labels.tolist(), dtype=np.int64),
            )

    def check(self, data: LabeledData, validation: LabeledData | None = None) -> bool:
        """Refuse data that are not those of the run; return whether they are the same rows in the same order."""
        with np.load(self.folder / "labels.npz", allow_pickle=False) as saved:
            classes, ids = tuple(saved["classes"].tolist()), saved["ids"].tolist()
            before = dict(zip(ids, saved["given"].tolist(), strict=True))
            before |= dict(zip(saved["validation"].tolist(), saved["validation_given"].tolist(), strict=True))
        if classes != data.classes:
            raise ValueError(
                f"{self.folder} was begun with {len(classes)} classes ({', '.join(classes[:5])}, ...), the data have "
                f"{len(data.classes)} ({', '.join(data.classes[:5])}, ...): start a new run."
            )
        now = dict(zip(data.ids, data.labels.tolist(), strict=True))
        if not any(name in now for name in ids):
            raise ValueError(f"{self.folder} was begun with other data: it knows none of these samples.")
        if validation is not None:
            now |= dict(zip(validation.ids, validation.labels.tolist(), strict=True))
        changed = [name for name, label in now.items() if before.get(name, label) != label]
        if changed:
            raise ValueError(
                f"{self.folder} was begun with other labels for {format_list(changed, 'sample')}: start a new run."
            )
        return tuple(ids) == data.ids

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock goes with the process, however it ends."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        self.check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK_FILE).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(f"another process is training {self.folder}: wait for it, or end it.") from None
            yield

    def add_metrics(self, entry: Mapping[str, Any]) -> None:
        """Add the line of an epoch."""
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def truncate_metrics(self, epoch: int) -> None:
        """Remove the lines of epochs beyond ``epoch``: they will be trained again."""
        lines = [json.dumps(entry) + "\n" for entry in self._lines("metrics.jsonl") if entry["epoch"] <= epoch]
        atomic_write_text(self.folder / "metrics.jsonl", "".join(lines))

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write down the numbers to report."""
        atomic_write_text(self.folder / "result.json", json.dumps(result, indent=2) + "\n")

    def check_folder(self) -> None:
        """Refuse a folder that holds anything but a run, or the beginning of one that was killed before it was one."""
        ours = {"labels.npz", "noise.npz", "features", LOCK_FILE}
        if self.exists or not self.folder.exists():
            return
        if any(path.name not in ours and path.suffix != ".part" for path in self.folder.iterdir()):
            raise FileExistsError(f"{self.folder} is no run, and not empty: choose another folder.")

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
        name = Path(recipe.data.source).stem or "own"
    words = [str(name).removesuffix(".toml"), recipe.method.name, str(recipe.training.seed)]
    return Path("runs") / re.sub(r"[^\w.-]+", "-", "-".join(words)).strip("-.")
