"""``Run``: the folder of one training, with everything that belongs to it."""

import json
import os
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.noise.corruption import Corruption
from permll.training.checkpoint import Checkpoints
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe
from permll.utils.files import atomic_write, atomic_write_text, is_partial
from permll.utils.messages import format_list

if TYPE_CHECKING:
    from permll.findings import Findings

FORMAT = 2  # of the files in a run's folder; written into recipe.toml
LOCK_FILE = ".lock"
TRAIN, CLEAN, GIVEN = "train", "clean", "given"  # tasks; given: findings of predictions that were made elsewhere


class GivenLabels(NamedTuple):
    """Ids and given labels of a run's samples.

    Args:
        classes: names of the c classes.
        ids: of the N training samples.
        labels: (N,) int64, their given labels.
        validation_ids: of the n samples held out from training.
        validation_labels: (n,) int64, their given labels.
    """

    classes: tuple[str, ...]
    ids: tuple[str, ...]
    labels: Tensor
    validation_ids: tuple[str, ...]
    validation_labels: Tensor

    def by_id(self) -> dict[str, int]:
        """Return the given label of every sample, held out or not, by id."""
        ids = self.ids + self.validation_ids
        return dict(zip(ids, torch.cat([self.labels, self.validation_labels]).tolist(), strict=True))


class Run:
    """The folder of a training.

    ``recipe.toml`` (resolved), ``labels.npz`` (given labels, ids, classes), ``noise.npz`` (record of synthetic noise),
    ``metrics.jsonl`` (a line for each epoch, independent of interruptions), ``checkpoints/``; when finished also
    ``findings.csv`` (every label, most suspect first) and ``result.json``.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")

    @classmethod
    def open(cls, run: "Run | Path | str") -> "Run":
        """Return a run that exists."""
        run = run if isinstance(run, Run) else cls(run)
        if not run.exists:
            raise FileNotFoundError(f"{run.folder} is not a run: permll clean DATA --out {run.folder} makes one.")
        return run

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'finished' if self.finished else f'{len(self.metrics)} epochs done'})"

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return (self.folder / "recipe.toml").is_file()

    @property
    def finished(self) -> bool:
        """Whether the training is finished."""
        return (self.folder / "result.json").is_file()

    @property
    def recipe(self) -> Recipe:
        """The resolved recipe."""
        self.check_format()
        return load_recipe(self.folder / "recipe.toml")

    @property
    def task(self) -> str:
        """How the run was made: by the command "train" or "clean", or from "given" predictions."""
        return str(tomllib.loads((self.folder / "recipe.toml").read_text()).get("task", TRAIN))

    @property
    def resume_command(self) -> str:
        """The command that resumes the run."""
        return f"permll {self.task} {shlex.quote(str(self.folder))}"

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every epoch."""
        path, metrics = self.folder / "metrics.jsonl", []
        for line in path.read_text().splitlines() if path.is_file() else ():
            try:
                metrics.append(json.loads(line))
            except ValueError:
                break  # the process was killed while it wrote this line
        return metrics

    @property
    def result(self) -> dict[str, Any]:
        """The results of a finished run."""
        if not self.finished:
            raise FileNotFoundError(f"{self.folder} is not finished: {self.resume_command} resumes it.")
        return json.loads((self.folder / "result.json").read_text())

    @property
    def findings(self) -> "Findings":
        """Label quality and proposals for every label of a finished run."""
        from permll.findings import Findings

        if not self.exists:
            raise FileNotFoundError(f"{self.folder} is not a run: permll train or permll clean makes one.")
        if not self.finished:
            raise FileNotFoundError(f"{self.folder} has no findings yet: {self.resume_command} resumes it.")
        return Findings.load(self.folder)

    @property
    def labels(self) -> GivenLabels:
        """Ids, given labels and classes of the training and validation samples."""
        self.check_format()
        with np.load(self.folder / "labels.npz", allow_pickle=False) as saved:
            return GivenLabels(
                tuple(saved["classes"].tolist()),
                tuple(saved["ids"].tolist()),
                torch.from_numpy(saved["given"]),
                tuple(saved["validation"].tolist()),
                torch.from_numpy(saved["validation_given"]),
            )

    def begin(
        self,
        recipe: Recipe,
        data: LabeledData,
        noise: Corruption | None = None,
        validation: LabeledData | None = None,
        task: str = TRAIN,
    ) -> None:
        """Write the files of a new run into a folder that is empty or does not exist; ``task`` is its command."""
        self.check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save_split(data, validation)
        if noise is not None:
            noise.save(self.folder / "noise.npz")
        self.write_recipe(recipe, task)  # last, since it makes the folder a run

    def write_recipe(self, recipe: Recipe, task: str) -> None:
        """Write ``recipe.toml``."""
        head = f"format = {FORMAT}\n" + (f'task = "{task}"\n' if task != TRAIN else "")
        atomic_write_text(self.folder / "recipe.toml", head + recipe.to_toml())

    def save_split(self, data: LabeledData, validation: LabeledData | None = None) -> None:
        """Write ids and given labels of the training and validation samples."""
        with atomic_write(self.folder / "labels.npz") as file:
            np.savez_compressed(
                file,
                given=data.labels.numpy(),
                ids=np.array(data.ids),
                classes=np.array(data.classes),
                validation=np.array(() if validation is None else validation.ids, dtype=np.str_),
                validation_given=np.array(() if validation is None else validation.labels.tolist(), dtype=np.int64),
            )

    def check_data(self, data: LabeledData, validation: LabeledData | None = None) -> bool:
        """Refuse data that contradict those of the run; return whether training samples and their order are equal."""
        saved = self.labels
        if saved.classes != data.classes:
            raise ValueError(
                f"{self.folder} was started with {len(saved.classes)} classes ({', '.join(saved.classes[:5])}, ...), "
                f"the data have {len(data.classes)} ({', '.join(data.classes[:5])}, ...): start a new run."
            )
        labels = dict(zip(data.ids, data.labels.tolist(), strict=True))
        if not any(name in labels for name in saved.ids):
            raise ValueError(f"{self.folder} was started with other data: none of these samples is in it.")
        if validation is not None:
            labels |= dict(zip(validation.ids, validation.labels.tolist(), strict=True))
        saved_labels = saved.by_id()
        changed = [name for name, label in labels.items() if saved_labels.get(name, label) != label]
        if changed:
            raise ValueError(
                f"{self.folder} was started with other labels for {format_list(changed, 'sample')}: start a new run."
            )
        return saved.ids == data.ids

    def check_format(self) -> None:
        """Refuse a run that was written by an incompatible version."""
        if not self.exists:
            raise FileNotFoundError(f"{self.folder} is not a run: pass a folder that permll train has written.")
        found = tomllib.loads((self.folder / "recipe.toml").read_text()).get("format", 1)
        if found != FORMAT:
            raise ValueError(
                f"{self.folder} was written by another version of permll (format {found}, this one reads {FORMAT}): "
                "train it again."
            )

    def check_folder(self) -> None:
        """Refuse a folder with files that are not those of a run, or of a run that was killed at its start."""
        expected = {"labels.npz", "noise.npz", "samples.npz", "samples.parquet", "features", LOCK_FILE}
        if self.exists or not self.folder.exists():
            return
        if any(path.name not in expected and not is_partial(path) for path in self.folder.iterdir()):
            raise FileExistsError(f"{self.folder} is not a run and not empty: choose another folder.")

    def check_trained(self) -> None:
        """Refuse a run whose findings come from given predictions, since it has no network."""
        if self.exists and self.task == GIVEN:
            raise ValueError(
                f"{self.folder} has no network, since its findings come from {self.recipe.title}: permll clean DATA "
                "trains one."
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock, which the system releases when the process ends; raise if another process has it."""
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
                raise OSError(f"another process is training {self.folder}: wait until it ends, or stop it.") from None
            yield

    def add_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Append the metrics of an epoch."""
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(metrics) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def truncate_metrics(self, epoch: int) -> None:
        """Remove the metrics of epochs after ``epoch``, which will be trained again."""
        lines = [json.dumps(metrics) + "\n" for metrics in self.metrics if metrics["epoch"] <= epoch]
        atomic_write_text(self.folder / "metrics.jsonl", "".join(lines))

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the results, which makes the run a finished one."""
        atomic_write_text(self.folder / "result.json", json.dumps(result, indent=2) + "\n")
