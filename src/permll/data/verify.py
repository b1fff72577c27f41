"""Is a data set all there? What was found, split by split, against what was published."""

import gzip
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permll.data.dataset import LabeledData
from permll.data.datasets.locate import NotThereError
from permll.data.decoding import to_pixels
from permll.data.inputs import LazyImages
from permll.data.registry import SetInfo, data_root, find
from permll.data.remote_files import CONTENT
from permll.utils.messages import format_list
from permll.utils.progress import progress

_MODES = ("I", "F")  # values whose range nobody knows: see permll.data.decoding
_OPENING = {
    "FileNotFoundError": "not there",
    "PermissionError": "not allowed to be opened",
    "UnidentifiedImageError": "no image",
    "DecompressionBombError": "too large",
}
_CHUNK = 64  # images per task: a million tasks at once would fill the memory


class UnreadableError(ValueError):
    """Images that cannot be decoded; ``names`` has all of them."""

    def __init__(self, folder: Path, broken: Mapping[str, str]) -> None:
        super().__init__(f"{format_list(with_reasons(broken), 'image')} in {folder} cannot be read: copy each again.")
        self.names = tuple(broken)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Args:
        split: in which split, or in which, if the same is to be said of all.
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
    findings: list[Finding] = []
    missing: list[Finding] = []
    for split in info.splits:
        try:
            findings += _check_split(info, root, split)
        except NotThereError as problem:
            missing.append(Finding(split, "place", False, str(problem)))
            findings.append(missing[-1])
    if len(missing) == len(info.splits):  # once is enough
        return [replace(missing[0], split=", ".join(info.splits))]
    return findings


def whole(name: str, root: Path | str | None = None) -> list[Path]:
    """Return the folders that a set lies in if it is all there, in whatever official form; otherwise nothing.

    Examples:
        >>> whole("cifar10", "no/such/folder")
        []
    """
    findings = check(name, root)
    if not all(finding.good for finding in findings):
        return []
    return [Path(place) for place in dict.fromkeys(finding.detail for finding in findings if finding.what == "place")]


def unreadable(
    images: LazyImages, names: Sequence[str], *, keep: Callable[[int, NDArray[Any]], None] | None = None
) -> dict[str, str]:
    """Decode every image, in threads, and return the names of those that fail, each with why, "" if nobody knows.

    Args:
        images: N of them.
        names: N, what to call them.
        keep: called with the position and the pixels (3, H, W), as large as they are, of each image that was read.
    """

    def failing(start: int) -> dict[str, str]:
        rows = range(start, min(start + _CHUNK, len(images)))
        problems = {names[row]: _problem(images, row, keep) for row in rows}
        return {name: problem for name, problem in problems.items() if problem is not None}

    broken: dict[str, str] = {}
    with progress("decoding images", len(images)) as advance, ThreadPoolExecutor(_threads()) as pool:
        starts = range(0, len(images), _CHUNK)
        try:
            for start, problems in zip(starts, pool.map(failing, starts), strict=True):
                broken |= problems
                advance(min(_CHUNK, len(images) - start))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C must not wait for a million images
            raise
    return broken


def with_reasons(broken: Mapping[str, str]) -> list[str]:
    """Return names with what is wrong with each.

    Examples:
        >>> with_reasons({"a.jpg": "damaged", "b.jpg": ""})
        ['a.jpg: damaged', 'b.jpg']
    """
    return [f"{name}: {reason}" if reason else name for name, reason in broken.items()]


def _problem(images: LazyImages, row: int, keep: Callable[[int, NDArray[Any]], None] | None) -> str | None:
    """Decode an image; return None if that went well, otherwise why it did not."""
    mode = ""
    try:
        with images.open(int(images.rows[row])) as image:
            mode = image.mode
            pixels = to_pixels(image, None)
    except Exception as broken:  # a damaged image can fail in any way at all
        return _reason(broken, mode)
    if keep is not None:
        keep(row, pixels)
    return None


def _reason(broken: Exception, mode: str) -> str:
    """Say why an image cannot be read; ``mode`` is its mode, if it could be opened at all."""
    if mode:
        return f"a mode that cannot be read: {mode}" if isinstance(broken, ValueError) and mode in _MODES else "damaged"
    known = _OPENING.get(type(broken).__name__)
    if known or isinstance(broken, ValueError):  # which is how a file that is no image comes
        return known or "no image"
    return "damaged" if isinstance(broken, OSError | SyntaxError | EOFError) else ""


def _threads() -> int:
    return min(32, (os.cpu_count() or 1) + 4)


def _check_split(info: SetInfo, root: Path, split: str) -> Iterator[Finding]:
    try:
        data = info.load(root, split)
    except UnreadableError as problem:
        yield Finding(split, "images", False, str(problem), problem.names)
        return
    except NotThereError:
        raise
    except (OSError, ValueError, ImportError) as problem:
        yield Finding(split, "place", False, str(problem))
        return
    yield Finding(split, "place", True, str(data.metadata["source"]))
    official = info.samples[split]
    found = f"{len(data):,}"
    yield Finding(
        split, "samples", len(data) == official, found if len(data) == official else f"{found}, not {official:,}"
    )
    yield _classes(data, split)
    yield from _content(info, data, split)
    if isinstance(data.inputs, LazyImages):
        broken = unreadable(data.inputs, data.ids)
        detail = "all of them can be read"
        if broken:
            detail = f"{format_list(with_reasons(broken), 'image')} cannot be read: copy each again"
        yield Finding(split, "images", not broken, detail, tuple(broken))


def _classes(data: LabeledData, split: str) -> Finding:
    counts = data.counts.tolist()
    empty = tuple(name for name, count in zip(data.classes, counts, strict=True) if not count)
    least, most = min(counts), max(counts)
    spread = f"{least:,} to {most:,} samples"
    if least == most:
        spread = f"{most:,} sample{'s' if most != 1 else ''} each"
    detail = f"{len(counts)} classes, {spread}" + (f", none in {format_list(empty, 'class')}" if empty else "")
    return Finding(split, "classes", not empty, detail, empty)


def _content(info: SetInfo, data: LabeledData, split: str) -> Iterator[Finding]:
    """Compare the files that were read to the digests that are known of them."""
    known = CONTENT.get(info.name, {})
    paths = [Path(data.metadata["source"]) / name for name in data.metadata.get("files", ())]
    expected = {path: known[name] for path in paths if (name := path.name.removesuffix(".gz")) in known}
    if expected:
        wrong = [path.name for path, digest in expected.items() if _md5(path) != digest]
        names = ", ".join(path.name for path in expected)
        detail = f"{format_list(wrong, 'file')} not as published: get it again" if wrong else f"{names} as published"
        yield Finding(split, "content", not wrong, detail, tuple(wrong))


def _md5(path: Path) -> str:
    """Return the digest of what a file holds, unpacked."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
