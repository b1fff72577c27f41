"""The data that a run was trained on, read again from its source."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.loading import load
from permll.data.registry import DATASETS
from permll.training.run import Run


def source_path(run: Run) -> Path | None:
    """Return the file or folder that a run was trained on; None for built-in sets and data in memory."""
    source = run.recipe.data.source
    if not source or source in DATASETS:
        return None
    path = Path(source).expanduser()
    split = run.recipe.data.options.get("split")
    path = path if split is None else path / str(split)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}, the source of {run.folder}, does not exist: restore it, or run permll from the same folder as "
            "before."
        )
    return path


def load_source(run: Run) -> LabeledData:
    """Return all samples of a run's source; texts and tables are not encoded, and labels are those of the source."""
    section = run.recipe.data
    if not section.source:
        raise ValueError(
            f"{run.folder} was trained on data in memory, which it does not store: clean a file or a folder instead."
        )
    source_path(run)
    return load(section.source, root=section.root, **section.options)
