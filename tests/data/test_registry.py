"""The registry of built-in datasets."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from permll.data.registry import DATASETS, DatasetInfo, data_root, find_dataset
from permll.data.remote_files import CONTENT_MD5, REMOTE_FILES


def test_registry_lists_all_datasets() -> None:
    assert list(DATASETS) == [
        "digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "clothing1m", "webvision_mini", "food101n",
        "animal10n",
    ]  # fmt: skip


@pytest.mark.parametrize("info", DATASETS.values(), ids=DATASETS)
def test_loaders_take_root_and_split(info: DatasetInfo) -> None:
    module, function = info.loader.split(":")
    parameters = list(inspect.signature(getattr(importlib.import_module(module), function)).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["root", "split"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[2:])


@pytest.mark.parametrize("info", DATASETS.values(), ids=DATASETS)
def test_missing_dataset_error_says_how_to_get_it(
    info: DatasetInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if info.access.kind == "package":
        assert len(info.load(tmp_path)) == info.samples["train"]
        return
    monkeypatch.setattr("permll.data.datasets.mnist.DEBIAN_FOLDER", tmp_path / "debian")  # it may be installed
    with pytest.raises(FileNotFoundError) as caught:
        info.load(tmp_path, "train")
    message = str(caught.value)
    assert message.startswith(f"{info.title} not found: no ")
    hint = f"permll data get {info.name} --root {tmp_path}" if info.access.kind == "download" else info.access.url
    assert hint in message
    assert "\n" not in message


@pytest.mark.parametrize("info", DATASETS.values(), ids=DATASETS)
def test_unknown_split_raises(info: DatasetInfo, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{info.name} has no split 'tran', did you mean train\\? Available: train, "):
        info.load(tmp_path, "tran")


def test_unknown_dataset_suggests_nearest_name() -> None:
    with pytest.raises(ValueError, match="unknown dataset 'cifar_10', did you mean cifar10\\?"):
        find_dataset("cifar_10")
    with pytest.raises(ValueError, match=r"unknown dataset 'zzz'\. Available: digits, mnist"):
        find_dataset("zzz")


def test_data_root_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PERMLL_DATA", raising=False)
    assert data_root(None) == tmp_path / ".cache" / "permll" / "data"
    monkeypatch.setenv("PERMLL_DATA", "~/sets")
    assert data_root(None) == tmp_path / "sets"
    assert data_root("elsewhere") == Path("elsewhere")
    monkeypatch.setenv("PERMLL_DATA", "")
    assert data_root(None) == tmp_path / ".cache" / "permll" / "data"


def test_downloadable_datasets_have_files_and_digests() -> None:
    downloads = [name for name, info in DATASETS.items() if info.access.kind == "download"]
    assert sorted(downloads) == sorted(REMOTE_FILES) == sorted(CONTENT_MD5)
    digests = [digest for files in CONTENT_MD5.values() for digest in files.values()]
    digests += [file.md5 for files in REMOTE_FILES.values() for file in files]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 32 and int(digest, 16) for digest in digests)


def test_registry_imports_nothing_heavy() -> None:
    code = "import permll.data.registry as r, sys; r.find_dataset('cifar10'); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(shown.stdout.split())
    assert "permll.data.registry" in loaded
    assert not loaded & {"PIL", "sklearn", "rich", "permll.data.datasets.cifar", "permll.data.download"}
