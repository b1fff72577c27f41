"""Folder of a run: its default name by recipe or data, the absolute path of its data, and ``--overwrite``."""

import hashlib
import re
import shutil
from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.loading import is_dataset_name
from permll.data.registry import DATASETS
from permll.data.sample_digests import sample_digests
from permll.training.recipe import Recipe
from permll.training.run import Run


def default_folder(name: str | None, recipe: Recipe) -> Path:
    """Return the default folder of a run, runs/NAME-METHOD-SEED.

    Args:
        name: of the recipe or the data; default: that of the recipe's data.
        recipe: the resolved recipe.

    Examples:
        >>> from permll.training.recipe_files import load_recipe
        >>> default_folder("photos/", load_recipe("tiny/digits")).as_posix()
        'runs/photos-permll-0'
    """
    name = (name or data_name(recipe.data.source) or "own").removesuffix(".toml")
    words = [name, recipe.classifier, str(recipe.training.seed)]
    return Path("runs") / "-".join(re.sub(r"[^\w.]+", "-", word).strip("-.") for word in words)


def data_name(source: Path | str) -> str:
    """Return the name of a data set: of a folder or a built-in set as it is, of a file without its suffix.

    Examples:
        >>> data_name("data/photos/"), data_name("my reviews.csv"), data_name("digits"), data_name("")
        ('photos', 'my reviews', 'digits', '')
    """
    path = Path(source).expanduser()
    return (path.absolute().resolve().name if path.is_dir() else path.stem) if str(source) else ""


def corrected_name(source: str) -> str:
    """Return a name for the corrected data of a source, with the suffix that ``permll apply`` writes.

    Names that exist in the current folder are not returned, and data that were corrected before get a number.

    Examples:
        >>> [corrected_name(source) for source in ("data/wine.parquet", "x.npy", "digits", "", "wine-fixed.csv")]
        ['wine-fixed.parquet', 'x-fixed.npz', 'digits-fixed.csv', 'labels-fixed.csv', 'wine-fixed-2.csv']
    """
    path = Path(source)
    is_folder = bool(source) and path.is_dir() and source not in DATASETS
    suffix = "" if is_folder else ".npz" if path.suffix == ".npy" else path.suffix or ".csv"
    stem, number = (path.name if is_folder else path.stem or "labels"), 1
    if earlier := re.fullmatch(r"(.+)-fixed(?:-(\d+))?", stem):
        stem, number = earlier[1], int(earlier[2] or 1) + 1
    while Path(name := f"{stem}-fixed{f'-{number}' if number > 1 else ''}{suffix}").exists():
        number += 1
    return name


def samples_name(data: LabeledData) -> str:
    """Return a name of data in memory that other samples or labels do not have.

    Examples:
        >>> from permll.data import load
        >>> x = [[0.1, 2.0], [0.3, 1.0], [5.0, 0.2], [4.0, 0.1]]
        >>> names = [samples_name(load(x, labels=list(labels))) for labels in ("abab", "abab", "abba")]
        >>> names[0].rpartition("-")[0], names[0] == names[1], names[0] == names[2]
        ('list', True, False)
    """
    digest = hashlib.blake2b(repr((data.ids, data.classes, data.labels.tolist())).encode(), digest_size=4)
    for content in sample_digests(data.inputs):
        digest.update(content)
    return f"{data.metadata.get('name') or 'own'}-{digest.hexdigest()}"


def absolute_source(source: Path | str) -> str:
    """Return a path as an absolute one, so that a run can be used from any folder; built-in sets keep their name.

    Examples:
        >>> absolute_source("digits"), Path(absolute_source("./photos")).is_absolute()
        ('digits', True)
    """
    return str(source) if is_dataset_name(str(source)) else str(Path(source).expanduser().absolute())


def remove_run(run: Run) -> None:
    """Delete the folder of a run, unless a process trains it; a folder with other files is refused."""
    if run.exists:
        with run.locked():
            shutil.rmtree(run.folder)
    run.check_folder()
