"""``permll data``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from permll.cli.data import data
from permll.data.datasets.mnist import DEBIAN_FOLDER
from permll.data.registry import DATASETS
from tests.helpers.command_line import error_message, run_cli, run_process
from tests.helpers.dataset_files import truncate, write_noise_jpeg
from tests.helpers.http_servers import Server, serving
from tests.helpers.real_data import published_fashion


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_list_shows_all_datasets_at_any_width(columns: int) -> None:
    result = run_cli("data", "list", COLUMNS=str(columns))
    assert result.returncode == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()]
    flat = " ".join(result.stdout.split())
    for info in DATASETS.values():
        assert sum(line.startswith(f"{info.name}  ") for line in lines) == 1
        source = f"permll data get {info.name}" if info.access.kind == "download" else info.access.url
        assert lines.count(source) == 1
        phrases = [info.inputs, info.noise, info.license, *(f"{n:,} {split}" for split, n in info.samples.items())]
        phrases += [] if info.access.kind == "download" else [info.access.instructions]
        assert all(phrase in flat for phrase in phrases)
    names = [line.split()[0] for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert names == list(DATASETS)
    lengths = [len(line) for line in result.stdout.splitlines() if "://" not in line]
    assert max(lengths) <= columns
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_list_prints_bold_names_on_a_terminal() -> None:
    result = run_process("data", "list", FORCE_COLOR="1", NO_COLOR="", TERM="xterm")
    assert all(f"\x1b[1m{name}\x1b[0m" in result.stdout for name in DATASETS)


def test_list_as_json() -> None:
    listed = {info["name"]: info for info in json.loads(run_cli("data", "list", "--json").stdout)}
    assert list(listed) == list(DATASETS)
    assert listed["clothing1m"]["samples"] == {"train": 1_000_000, "val": 14_313, "test": 10_526}
    assert listed["clothing1m"]["access"]["kind"] == "request"


def test_check_accepts_complete_dataset() -> None:
    result = run_process("data", "check", "digits")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("passed") == 6
    assert result.stdout.splitlines()[0].split() == ["split", "check", "result", "detail"]
    assert "1,347" in result.stdout


def test_check_reports_damaged_images(tmp_path: Path) -> None:
    for number in range(10):
        write_noise_jpeg(tmp_path / "training" / f"{number}_{number}.jpg", seed=number)
        write_noise_jpeg(tmp_path / "testing" / f"{number}_{number}.jpg", seed=number)
    truncate(tmp_path / "training" / "3_3.jpg", 0.5)
    result = run_cli("data", "check", "animal10n", "--root", tmp_path)
    assert result.returncode == 1
    assert "1 image (3_3.jpg: damaged) in" in result.stdout
    assert result.stderr == ""
    result = run_cli("data", "check", "animal10n", "--json", PERMLL_DATA=str(tmp_path))
    assert result.returncode == 1
    findings = json.loads(result.stdout)
    assert [finding["names"] for finding in findings if finding["check"] == "images"] == [["3_3.jpg"]]
    assert [finding["detail"] for finding in findings if finding["check"] == "samples"] == ["10, not 5,000"]


@pytest.mark.parametrize("columns", [60, 1000])
def test_check_of_missing_dataset_prints_command_once(columns: int, tmp_path: Path) -> None:
    result = run_cli("data", "check", "cifar10", "--root", tmp_path, COLUMNS=str(columns))
    assert result.returncode == 1
    assert result.stdout.count(f"permll data get cifar10 --root {tmp_path}.") == 1
    assert result.stdout.count("not found") == 1
    result = run_cli("data", "check", "webvision_mini", "--root", tmp_path, COLUMNS=str(columns))
    assert DATASETS["webvision_mini"].access.url in result.stdout
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_get_resumes_interrupted_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permll.data.datasets.mnist.DEBIAN_FOLDER", tmp_path / "debian")  # as if it were not installed
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = published_fashion()
    name = "train-images-idx3-ubyte.gz"
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    (folder / f"{name}.part").write_bytes(files[name][:20_000_000])
    server = Server(files)
    with serving(server) as url:
        result = CliRunner().invoke(data, ["get", "fashion_mnist", "--root", str(tmp_path), "--mirror", url])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [str(folder / file) for file in files]
    assert server.requests[0] == (name, "bytes=20000000-")
    assert {path.name for path in folder.iterdir()} == set(files)
    checked = run_cli("data", "check", "fashion_mnist", "--root", tmp_path)
    assert checked.returncode == 0, checked.stdout
    again = run_cli("data", "get", "fashion_mnist", "--root", tmp_path)
    assert (again.returncode, again.stdout) == (0, f"already there: {folder}\n")


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_get_skips_installed_dataset(tmp_path: Path) -> None:
    result = run_cli("data", "get", "fashion_mnist", "--root", tmp_path)
    assert (result.returncode, result.stdout) == (0, f"already there: {DEBIAN_FOLDER}\n")
    assert list(tmp_path.iterdir()) == []


def test_get_of_bundled_dataset_downloads_nothing() -> None:
    result = run_cli("data", "get", "digits")
    assert result.returncode == 0
    assert result.stdout.startswith("scikit-learn's digits: nothing to download, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "clothing1m"], "Clothing1M"),
        (["get", "cifar"], "did you mean cifar10?"),
        (["get", "mnist", "--mirror", "nonsense"], "mirror must be"),
        (["check", "minst"], "did you mean mnist?"),
    ],
)
def test_data_refuses_bad_arguments_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert message in error_message(run_cli("data", *arguments, "--root", tmp_path))
