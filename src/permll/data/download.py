"""Downloads of dataset files: resumable, verified by digest, and atomic."""

import errno
import gzip
import hashlib
import http.client
import os
import shutil
import ssl
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from permll._version import __version__
from permll.data.registry import find_dataset
from permll.data.remote_files import REMOTE_FILES, RemoteFile
from permll.utils.progress_bar import progress

MAX_ATTEMPTS = 3  # in a row without progress
_TIMEOUT = 30.0
_CHUNK = 1 << 20
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NETWORK_ERRORS = (URLError, ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)


class DownloadError(OSError):
    """A file could not be downloaded."""


class _IncompleteError(ConnectionError):
    """The connection ended before the file did."""


def can_download(name: str) -> bool:
    """Return False if a dataset comes with a package; raise if it must be requested or fetched by hand."""
    info = find_dataset(name)
    if info.access.kind in ("package", "download"):
        return info.access.kind == "download"
    raise ValueError(f"{info.title} cannot be downloaded here: {info.access.instructions} ({info.access.url}).")


def download_dataset(name: str, root: Path, mirror: str | None = None) -> list[Path]:
    """Download the files of a dataset to ``root`` and return their paths; valid local files are kept.

    Args:
        name: name of the dataset.
        root: folder of the datasets.
        mirror: URL of a folder with the published files, tried before the public ones.
    """
    return [download_file(file, root, mirror) for file in REMOTE_FILES[name]]


def download_file(file: RemoteFile, root: Path, mirror: str | None = None) -> Path:
    """Download a published file to ``root``, extract it if it is an archive, and return its path."""
    mirrors = (mirror, *file.mirrors) if mirror else file.mirrors
    urls = [f"{folder.rstrip('/')}/{file.name}" for folder in mirrors]
    if not file.members:
        return download_url(urls, root / file.target / file.name, file.md5)
    folder, archive = root / file.target, root / file.name
    if all((folder / name).is_file() and file_md5(folder / name) == md5 for name, md5 in file.members.items()):
        return folder
    keep_archive = archive.exists()
    extract_archive(download_url(urls, archive, file.md5), folder)
    if not keep_archive:
        archive.unlink()
    return folder


def extract_archive(archive: Path, folder: Path) -> Path:
    """Extract the one folder of a tar file, and replace ``folder`` with it.

    Members that point outside the folder, devices and the like are rejected. Everything is extracted beside ``folder``
    first, so an interrupted process leaves no partial folder under that name.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ImportError("safe extraction needs Python 3.11.4 or newer: update Python, or extract the file by hand.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise ValueError(f"{archive} cannot be extracted: {error}; remove it and download it again.") from None
        extracted = Path(temporary) / folder.name
        if not extracted.is_dir():
            raise ValueError(f"{archive} contains no folder {folder.name}; download it again.")
        if folder.exists():
            folder.replace(Path(temporary) / "previous")  # removed with the temporary folder
        extracted.replace(folder)
    return folder


# Not torch.hub.download_url_to_file: it does not resume.
def download_url(urls: Sequence[str], path: Path, md5: str) -> Path:
    """Download a file to ``path``, unless a valid one exists, and return the path.

    The data go to ``path``.part, which a later call resumes; the file is renamed when its digest is right.

    Args:
        urls: URLs of the file, tried in turn.
        path: destination.
        md5: digest of the file.
    """
    local = file_md5(path) if path.is_file() else None
    if local == md5:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    reasons = []
    for url in urls:
        try:
            reason = _download_from(url, part, md5)
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            raise DownloadError(
                f"the disk is full: {part} stopped at {_size(part):,} bytes; free some space and try again to resume."
            ) from None
        if reason is None:
            part.replace(path)
            return path
        reasons.append(f"{url}: {reason}")
    wrong = f"; the file at {path} has md5 {local}, not {md5}" if local else ""
    raise DownloadError(
        f"{path.name} could not be downloaded ({'; '.join(reasons)}){wrong}: try again later, or get it by other "
        f"means and put it at {path}."
    )


def _download_from(url: str, part: Path, md5: str) -> str | None:
    """Fill ``part`` from one URL; return why it failed, or None."""
    reason, furthest, failures = "", _size(part), 0
    while failures < MAX_ATTEMPTS:
        start = _size(part)
        try:
            _append(url, part)
        except HTTPError as response:
            with response:
                # A range is refused if the part is complete, or is not a part of this file; the digest decides.
                if response.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not start:
                    return f"the server answers {response.code} {response.reason}"
        except _NETWORK_ERRORS as error:
            reason = _network_reason(error)
            if url.startswith("file:"):
                return reason  # another attempt would fail too
            failures = 0 if _size(part) > furthest else failures + 1
            furthest = max(furthest, _size(part))
            continue
        digest = file_md5(part)
        if digest == md5:
            return None
        part.unlink()
        reason = f"the downloaded file has md5 {digest}, not {md5}"
        if not start:
            return reason
        failures += 1  # the earlier part may have been wrong: start again
    return reason


def _append(url: str, part: Path) -> None:
    """Request the rest of the file and append it to ``part``; start over if the server sends everything."""
    size = _size(part)
    headers = {"User-Agent": f"permll/{__version__}", **({"Range": f"bytes={size}-"} if size else {})}
    with urlopen(Request(url, headers=headers), timeout=_TIMEOUT) as response:
        is_partial = response.status == HTTPStatus.PARTIAL_CONTENT
        start = size if is_partial and _first_byte(response) == size else 0
        if is_partial and not start:
            part.unlink()
            raise _IncompleteError("the server sent another range than requested")
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        if total and total - start > shutil.disk_usage(part.parent).free:
            raise OSError(errno.ENOSPC, f"{part} needs {total:,} bytes")
        with (
            part.open("ab" if start else "wb") as file,
            progress(part.stem, total, unit="bytes", done=start) as advance,
        ):
            for chunk in _chunks(response):
                file.write(chunk)
                advance(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    if total and _size(part) < total:
        raise _IncompleteError(f"the connection closed after {_size(part):,} of {total:,} bytes")


def _chunks(response: Any) -> Iterator[bytes]:
    """Yield the content; some Python versions raise IncompleteRead when a connection closes early."""
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except http.client.IncompleteRead as error:
        yield error.partial


def _first_byte(response: Any) -> int | None:
    """Return the start of a partial response: 500 for 'bytes 500-999/1000'."""
    start = str(response.headers.get("Content-Range", "")).removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else None


def _network_reason(error: Exception) -> str:
    if isinstance(error, URLError):
        if isinstance(error.reason, FileNotFoundError):
            return "no such file"
        return f"no connection ({getattr(error.reason, 'strerror', None) or error.reason})"
    return str(error) or type(error).__name__


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def file_md5(path: Path, *, decompress: bool = False) -> str:
    """Return the digest of a file, with ``decompress`` that of the content of a .gz file."""
    with gzip.open(path) if decompress and path.suffix == ".gz" else path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
