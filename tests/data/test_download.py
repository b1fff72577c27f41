"""Downloads from real servers on this machine: whole, in pieces, broken off, wrong, and refused."""

import hashlib
import io
import socket
import tarfile
from pathlib import Path

import numpy as np
import pytest

from permll.data.archives import unpack
from permll.data.datasets.mnist import DEBIAN
from permll.data.download import ATTEMPTS, DownloadError, download, fetch, get
from permll.data.registry import find
from permll.data.remote_files import Published, mirror_address
from permll.data.verify import check
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


@pytest.mark.parametrize("digest", [{"md5": MD5}, {"sha256": hashlib.sha256(CONTENT).hexdigest()}])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_arrives_whole(digest: dict[str, str], ranges: bool, tmp_path: Path) -> None:
    server = Server({NAME: CONTENT}, ranges=ranges)
    path = tmp_path / "new" / "folder" / NAME
    with serving(server) as address:
        assert download(f"{address}/{NAME}", path, size=len(CONTENT), **digest) == path
        assert path.read_bytes() == CONTENT
        assert list(path.parent.iterdir()) == [path]
        download(f"{address}/{NAME}", path, **digest)
    assert server.asked == [(NAME, None)]  # what is there and right is not asked for again


def test_a_file_that_is_there_but_wrong_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(CONTENT[:-1] + b"?")
    with serving(Server({NAME: CONTENT})) as address:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert path.read_bytes() == CONTENT


def test_a_download_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT})
    part(path).write_bytes(CONTENT[:200_000])
    with serving(server) as address:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert path.read_bytes() == CONTENT
    assert server.asked == [(NAME, "bytes=200000-")]
    assert server.sent == 100_000


def test_a_server_that_ignores_ranges_starts_over(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, ranges=False)
    part(path).write_bytes(CONTENT[:200_000])
    with serving(server) as address:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert path.read_bytes() == CONTENT
    assert server.asked == [(NAME, "bytes=200000-")]
    assert server.sent == 300_000


def test_a_server_that_breaks_off_is_asked_for_the_rest(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, break_after=70_000)
    with serving(server) as address:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, *(f"bytes={n}-" for n in (70_000, 140_000, 210_000, 280_000))]


def test_a_server_that_only_ever_sends_the_beginning_is_given_up(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, ranges=False, break_after=70_000)
    with serving(server) as address:
        with pytest.raises(DownloadError) as caught:
            download(f"{address}/{NAME}", path, md5=MD5)
        assert str(caught.value) == (
            f"file.bin could not be downloaded ({address}/{NAME}: the connection broke off after 70,000 of 300,000 "
            f"bytes): try again later, or fetch it by other means and put it at {path}."
        )
    assert len(server.asked) == 1 + ATTEMPTS
    assert not path.exists()
    better = Server({NAME: CONTENT})
    with serving(better) as address:  # nothing that arrived is lost
        download(f"{address}/{NAME}", path, md5=MD5)
    assert better.asked == [(NAME, "bytes=70000-")]
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("before", "requests"),
    [
        (b"x" * 200_000, [200_000, None]),  # no part of this file
        (CONTENT + b"x", [300_001, None]),  # longer than the file: the server refuses the range
        (CONTENT, [300_000]),  # whole already
    ],
)
def test_a_part_that_does_not_fit_is_thrown_away(before: bytes, requests: list[int | None], tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT})
    part(path).write_bytes(before)
    with serving(server) as address:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [n and f"bytes={n}-" for n in requests]


def test_a_server_that_sends_another_part_is_not_believed(tmp_path: Path) -> None:
    path, server = tmp_path / NAME, Server({NAME: CONTENT}, shift=10)
    part(path).write_bytes(CONTENT[:200_000])
    with serving(server) as address:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=200000-", None]


def test_a_wrong_checksum_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with serving(Server({NAME: b"something else"})) as address:
        with pytest.raises(DownloadError) as caught:
            download(f"{address}/{NAME}", path, md5=MD5)
        found = hashlib.md5(b"something else").hexdigest()
        assert f"({address}/{NAME}: what comes has md5 {found}, not {MD5})" in str(caught.value)
        with pytest.raises(DownloadError, match="what comes has 14 bytes, not 300,000"):
            download(f"{address}/{NAME}", path, md5=MD5, size=300_000)
    assert list(tmp_path.iterdir()) == []


def test_mirrors_are_tried_in_turn(tmp_path: Path) -> None:
    path, good = tmp_path / NAME, Server({NAME: CONTENT})
    with serving(Server({})) as empty, serving(Server({NAME: b"wrong"})) as wrong, serving(good) as right:
        urls = [f"{address}/{NAME}" for address in (empty, wrong, right)]
        with pytest.raises(DownloadError) as caught:
            download(urls[:2], path, md5=MD5)
        assert f"{urls[0]}: the server answers 404 Not Found; {urls[1]}: what comes has md5" in str(caught.value)
        assert f"put it at {path}." in str(caught.value)
        download(urls, path, md5=MD5)
    assert path.read_bytes() == CONTENT
    assert good.asked == [(NAME, None)]


def test_no_connection_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, but nobody listens
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/{NAME}"
        with pytest.raises(DownloadError) as caught:
            download(url, tmp_path / NAME, md5=MD5)
    assert f"({url}: no connection (Connection refused))" in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, the disk that is always full")
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / NAME
    part(path).symlink_to("/dev/full")
    with serving(Server({NAME: CONTENT})) as address, pytest.raises(DownloadError) as caught:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert str(caught.value) == (
        f"the disk is full: {path}.part cannot grow beyond 0 bytes; make room and try again, it goes on from there."
    )


def test_a_download_needs_a_digest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a download needs one digest, md5 or sha256"):
        download("http://127.0.0.1/file", tmp_path / NAME)


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_is_unpacked_in_one_step(tmp_path: Path) -> None:
    packed = archive(tmp_path / "set.tar.gz", {"set/a": b"1", "set/deep/b": b"2"})
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "half").write_text("left over")
    folder = unpack(packed, tmp_path / "data" / "set")
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["a", "deep", "deep/b"]
    assert (folder / "deep" / "b").read_bytes() == b"2"
    assert list((tmp_path / "data").iterdir()) == [folder]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"set/a": b"1", "../evil": b"2"}, "was not unpacked: '../evil' would be extracted to"),
        ({"other/a": b"1"}, "there is no folder set in it"),
    ],
)
def test_an_archive_that_reaches_outside_is_refused(members: dict[str, bytes], message: str, tmp_path: Path) -> None:
    packed = archive(tmp_path / "set.tar.gz", members)
    with pytest.raises(ValueError, match="was not unpacked") as caught:
        unpack(packed, tmp_path / "data" / "set")
    assert message in str(caught.value)
    assert list((tmp_path / "data").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"set.tar.gz", "data"}


def test_a_cut_archive_is_one_sentence(tmp_path: Path) -> None:
    packed = archive(tmp_path / "set.tar.gz", {"set/a": CONTENT})
    packed.write_bytes(packed.read_bytes()[:100_000])
    with pytest.raises(ValueError, match=r"set\.tar\.gz was not unpacked: .*; remove it and get it again"):
        unpack(packed, tmp_path / "data" / "set")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_published_archive_is_fetched_once_and_mended(tmp_path: Path) -> None:
    packed = archive(tmp_path / "set.tar.gz", {"set/a": b"1", "set/b": b"2"}).read_bytes()
    server, root = Server({"folder/set.tar.gz": packed}), tmp_path / "data"
    holds = {name: hashlib.md5(content).hexdigest() for name, content in (("a", b"1"), ("b", b"2"))}
    with serving(server) as address:
        published = Published("set.tar.gz", (f"{address}/folder/",), hashlib.md5(packed).hexdigest(), "set", holds)
        assert fetch(published, root) == root / "set"
        assert list(root.iterdir()) == [root / "set"]  # the archive is gone
        fetch(published, root)
        assert len(server.asked) == 1
        (root / "set" / "b").write_bytes(b"damaged")
        fetch(published, root)
        assert (root / "set" / "b").read_bytes() == b"2"
        assert len(server.asked) == 2
        (root / "set" / "b").unlink()
        (root / "set.tar.gz").write_bytes(packed)  # fetched by other means
        fetch(published, root)
        assert (root / "set" / "b").read_bytes() == b"2"
        assert (root / "set.tar.gz").exists()
        assert len(server.asked) == 2


def test_what_comes_with_a_package_needs_no_download(tmp_path: Path) -> None:
    assert get("digits", tmp_path) == []


@pytest.mark.parametrize("name", ["clothing1m", "webvision_mini", "food101n", "animal10n"])
def test_what_must_be_asked_for_says_whom(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not to be had by download") as caught:
        get(name, tmp_path)
    assert find(name).access.todo in str(caught.value)
    assert find(name).access.address in str(caught.value)


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_fashion_mnist_as_published_from_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permll.data.datasets.mnist.DEBIAN", tmp_path / "debian")  # as if it were not there
    server = Server({f"mirror/{name}": content for name, content in published_fashion().items()})
    with serving(server) as address:
        paths = get("fashion_mnist", tmp_path, mirror=f"{address}/mirror")
        assert paths == [tmp_path / "fashion_mnist" / name for name in published_fashion()]
        assert get("fashion_mnist", tmp_path, mirror=f"{address}/mirror") == [tmp_path / "fashion_mnist"]
    assert len(server.asked) == 4
    findings = check("fashion_mnist", tmp_path)
    assert all(finding.good for finding in findings)
    assert {finding.detail for finding in findings if finding.what == "place"} == {str(tmp_path / "fashion_mnist")}


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_what_is_there_in_another_form_is_not_downloaded(tmp_path: Path) -> None:
    with serving(Server({})) as address:
        assert get("fashion_mnist", tmp_path, mirror=address) == [DEBIAN]
    assert list(tmp_path.iterdir()) == []


def test_a_mirror_can_be_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my files"
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    published = Published(NAME, (), MD5, "set")
    path = fetch(published, tmp_path / "data", mirror_address(folder))
    assert path == tmp_path / "data" / "set" / NAME
    assert path.read_bytes() == CONTENT
    assert mirror_address(str(folder)) == folder.as_uri()
    (folder / NAME).unlink()
    path.unlink()
    with pytest.raises(DownloadError, match=r"my%20files/file.bin: there is no such file\): try again later"):
        fetch(published, tmp_path / "data", mirror_address(folder))


@pytest.mark.parametrize(
    "mirror", ["nonsense", "no/such/folder", "http://", "https:/x", "http://[1", "gopher://x/y", ""]
)
def test_a_mirror_that_is_none_is_one_sentence(mirror: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mirror must be an address") as caught:
        get("cifar10", tmp_path, mirror=mirror)
    assert repr(mirror) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_at_the_advised_place_is_named(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"fetched by hand, but cut short")
    found = hashlib.md5(path.read_bytes()).hexdigest()
    with serving(Server({})) as address, pytest.raises(DownloadError) as caught:
        download(f"{address}/{NAME}", path, md5=MD5)
    assert f"; the file at {path} has md5 {found}, not {MD5}: try again later" in str(caught.value)
    assert path.read_bytes() == b"fetched by hand, but cut short"
    packed = archive(tmp_path / "set.tar.gz", {"set/a": b"1"}).read_bytes()
    with serving(Server({})) as address:
        published = Published("set.tar.gz", (address,), MD5, "set", {"a": hashlib.md5(b"1").hexdigest()})
        with pytest.raises(DownloadError, match=f"the file at .*set.tar.gz has md5 {hashlib.md5(packed).hexdigest()}"):
            fetch(published, tmp_path)
