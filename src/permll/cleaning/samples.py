"""The samples that findings are about, to look at and to write again: read anew from where they came from."""

from permll.data.loading import load
from permll.data.record import Data
from permll.training.run import Run


def samples_of(run: Run) -> Data:
    """Return all samples of a run's data, by their ids; texts and tables as they are, not encoded.

    Their labels are those of the source. What a run was told and found, ``Findings`` holds.
    """
    section = run.recipe.data
    if not section.source:
        raise ValueError(
            f"{run.folder} was trained on data in memory, which it does not keep: clean a file or a folder instead."
        )
    return load(section.source, root=section.root, **section.options)
