"""``show_images``: pictures of samples whose labels are checked by something else, such as feature vectors."""

import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

import torch

from permll.cleaning.source_rows import sample_rows
from permll.data.dataset import LabeledData
from permll.data.decoding import FileOpener
from permll.data.inputs import Images, LazyImages
from permll.data.readers.image_files import SUFFIXES
from permll.data.readers.image_folder import list_images
from permll.data.readers.raw_data import pluralize
from permll.data.registry import DATASETS
from permll.training.recipe import DataSection
from permll.utils.messages import format_list


def show_images(data: LabeledData, section: DataSection) -> LabeledData:
    """Return the samples with the pictures in ``section.images`` as inputs; without such a folder, as they are.

    Images that are named by the ids of the samples (their paths, with or without the suffix) are matched by them. If
    ids are row numbers, or no image has such a name, image i of the sorted paths belongs to row i of the data.
    """
    if section.images is None:
        return data
    folder = Path(section.images)
    if isinstance(data.inputs, Images | LazyImages):
        raise ValueError(f"the data are images already, so {folder} would replace them: leave it out.")
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}, the folder of images, does not exist: restore it.")
    names, _ = list_images(folder)
    if not names:
        raise ValueError(f"{folder} contains no images ({', '.join(SUFFIXES)}).")
    return data.with_inputs(LazyImages(FileOpener(folder.absolute(), tuple(names)), _positions(data, section, names)))


def _positions(data: LabeledData, section: DataSection, names: list[str]) -> torch.Tensor:
    """Return (N,) the position of each sample's image among the names."""
    position = {str(PurePosixPath(name).with_suffix("")): number for number, name in enumerate(names)}
    position |= {name: number for number, name in enumerate(names)}
    missing = [name for name in data.ids if name not in position]
    if len(missing) < len(data) and not _are_row_numbers(data.ids):
        if missing:
            text = format_list(missing, "id")
            raise ValueError(f"{section.images} has no image for {text}: add them, or rename all images.")
        return torch.tensor([position[name] for name in data.ids])
    rows, count = torch.arange(len(data)), len(data)
    if len(names) != count and section.source and section.source not in DATASETS:
        by_id, count = sample_rows(section.source, section.options)
        rows = torch.tensor([by_id[name] for name in data.ids])
    if len(names) != count:
        raise ValueError(
            f"{section.images} has {pluralize(len(names), 'image')} for {pluralize(count, 'row')}: give one per row, "
            "in sorted order, or name them by the ids of the samples."
        )
    _warn_of_numbers(names)
    return rows


def _are_row_numbers(ids: Sequence[str]) -> bool:
    numbers = [int(name) if name.isdecimal() else -1 for name in ids]
    return numbers[0] >= 0 and all(before < after for before, after in pairwise(numbers))


def _warn_of_numbers(names: Sequence[str]) -> None:
    """Warn if the sorted order of numbers is not their order, as of 10.png and 2.png."""
    stems = [PurePosixPath(name).stem for name in names]
    numbers = [int(stem) for stem in stems if stem.isdecimal()]
    if len(numbers) == len(names) and numbers != sorted(numbers):
        pairs = zip(numbers, sorted(numbers), strict=True)
        row = next(row for row, (number, expected) in enumerate(pairs) if number != expected)
        warnings.warn(
            f"the images are shown in the sorted order of their names, so {names[row]} belongs to row {row}: if it "
            "does not, give the samples ids that name their images.",
            stacklevel=4,
        )
