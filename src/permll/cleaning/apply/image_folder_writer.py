"""Image folders with new labels: a new folder of links or copies, or a CSV file of paths."""

import errno
import os
import shutil
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from permll.cleaning.apply.label_columns import Changes, write_label_list
from permll.cleaning.source import Source
from permll.data.readers.folder_history import HISTORY_COLUMNS, HISTORY_FILE, History, read_history

ImageOutput = Literal["link", "copy", "hardlink", "csv"]
IMAGE_OUTPUTS: tuple[ImageOutput, ...] = get_args(ImageOutput)
PATH_COLUMN = HISTORY_COLUMNS[0]


def write_image_folder(
    source: Source, changes: Changes, out: Path, parent: Path, mode: ImageOutput, dropped: Path | None = None
) -> int:
    """Write a folder with one subfolder per class; return the number of images that were copied instead of linked.

    Args:
        source: the image folder.
        changes: to apply.
        out: temporary path of the new folder.
        parent: resolved parent of its final path, for relative links.
        mode: ``"link"``, ``"copy"`` or ``"hardlink"``.
        dropped: temporary path of the folder for dropped images, beside the new one; None without such images.
    """
    for label in set(changes.classes.values()):
        if label.startswith(".") or "/" in label or os.sep in label:
            raise ValueError(f"the class {label!r} cannot be the name of a folder: use --as csv.")
    names = list(source.raw.ids)
    num_copied = 0
    kept = [names[row] for row in changes.kept_rows]
    paths = new_paths(kept, {names[row]: label for row, label in changes.classes.items()})
    targets = [(name, out, path) for name, path in paths.items()]
    if dropped is not None:
        targets += [(names[row], dropped, names[row]) for row in sorted(changes.dropped)]
    for name, folder, path in targets:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        image = _resolve(source, name)
        if not image.is_file():
            raise FileNotFoundError(
                f"{source.path / name} links to {image}, which does not exist: restore or remove it."
            )
        num_copied += _place(image, target, (parent / "new" / path).parent, mode)
    _write_history(source, changes, paths, out / HISTORY_FILE)
    return num_copied


def write_image_list(source: Source, changes: Changes, out: Path, parent: Path) -> None:
    """Write a CSV file of the images that are not dropped; paths are relative to ``parent``, the folder of the file."""

    def rows() -> Iterator[tuple[str, str, str, str]]:
        for row, history in _histories(source, changes).items():
            name = source.raw.ids[row]
            yield _relative(_resolve(source, name), parent), changes.classes.get(row, _class(name)), *history

    write_label_list(out, PATH_COLUMN, rows())


def _write_history(source: Source, changes: Changes, paths: Mapping[str, str], out: Path) -> None:
    """Write the history of the images whose label was ever reviewed or changed, by their new path."""
    histories = {paths[source.raw.ids[row]]: history for row, history in _histories(source, changes).items()}
    rows = [(path, _class(path), *history) for path, history in histories.items() if history.source != "given"]
    if rows:
        write_label_list(out, PATH_COLUMN, rows)


def _histories(source: Source, changes: Changes) -> dict[int, History]:
    """Return the histories of the rows that are not dropped: with the first label, and the last source of a label."""
    earlier = read_history(source.path) or {}
    histories = {}
    for row in changes.kept_rows:
        name, now = source.raw.ids[row], changes.sources[row]
        before = earlier.get(name, History(_class(name), "given"))
        histories[row] = History(before.original, before.source if now == "given" else now)
    return histories


def new_paths(names: Sequence[str], classes: Mapping[str, str]) -> dict[str, str]:
    """Return image -> new path, relative to the folder.

    Images in ``classes`` (name -> class) move to the subfolder of that class; the others keep their paths. A moved
    image whose path is taken is renamed. Paths that differ in case or Unicode form only are considered equal, since
    some file systems do not distinguish them.

    Examples:
        >>> new_paths(["cat/1.png", "cat/2.png", "dog/1.png"], {"cat/1.png": "dog"})
        {'cat/1.png': 'dog/1-from-cat.png', 'cat/2.png': 'cat/2.png', 'dog/1.png': 'dog/1.png'}
    """
    paths = {name: name for name in names if classes.get(name, _class(name)) == _class(name)}
    files = {_normalize(name) for name in paths}
    folders = {folder for name in paths for folder in _folders(name)}
    for name in names:
        if name not in paths:
            paths[name] = next(
                path
                for path in _candidates(name, classes[name])
                if _normalize(path) not in files
                and _normalize(path) not in folders
                and files.isdisjoint(_folders(path))
            )
            files.add(_normalize(paths[name]))
            folders.update(_folders(paths[name]))
    return {name: paths[name] for name in names}


def _place(image: Path, target: Path, final_folder: Path, mode: ImageOutput) -> bool:
    """Link or copy an image; return whether it was copied instead of linked."""
    if mode == "hardlink":
        try:
            os.link(image, target)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOENT, errno.EACCES):
                raise
            raise ValueError(f"cannot hard-link {image} to the new folder ({error.strerror}): use --as copy.") from None
        return False
    if mode == "link":
        try:
            target.symlink_to(_relative(image, final_folder))
        except (OSError, NotImplementedError):  # a file system without links
            pass
        else:
            return False
    shutil.copy2(image, target)
    return mode == "link"


def _candidates(name: str, label: str) -> Iterator[str]:
    """Yield possible paths of an image that moves to a class."""
    below = PurePosixPath(*PurePosixPath(name).parts[1:])
    yield str(label / below)
    for number in range(1, 1_000_000):
        suffix = f"-from-{_class(name)}" + (f"-{number}" if number > 1 else "")
        yield str(label / below.with_name(f"{below.stem}{suffix}{below.suffix}"))
        yield str(PurePosixPath(label) / f"{'-'.join(below.with_suffix('').parts)}{suffix}{below.suffix}")


def _class(name: str) -> str:
    return name.split("/")[0]


def _resolve(source: Source, name: str) -> Path:
    return Path(os.path.realpath(source.path / name))


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another Windows drive
        return path.as_posix()


def _folders(path: str) -> set[str]:
    return {_normalize(str(folder)) for folder in PurePosixPath(path).parents}


def _normalize(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
