"""``permll data``, run as the process a user would start."""

import json
from pathlib import Path

import pytest

from permll.data.registry import SETS
from permll.data.sets.mnist import DEBIAN
from tests.cli.test_commands import run
from tests.data.files import cut, write_noise_jpeg
from tests.data.real import published_fashion
from tests.data.servers import Server, serving


def test_list_shows_every_set() -> None:
    shown = run("data", "list", COLUMNS="200")
    assert shown.returncode == 0, shown.stderr
    rows = {row.split("│")[1].strip(): row for row in shown.stdout.splitlines() if row.count("│") == 8}
    assert set(SETS) <= set(rows)
    cells = [cell.strip() for cell in rows["cifar10"].split("│")[1:-1]]
    assert cells[1:5] == ["train 50,000", "10", "32 x 32 RGB images", "clean"]
    assert cells[6] == "permll data get cifar10"
    assert "38 % wrong" in rows["clothing1m"]


def test_list_as_json() -> None:
    listed = {info["name"]: info for info in json.loads(run("data", "list", "--json").stdout)}
    assert list(listed) == list(SETS)
    assert listed["clothing1m"]["samples"] == {"train": 1_000_000, "val": 14_313, "test": 10_526}
    assert listed["clothing1m"]["access"]["kind"] == "request"


def test_check_of_a_good_set() -> None:
    shown = run("data", "check", "digits")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("good") == 6
    assert "1,347" in shown.stdout


def test_check_of_a_broken_set_names_what_is_wrong(tmp_path: Path) -> None:
    for number in range(10):
        write_noise_jpeg(tmp_path / "training" / f"{number}_{number}.jpg", seed=number)
        write_noise_jpeg(tmp_path / "testing" / f"{number}_{number}.jpg", seed=number)
    cut(tmp_path / "training" / "3_3.jpg", 0.5)
    shown = run("data", "check", "animal10n", "--root", tmp_path, COLUMNS="300")
    assert shown.returncode == 1
    assert "1 image (3_3.jpg) in" in shown.stdout
    assert shown.stderr == ""
    shown = run("data", "check", "animal10n", "--json", PERMLL_DATA=str(tmp_path))
    assert shown.returncode == 1
    findings = json.loads(shown.stdout)
    assert [finding["names"] for finding in findings if finding["what"] == "images"] == [["3_3.jpg"]]
    assert [finding["detail"] for finding in findings if finding["what"] == "samples"] == ["10, not 5,000"]


def test_check_of_a_set_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    shown = run("data", "check", "cifar10", "--root", tmp_path, COLUMNS="1000")
    assert shown.returncode == 1
    assert f"permll data get cifar10 --root {tmp_path}." in shown.stdout


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_get_downloads_and_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    files = published_fashion()
    name = "train-images-idx3-ubyte.gz"
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    (folder / f"{name}.part").write_bytes(files[name][:20_000_000])
    server = Server(files)
    with serving(server) as address:
        shown = run("data", "get", "fashion_mnist", "--root", tmp_path, "--mirror", address, no_proxy="127.0.0.1")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == [str(folder / file) for file in files]
    assert server.asked[0] == (name, "bytes=20000000-")
    assert {path.name for path in folder.iterdir()} == set(files)
    checked = run("data", "check", "fashion_mnist", "--root", tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_get_of_what_needs_no_download() -> None:
    shown = run("data", "get", "digits")
    assert shown.returncode == 0
    assert shown.stdout == "scikit-learn's digits: nothing to download, install scikit-learn, which holds it.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "clothing1m"], "permll: Clothing1M is not to be had by download: ask its authors for it"),
        (["get", "cifar"], "permll: 'cifar' is no built-in data set, did you mean cifar10? There are digits, "),
        (["check", "minst"], "permll: 'minst' is no built-in data set, did you mean mnist?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: list[str], message: str, tmp_path: Path) -> None:
    shown = run("data", *arguments, "--root", tmp_path)
    assert shown.returncode == 1
    assert shown.stderr.startswith(message)
    assert len(shown.stderr.splitlines()) == 1
