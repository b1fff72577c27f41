"""Downloading published files: resumed after a break, checked by digest, and there whole or not at all."""

import errno
import hashlib
import http.client
import os
import shutil
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from permll._version import __version__
from permll.data.archives import unpack
from permll.data.registry import SetInfo, data_root, find
from permll.data.remote_files import PUBLISHED, Published, mirror_address
from permll.utils.progress import progress

ATTEMPTS = 3  # in a row without one byte more than before
_TIMEOUT = 30.0
_CHUNK = 1 << 20
_RANGE_REFUSED = 416
_PARTIAL = 206
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NETWORK = (URLError, ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)


class DownloadError(OSError):
    """A file that could not be had."""


class _BrokenOffError(ConnectionError):
    """The connection ended before the file did."""


class _OtherFileError(Exception):
    """The server offers something else under this address."""


def get(name: str, root: Path | str | None = None, *, mirror: Path | str | None = None) -> list[Path]:
    """Download a set below ``root`` and return where its files are.

    Nothing is done if the set is there already, in any of its official forms. Sets that come with a package need
    nothing. Those that must be asked for raise, with what to do.

    Args:
        name: of a built-in set.
        root: see ``data_root``.
        mirror: a folder with the published files, here or by its address, to be tried before the public ones.
    """
    if downloadable(name) is None:
        return []
    from permll.data.verify import whole

    address = None if mirror is None else mirror_address(mirror)
    return whole(name, root) or fetch_all(name, data_root(root), address)


def downloadable(name: str) -> SetInfo | None:
    """Return the set if it can be downloaded, None if it comes with a package; otherwise say how to come by it."""
    info = find(name)
    if info.access.kind in ("package", "download"):
        return info if info.access.kind == "download" else None
    raise ValueError(f"{info.title} is not to be had by download: {info.access.todo} ({info.access.address}).")


def fetch_all(name: str, root: Path, mirror: str | None = None) -> list[Path]:
    """Download what a set consists of below ``root``, file by file; those that are there and right are left alone."""
    return [fetch(published, root, mirror) for published in PUBLISHED[name]]


def fetch(published: Published, root: Path, mirror: str | None = None) -> Path:
    """Download one published file below ``root``, unpack it if it is an archive, and return where it is."""
    mirrors = (mirror, *published.mirrors) if mirror else published.mirrors
    urls = [f"{folder.rstrip('/')}/{published.file}" for folder in mirrors]
    if not published.holds:
        return download(urls, root / published.target / published.file, md5=published.md5)
    folder, archive = root / published.target, root / published.file
    if all((folder / name).is_file() and _digest(folder / name, "md5") == md5 for name, md5 in published.holds.items()):
        return folder
    was_there = archive.exists()
    unpack(download(urls, archive, md5=published.md5), folder)
    if not was_there:
        archive.unlink()
    return folder


def download(
    url: str | Sequence[str], path: Path, *, md5: str | None = None, sha256: str | None = None, size: int | None = None
) -> Path:
    """Download a file to ``path``, unless it is there already, and return the path.

    It grows as ``path``.part, which a later call goes on from, and gets its name when its digest is right.

    Args:
        url: one address, or several that are tried in turn.
        path: where it goes.
        md5: the digest it must have, or
        sha256: this one.
        size: its number of bytes, if known.
    """
    if (md5 is None) == (sha256 is None):
        raise ValueError(f"a download needs one digest, md5 or sha256, to be checked by: {path}.")
    digest = ("md5", md5) if md5 else ("sha256", str(sha256))
    there = _digest(path, digest[0]) if path.is_file() else None
    if there == digest[1]:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    reasons = []
    for mirror in [url] if isinstance(url, str) else url:
        try:
            reason = _from_mirror(mirror, part, digest, size)
        except OSError as problem:
            raise _full(part) if problem.errno in _FULL else problem from None
        if reason is None:
            part.replace(path)
            return path
        reasons.append(f"{mirror}: {reason}")
    wrong = f"; the file at {path} has {digest[0]} {there}, not {digest[1]}" if there else ""
    raise DownloadError(
        f"{path.name} could not be downloaded ({'; '.join(reasons)}){wrong}: try again later, or fetch it by other "
        f"means and put it at {path}."
    )


def _from_mirror(url: str, part: Path, digest: tuple[str, str], size: int | None) -> str | None:
    """Fill ``part`` from one address; return why it failed, or None."""
    reason, furthest, failures = "", _length(part), 0
    while failures < ATTEMPTS:
        begun = _length(part)
        try:
            _append(url, part, size)
        except HTTPError as answer:
            with answer:
                if answer.code != _RANGE_REFUSED or not begun:  # otherwise the part is whole, or not a part of this
                    return f"the server answers {answer.code} {answer.reason}"
        except _OtherFileError as problem:
            return str(problem)
        except _NETWORK as problem:
            reason = _why(problem)
            if url.startswith("file:"):
                return reason  # asking again changes nothing
            failures = 0 if _length(part) > furthest else failures + 1
            furthest = max(furthest, _length(part))
            continue
        found = _digest(part, digest[0])
        if found == digest[1]:
            return None
        part.unlink()
        reason = f"what comes has {digest[0]} {found}, not {digest[1]}"
        if not begun:
            return reason
        failures += 1  # what was there before may have been at fault: once more, from the start
    return reason


def _append(url: str, part: Path, size: int | None) -> None:
    """Ask for what ``part`` lacks and add it; start over if the server sends everything."""
    have = _length(part)
    headers = {"User-Agent": f"permll/{__version__}", **({"Range": f"bytes={have}-"} if have else {})}
    with urlopen(Request(url, headers=headers), timeout=_TIMEOUT) as response:
        begin = have if response.status == _PARTIAL and _first_byte(response) == have else 0
        if response.status == _PARTIAL and not begin:
            part.unlink()
            raise _BrokenOffError("the server sends another part than it was asked for")
        length = response.headers.get("Content-Length")
        total = begin + int(length) if length else size
        if size and total != size:
            raise _OtherFileError(f"what comes has {total:,} bytes, not {size:,}")
        if total and total - begin > shutil.disk_usage(part.parent).free:
            raise OSError(errno.ENOSPC, f"{part} needs {total:,} bytes")
        with (
            part.open("ab" if begin else "wb") as file,
            progress(part.stem, total, unit="bytes", done=begin) as advance,
        ):
            for chunk in _chunks(response):
                file.write(chunk)
                advance(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    if total and _length(part) < total:
        raise _BrokenOffError(f"the connection broke off after {_length(part):,} of {total:,} bytes")


def _chunks(response: Any) -> Iterator[bytes]:
    """Yield what comes; how a connection that ends too early shows depends on the version of Python."""
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except http.client.IncompleteRead as broken:
        yield broken.partial


def _first_byte(response: Any) -> int | None:
    """Return where a partial answer begins: 'bytes 500-999/1000' at 500."""
    begin = str(response.headers.get("Content-Range", "")).removeprefix("bytes ").partition("-")[0]
    return int(begin) if begin.isdigit() else None


def _why(problem: Exception) -> str:
    if isinstance(problem, URLError):
        reason = problem.reason
        if isinstance(reason, FileNotFoundError):
            return "there is no such file"
        return f"no connection ({getattr(reason, 'strerror', None) or reason})"
    return str(problem) or type(problem).__name__


def _full(part: Path) -> DownloadError:
    return DownloadError(
        f"the disk is full: {part} cannot grow beyond {_length(part):,} bytes; make room and try again, it goes on "
        "from there."
    )


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
