"""The samples that findings are about, to look at and to write again: read anew from where they came from."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.loading import load
from permll.data.registry import DATASETS
from permll.training.run import Run


def path_of(run: Run) -> Path | None:
    """Return the file or folder that a run was made from; None for sets by name and data in memory."""
    source = run.recipe.data.source
    if not source or source in DATASETS:
        return None
    path = Path(source).expanduser()
    split = run.recipe.data.options.get("split")
    path = path if split is None else path / str(split)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no {path}, which {run.folder} was made from: bring it back, or start permll where it was then."
        )
    return path


def samples_of(run: Run) -> LabeledData:
    """Return all samples of a run's data, by their ids; texts and tables as they are, not encoded.

    Their labels are those of the source. What a run was told and found, ``Findings`` holds.
    """
    section = run.recipe.data
    if not section.source:
        raise ValueError(
            f"{run.folder} was trained on data in memory, which it does not keep: clean a file or a folder instead."
        )
    path_of(run)
    return load(section.source, root=section.root, **section.options)
