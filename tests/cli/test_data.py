"""``permll data``: every command of it as the process a user would start, the rest in this process."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from permll.cli.data import data
from permll.data.datasets.mnist import DEBIAN_FOLDER
from permll.data.registry import DATASETS
from tests.cli.conftest import Inside
from tests.cli.test_commands import run
from tests.helpers.dataset_files import truncate, write_noise_jpeg
from tests.helpers.http_servers import Server, serving
from tests.helpers.real_data import published_fashion


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_list_shows_every_set_whole_at_any_width(columns: int, inside: Inside) -> None:
    shown = inside("data", "list", COLUMNS=str(columns))
    assert shown.returncode == 0, shown.stderr
    lines = [line.strip() for line in shown.stdout.splitlines()]
    flat = " ".join(shown.stdout.split())
    for info in DATASETS.values():
        assert sum(line.startswith(f"{info.name}  ") for line in lines) == 1
        how = f"permll data get {info.name}" if info.access.kind == "download" else info.access.url
        assert lines.count(how) == 1
        said = [info.inputs, info.noise, info.license, *(f"{n:,} {split}" for split, n in info.samples.items())]
        said += [] if info.access.kind == "download" else [info.access.instructions]
        assert all(phrase in flat for phrase in said)
    names = [line.split()[0] for line in shown.stdout.splitlines() if line and not line.startswith(" ")]
    assert names == list(DATASETS)
    longest = [len(line) for line in shown.stdout.splitlines() if "://" not in line]
    assert max(longest) <= columns
    assert not any(line.endswith(" ") for line in shown.stdout.splitlines())


def test_names_are_bold_on_a_terminal() -> None:
    shown = run("data", "list", FORCE_COLOR="1", NO_COLOR="", TERM="xterm")
    assert all(f"\x1b[1m{name}\x1b[0m" in shown.stdout for name in DATASETS)


def test_list_as_json(inside: Inside) -> None:
    format_list = {info["name"]: info for info in json.loads(inside("data", "list", "--json").stdout)}
    assert list(format_list) == list(DATASETS)
    assert format_list["clothing1m"]["samples"] == {"train": 1_000_000, "val": 14_313, "test": 10_526}
    assert format_list["clothing1m"]["access"]["kind"] == "request"


def test_check_of_a_good_set() -> None:
    shown = run("data", "check", "digits")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("good") == 6
    assert shown.stdout.splitlines()[0].split() == ["split", "what", "result", "found"]
    assert "1,347" in shown.stdout


def test_check_of_a_broken_set_names_what_is_wrong(tmp_path: Path, inside: Inside) -> None:
    for number in range(10):
        write_noise_jpeg(tmp_path / "training" / f"{number}_{number}.jpg", seed=number)
        write_noise_jpeg(tmp_path / "testing" / f"{number}_{number}.jpg", seed=number)
    truncate(tmp_path / "training" / "3_3.jpg", 0.5)
    shown = inside("data", "check", "animal10n", "--root", tmp_path)
    assert shown.returncode == 1
    assert "1 image (3_3.jpg: damaged) in" in shown.stdout
    assert shown.stderr == ""
    shown = inside("data", "check", "animal10n", "--json", PERMLL_DATA=str(tmp_path))
    assert shown.returncode == 1
    findings = json.loads(shown.stdout)
    assert [finding["names"] for finding in findings if finding["check"] == "images"] == [["3_3.jpg"]]
    assert [finding["detail"] for finding in findings if finding["check"] == "samples"] == ["10, not 5,000"]


@pytest.mark.parametrize("columns", [60, 1000])
def test_check_of_a_set_that_is_not_there_says_what_to_do_once(columns: int, tmp_path: Path, inside: Inside) -> None:
    shown = inside("data", "check", "cifar10", "--root", tmp_path, COLUMNS=str(columns))
    assert shown.returncode == 1
    assert shown.stdout.count(f"permll data get cifar10 --root {tmp_path}.") == 1
    assert shown.stdout.count("not found") == 1
    shown = inside("data", "check", "webvision_mini", "--root", tmp_path, COLUMNS=str(columns))
    assert DATASETS["webvision_mini"].access.url in shown.stdout
    assert len(shown.stdout.splitlines()) == 2


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_get_downloads_and_goes_on_where_it_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: Inside
) -> None:
    monkeypatch.setattr("permll.data.datasets.mnist.DEBIAN_FOLDER", tmp_path / "debian")  # as if it were not there
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = published_fashion()
    name = "train-images-idx3-ubyte.gz"
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    (folder / f"{name}.part").write_bytes(files[name][:20_000_000])
    server = Server(files)
    with serving(server) as url:
        shown = CliRunner().invoke(data, ["get", "fashion_mnist", "--root", str(tmp_path), "--mirror", url])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.split() == [str(folder / file) for file in files]
    assert server.requests[0] == (name, "bytes=20000000-")
    assert {path.name for path in folder.iterdir()} == set(files)
    checked = inside("data", "check", "fashion_mnist", "--root", tmp_path)
    assert checked.returncode == 0, checked.stdout
    again = inside("data", "get", "fashion_mnist", "--root", tmp_path)
    assert (again.returncode, again.stdout) == (0, f"already there: {folder}\n")


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_get_of_what_is_there_in_another_form_does_nothing(tmp_path: Path) -> None:
    shown = run("data", "get", "fashion_mnist", "--root", tmp_path)
    assert (shown.returncode, shown.stdout) == (0, f"already there: {DEBIAN_FOLDER}\n")
    assert list(tmp_path.iterdir()) == []


def test_get_of_what_needs_no_download(inside: Inside) -> None:
    shown = inside("data", "get", "digits")
    assert shown.returncode == 0
    assert shown.stdout == "scikit-learn's digits: nothing to download, install scikit-learn, which contains it.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "clothing1m"], "permll: Clothing1M cannot be downloaded here: request it from its authors"),
        (["get", "cifar"], "permll: unknown dataset 'cifar', did you mean cifar10? Available: digits, "),
        (
            ["get", "mnist", "--mirror", "nonsense"],
            "permll: mirror must be a URL (https://...) or an existing folder",
        ),
        (["check", "minst"], "permll: unknown dataset 'minst', did you mean mnist? "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: list[str], message: str, tmp_path: Path, inside: Inside
) -> None:
    shown = inside("data", *arguments, "--root", tmp_path)
    assert shown.returncode == 1
    assert shown.stderr.startswith(message)
    assert len(shown.stderr.splitlines()) == 1
