"""Is a data set all there? What was found, split by split, against what was published."""

import gzip
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permll.data.decoding import to_pixels
from permll.data.inputs import LazyImages
from permll.data.problems import listed
from permll.data.progress import progress
from permll.data.record import Data
from permll.data.registry import SetInfo, data_root, find
from permll.data.sources import CONTENT

_CHUNK = 64  # images per task: a million tasks at once would fill the memory


class UnreadableError(ValueError):
    """Images that cannot be decoded; ``names`` has all of them."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__(f"{listed(names, 'image')} in {folder} cannot be read: copy them again.")
        self.names = tuple(names)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Args:
        split: in which split.
        what: ``"place"``, ``"samples"``, ``"classes"``, ``"content"`` or ``"images"``.
        good: whether it is as it should be.
        detail: what was found, in words.
        names: the files or ids that are wrong, all of them.
    """

    split: str
    what: str
    good: bool
    detail: str
    names: tuple[str, ...] = ()


def check(name: str, root: Path | str | None = None) -> list[Finding]:
    """Return what there is to say about a set below ``root``; every image of it is decoded.

    Examples:
        >>> [finding.detail for finding in check("digits") if finding.what == "samples"]
        ['1,347', '450']
    """
    info, root = find(name), data_root(root)
    return [finding for split in info.splits for finding in _check_split(info, root, split)]


def unreadable(
    images: LazyImages, names: Sequence[str], *, keep: Callable[[int, NDArray[Any]], None] | None = None
) -> list[str]:
    """Decode every image, in threads, and return the names of those that fail: damaged, cut short, or no images.

    Args:
        images: N of them.
        names: N, what to call them.
        keep: called with the position and the pixels (3, H, W), as large as they are, of each image that was read.
    """

    def failing(start: int) -> list[int]:
        return [row for row in range(start, min(start + _CHUNK, len(images))) if not _readable(images, row, keep)]

    broken: list[int] = []
    with progress("decoding images", len(images)) as advance, ThreadPoolExecutor(_threads()) as pool:
        starts = range(0, len(images), _CHUNK)
        try:
            for start, rows in zip(starts, pool.map(failing, starts), strict=True):
                broken += rows
                advance(min(_CHUNK, len(images) - start))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C must not wait for a million images
            raise
    return [names[row] for row in broken]


def _readable(images: LazyImages, row: int, keep: Callable[[int, NDArray[Any]], None] | None) -> bool:
    try:
        with images.open(int(images.rows[row])) as image:
            pixels = to_pixels(image, None)
    except Exception:  # a damaged image can fail in any way at all
        return False
    if keep is not None:
        keep(row, pixels)
    return True


def _threads() -> int:
    return min(32, (os.cpu_count() or 1) + 4)


def _check_split(info: SetInfo, root: Path, split: str) -> Iterator[Finding]:
    try:
        data = info.load(root, split)
    except UnreadableError as problem:
        yield Finding(split, "images", False, str(problem), problem.names)
        return
    except (OSError, ValueError, ImportError) as problem:
        yield Finding(split, "place", False, str(problem))
        return
    yield Finding(split, "place", True, str(data.about["source"]))
    official = info.samples[split]
    found = f"{len(data):,}"
    yield Finding(
        split, "samples", len(data) == official, found if len(data) == official else f"{found}, not {official:,}"
    )
    yield _classes(data, split)
    yield from _content(info, data, split)
    if isinstance(data.inputs, LazyImages):
        broken = unreadable(data.inputs, data.ids)
        detail = f"{listed(broken, 'image')} cannot be read: copy them again" if broken else "all of them can be read"
        yield Finding(split, "images", not broken, detail, tuple(broken))


def _classes(data: Data, split: str) -> Finding:
    counts = data.counts.tolist()
    empty = tuple(name for name, count in zip(data.classes, counts, strict=True) if not count)
    least, most = min(counts), max(counts)
    spread = f"{least:,} samples each" if least == most else f"{least:,} to {most:,} samples"
    detail = f"{len(counts)} classes, {spread}" + (f", none in {listed(empty, 'class')}" if empty else "")
    return Finding(split, "classes", not empty, detail, empty)


def _content(info: SetInfo, data: Data, split: str) -> Iterator[Finding]:
    """Compare the files that were read to the digests that are known of them."""
    known = CONTENT.get(info.name, {})
    paths = [Path(data.about["source"]) / name for name in data.about.get("files", ())]
    expected = {path: known[name] for path in paths if (name := path.name.removesuffix(".gz")) in known}
    if expected:
        wrong = [path.name for path, digest in expected.items() if _md5(path) != digest]
        names = ", ".join(path.name for path in expected)
        detail = f"{listed(wrong, 'file')} not as published: get it again" if wrong else f"{names} as published"
        yield Finding(split, "content", not wrong, detail, tuple(wrong))


def _md5(path: Path) -> str:
    """Return the digest of what a file holds, unpacked."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
