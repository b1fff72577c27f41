"""Folders of images with other labels: a new tree of links or copies, or one table of paths."""

import csv
import errno
import os
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from permll.cleaning.apply.label_values import LABEL
from permll.cleaning.apply.source import Source
from permll.data.readers.feature_columns import APPLY_COLUMNS

As = Literal["link", "copy", "hardlink", "csv"]
WAYS: tuple[As, ...] = get_args(As)
PATH = "path"  # the column of paths


def new_names(names: Sequence[str], classes: Mapping[str, str]) -> dict[str, str]:
    """Return where each image goes: those in ``classes`` (name -> class) into the folder of that class.

    Who stays keeps its name. Who comes and finds its name taken is called after where it comes from. Names that differ
    in case alone count as one, as some disks cannot tell them apart.

    Examples:
        >>> new_names(["cat/1.png", "cat/2.png", "dog/1.png"], {"cat/1.png": "dog"})
        {'cat/1.png': 'dog/1-from-cat.png', 'cat/2.png': 'cat/2.png', 'dog/1.png': 'dog/1.png'}
    """
    places = {name: name for name in names if classes.get(name, _folder(name)) == _folder(name)}
    files = {_key(name) for name in places}
    folders = {_key(str(above)) for name in places for above in PurePosixPath(name).parents}
    for name in names:
        if name in places:
            continue
        free = (
            place
            for place in _candidates(name, classes[name])
            if _key(place) not in files
            and _key(place) not in folders
            and not any(_key(str(above)) in files for above in PurePosixPath(place).parents)
        )
        places[name] = next(free)
        files.add(_key(places[name]))
        folders |= {_key(str(above)) for above in PurePosixPath(places[name]).parents}
    return {name: places[name] for name in names}


def write_tree(source: Source, changed: Mapping[int, str], out: Path, base: Path, how: As) -> int:
    """Make the new tree and return how many images could not be linked and were copied.

    Args:
        source: the folder.
        changed: position -> class.
        out: where to make it.
        base: the folder that ``out`` will lie in, with the links in it resolved: links are seen from there.
        how: ``"link"``, ``"copy"`` or ``"hardlink"``.
    """
    names = list(source.found.ids)
    _refuse_folder_names(changed.values())
    copied = 0
    for name, place in new_names(names, {names[row]: label for row, label in changed.items()}).items():
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        real = Path(os.path.realpath(source.path / name))
        if not real.is_file():
            raise FileNotFoundError(f"{source.path / name} is a link to {real}, which is not there: mend or remove it.")
        copied += _put(real, target, base / "new" / place, how)
    return copied


def write_listing(
    source: Source, changed: Mapping[int, str], sources: Sequence[str], out: Path, seen_from: Path
) -> None:
    """Write a table of all images: the path as seen from the table, the label, what it was and where it is from."""
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([PATH, LABEL, *APPLY_COLUMNS])
        for row, name in enumerate(source.found.ids):
            path = _relative(Path(os.path.realpath(source.path / name)), seen_from)
            before = _folder(name)
            writer.writerow([path, changed.get(row, before), before, sources[row]])


def _put(real: Path, target: Path, later: Path, how: As) -> bool:
    """Put an image in its place; return whether it had to be copied instead of linked."""
    if how == "hardlink":
        try:
            os.link(real, target)
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOENT, errno.EACCES):
                raise
            raise ValueError(
                f"there can be no hard link to {real} where the new folder is ({problem.strerror}): use --as copy."
            ) from None
        return False
    if how == "link":
        try:
            target.symlink_to(_relative(real, later.parent))
        except (OSError, NotImplementedError):  # a disk, or a system, that knows no links
            pass
        else:
            return False
    shutil.copy2(real, target)
    return how == "link"


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive of Windows
        return path.as_posix()


def _candidates(name: str, label: str) -> Iterator[str]:
    below = PurePosixPath(*PurePosixPath(name).parts[1:])
    yield str(label / below)
    for number in range(1, 1_000_000):
        suffix = f"-from-{_folder(name)}" + (f"-{number}" if number > 1 else "")
        yield str(label / below.with_name(f"{below.stem}{suffix}{below.suffix}"))
        yield str(PurePosixPath(label) / f"{'-'.join(below.with_suffix('').parts)}{suffix}{below.suffix}")


def _folder(name: str) -> str:
    return name.split("/")[0]


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _refuse_folder_names(labels: Iterable[str]) -> None:
    """Refuse classes that cannot be folders: only a class without a folder can be one."""
    for label in set(labels):
        if label in (".", "..") or "/" in label or os.sep in label or label.startswith("."):
            raise ValueError(f"the class {label!r} cannot be the name of a folder: use --as csv.")
