"""Downloads from local servers: complete, resumed, interrupted and invalid."""

import hashlib
import io
import socket
import tarfile
from pathlib import Path

import numpy as np
import pytest

from permll.data.datasets.mnist import DEBIAN_FOLDER
from permll.data.download import (
    MAX_ATTEMPTS,
    DownloadError,
    can_download,
    download_dataset,
    download_file,
    download_url,
    extract_archive,
)
from permll.data.registry import find_dataset
from permll.data.remote_files import RemoteFile, mirror_url
from permll.data.verify_dataset import find_complete, verify_dataset
from tests.helpers.http_servers import Server, serving
from tests.helpers.real_data import published_fashion

CONTENT = np.random.default_rng(0).bytes(300_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
NAME = "file.bin"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


@pytest.mark.parametrize("ranges", [True, False])
def test_download_url_writes_complete_file(ranges: bool, tmp_path: Path) -> None:
    server = Server({NAME: CONTENT}, ranges=ranges)
    path = tmp_path / "new" / "folder" / NAME
    with serving(server) as url:
        assert download_url([f"{url}/{NAME}"], path, MD5) == path
        assert path.read_bytes() == CONTENT
        assert list(path.parent.iterdir()) == [path]
        download_url([f"{url}/{NAME}"], path, MD5)
    assert server.requests == [(NAME, None)]  # a valid local file is not requested again


def test_download_url_replaces_invalid_file(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(CONTENT[:-1] + b"?")
    with serving(Server({NAME: CONTENT})) as url:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert path.read_bytes() == CONTENT


def test_download_url_resumes(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT})
    part(path).write_bytes(CONTENT[:200_000])
    with serving(server) as url:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert path.read_bytes() == CONTENT
    assert server.requests == [(NAME, "bytes=200000-")]
    assert server.sent == 100_000


def test_download_url_restarts_if_server_ignores_ranges(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, ranges=False)
    part(path).write_bytes(CONTENT[:200_000])
    with serving(server) as url:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert path.read_bytes() == CONTENT
    assert server.requests == [(NAME, "bytes=200000-")]
    assert server.sent == 300_000


def test_download_url_requests_rest_after_disconnect(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, break_after=70_000)
    with serving(server) as url:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert path.read_bytes() == CONTENT
    assert [requested for _, requested in server.requests] == [
        None,
        *(f"bytes={n}-" for n in (70_000, 140_000, 210_000, 280_000)),
    ]


def test_download_url_gives_up_without_progress(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, ranges=False, break_after=70_000)
    with serving(server) as url:
        with pytest.raises(DownloadError) as caught:
            download_url([f"{url}/{NAME}"], path, MD5)
        assert str(caught.value) == (
            f"file.bin could not be downloaded ({url}/{NAME}: the connection closed after 70,000 of 300,000 "
            f"bytes): try again later, or get it by other means and put it at {path}."
        )
    assert len(server.requests) == 1 + MAX_ATTEMPTS
    assert not path.exists()
    better = Server({NAME: CONTENT})
    with serving(better) as url:  # the received part is kept
        download_url([f"{url}/{NAME}"], path, MD5)
    assert better.requests == [(NAME, "bytes=70000-")]
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("before", "requests"),
    [
        (b"x" * 200_000, [200_000, None]),  # not a part of this file
        (CONTENT + b"x", [300_001, None]),  # longer than the file: the server refuses the range
        (CONTENT, [300_000]),  # already complete
    ],
)
def test_download_url_discards_invalid_part(before: bytes, requests: list[int | None], tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT})
    part(path).write_bytes(before)
    with serving(server) as url:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert path.read_bytes() == CONTENT
    assert [requested for _, requested in server.requests] == [n and f"bytes={n}-" for n in requests]


def test_download_url_rejects_other_range(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, shift=10)
    part(path).write_bytes(CONTENT[:200_000])
    with serving(server) as url:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert path.read_bytes() == CONTENT
    assert [requested for _, requested in server.requests] == ["bytes=200000-", None]


def test_download_url_rejects_wrong_digest(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with serving(Server({NAME: b"something else"})) as url:
        with pytest.raises(DownloadError) as caught:
            download_url([f"{url}/{NAME}"], path, MD5)
        digest = hashlib.md5(b"something else").hexdigest()
        assert f"({url}/{NAME}: the downloaded file has md5 {digest}, not {MD5})" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_download_url_tries_mirrors_in_turn(tmp_path: Path) -> None:
    path, valid = tmp_path / NAME, Server({NAME: CONTENT})
    with serving(Server({})) as empty, serving(Server({NAME: b"wrong"})) as wrong, serving(valid) as right:
        urls = [f"{url}/{NAME}" for url in (empty, wrong, right)]
        with pytest.raises(DownloadError) as caught:
            download_url(urls[:2], path, MD5)
        assert f"{urls[0]}: the server answers 404 Not Found; {urls[1]}: the downloaded file has md5" in str(
            caught.value
        )
        assert f"put it at {path}." in str(caught.value)
        download_url(urls, path, MD5)
    assert path.read_bytes() == CONTENT
    assert valid.requests == [(NAME, None)]


def test_download_url_reports_no_connection(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # a port without a listener
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{NAME}"
        with pytest.raises(DownloadError) as caught:
            download_url([url], tmp_path / NAME, MD5)
    assert f"({url}: no connection (Connection refused))" in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_download_url_reports_full_disk(tmp_path: Path) -> None:
    path = tmp_path / NAME
    part(path).symlink_to("/dev/full")
    with serving(Server({NAME: CONTENT})) as url, pytest.raises(DownloadError) as caught:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert str(caught.value) == (
        f"the disk is full: {path}.part stopped at 0 bytes; free some space and try again to resume."
    )


def write_archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_extract_archive_replaces_folder(tmp_path: Path) -> None:
    packed = write_archive(tmp_path / "set.tar.gz", {"set/a": b"1", "set/deep/b": b"2"})
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "half").write_text("left over")
    folder = extract_archive(packed, tmp_path / "data" / "set")
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["a", "deep", "deep/b"]
    assert (folder / "deep" / "b").read_bytes() == b"2"
    assert list((tmp_path / "data").iterdir()) == [folder]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"set/a": b"1", "../evil": b"2"}, "cannot be extracted: '../evil' would be extracted to"),
        ({"other/a": b"1"}, "contains no folder set"),
    ],
)
def test_extract_archive_rejects_other_folders(members: dict[str, bytes], message: str, tmp_path: Path) -> None:
    packed = write_archive(tmp_path / "set.tar.gz", members)
    with pytest.raises(ValueError, match=r"set\.tar\.gz") as caught:
        extract_archive(packed, tmp_path / "data" / "set")
    assert message in str(caught.value)
    assert list((tmp_path / "data").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"set.tar.gz", "data"}


def test_extract_archive_rejects_truncated_file(tmp_path: Path) -> None:
    packed = write_archive(tmp_path / "set.tar.gz", {"set/a": CONTENT})
    packed.write_bytes(packed.read_bytes()[:100_000])
    with pytest.raises(ValueError, match=r"set\.tar\.gz cannot be extracted: .*; remove it and download it again"):
        extract_archive(packed, tmp_path / "data" / "set")
    assert list((tmp_path / "data").iterdir()) == []


def test_download_file_fetches_archive_once_and_repairs_it(tmp_path: Path) -> None:
    packed = write_archive(tmp_path / "set.tar.gz", {"set/a": b"1", "set/b": b"2"}).read_bytes()
    server, root = Server({"folder/set.tar.gz": packed}), tmp_path / "data"
    members = {name: hashlib.md5(content).hexdigest() for name, content in (("a", b"1"), ("b", b"2"))}
    with serving(server) as url:
        file = RemoteFile("set.tar.gz", (f"{url}/folder/",), hashlib.md5(packed).hexdigest(), "set", members)
        assert download_file(file, root) == root / "set"
        assert list(root.iterdir()) == [root / "set"]  # the archive was removed
        download_file(file, root)
        assert len(server.requests) == 1
        (root / "set" / "b").write_bytes(b"damaged")
        download_file(file, root)
        assert (root / "set" / "b").read_bytes() == b"2"
        assert len(server.requests) == 2
        (root / "set" / "b").unlink()
        (root / "set.tar.gz").write_bytes(packed)  # downloaded by other means
        download_file(file, root)
        assert (root / "set" / "b").read_bytes() == b"2"
        assert (root / "set.tar.gz").exists()
        assert len(server.requests) == 2


def test_can_download_is_false_for_package() -> None:
    assert not can_download("digits")


@pytest.mark.parametrize("name", ["clothing1m", "webvision_mini", "food101n", "animal10n"])
def test_can_download_raises_with_instructions(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be downloaded here") as caught:
        can_download(name)
    assert find_dataset(name).access.instructions in str(caught.value)
    assert find_dataset(name).access.url in str(caught.value)


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
@pytest.mark.slow
def test_download_fashion_mnist_from_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permll.data.datasets.mnist.DEBIAN_FOLDER", tmp_path / "debian")  # hide the installed package
    server = Server({f"mirror/{name}": content for name, content in published_fashion().items()})
    with serving(server) as url:
        for _ in range(2):  # the second time, nothing is requested
            paths = download_dataset("fashion_mnist", tmp_path, f"{url}/mirror")
            assert paths == [tmp_path / "fashion_mnist" / name for name in published_fashion()]
    assert len(server.requests) == 4
    results = verify_dataset("fashion_mnist", tmp_path)
    assert all(result.passed for result in results)
    assert {result.detail for result in results if result.check == "location"} == {str(tmp_path / "fashion_mnist")}
    assert find_complete("fashion_mnist", tmp_path) == [tmp_path / "fashion_mnist"]


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_find_complete_finds_debian_package(tmp_path: Path) -> None:
    assert find_complete("fashion_mnist", tmp_path) == [DEBIAN_FOLDER]
    assert list(tmp_path.iterdir()) == []


def test_mirror_can_be_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my files"
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    file = RemoteFile(NAME, (), MD5, "set")
    path = download_file(file, tmp_path / "data", mirror_url(folder))
    assert path == tmp_path / "data" / "set" / NAME
    assert path.read_bytes() == CONTENT
    assert mirror_url(str(folder)) == folder.as_uri()
    (folder / NAME).unlink()
    path.unlink()
    with pytest.raises(DownloadError, match=r"my%20files/file.bin: no such file\): try again later"):
        download_file(file, tmp_path / "data", mirror_url(folder))


@pytest.mark.parametrize(
    "mirror", ["nonsense", "no/such/folder", "http://", "https:/x", "http://[1", "gopher://x/y", ""]
)
def test_mirror_url_rejects_invalid_mirror(mirror: str) -> None:
    with pytest.raises(ValueError, match="mirror must be a URL") as caught:
        mirror_url(mirror)
    assert repr(mirror) in str(caught.value)


def test_download_error_names_invalid_local_file(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"truncated")
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    with serving(Server({})) as url, pytest.raises(DownloadError) as caught:
        download_url([f"{url}/{NAME}"], path, MD5)
    assert f"; the file at {path} has md5 {digest}, not {MD5}: try again later" in str(caught.value)
    assert path.read_bytes() == b"truncated"
    packed = write_archive(tmp_path / "set.tar.gz", {"set/a": b"1"}).read_bytes()
    with serving(Server({})) as url:
        file = RemoteFile("set.tar.gz", (url,), MD5, "set", {"a": hashlib.md5(b"1").hexdigest()})
        with pytest.raises(DownloadError, match=f"the file at .*set.tar.gz has md5 {hashlib.md5(packed).hexdigest()}"):
            download_file(file, tmp_path)
