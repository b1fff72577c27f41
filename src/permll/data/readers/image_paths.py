"""Images that are given by their paths: in a list, or in a column of a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import torch

from permll.data.decoding import OpenFile
from permll.data.inputs import LazyImages
from permll.data.readers.image_files import SUFFIXES
from permll.utils.messages import format_list


def are_image_paths(values: Any) -> TypeGuard[Sequence[str | Path]]:
    """Return whether all values are paths of images, by their endings.

    Examples:
        >>> are_image_paths(["a.png", Path("b/c.JPG")]), are_image_paths(["a.png", "no path"])
        (True, False)
    """
    if not isinstance(values, list | tuple) or not values:
        return False
    return all(isinstance(value, str | Path) and str(value).lower().endswith(SUFFIXES) for value in values)


def image_files(root: Path, paths: Sequence[str], where: str = "") -> LazyImages:
    """Return the images at ``paths``, seen from ``root``; those that are not there are all named.

    Args:
        root: an absolute folder.
        paths: N of them, absolute ones too.
        where: where the paths stand, for complaints, like " of column 'file'".
    """
    files = tuple(str(Path(path).expanduser()) for path in paths)
    missing = [path for path, file in zip(paths, files, strict=True) if not (root / file).is_file()]
    if missing:
        raise FileNotFoundError(f"there is no file for {format_list(missing, 'image')}{where}, seen from {root}.")
    return LazyImages(OpenFile(root, files), torch.arange(len(files)))
