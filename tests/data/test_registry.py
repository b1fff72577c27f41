"""The registry: every set is described whole, found by name, and listed without heavy imports."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from permll.data.registry import SETS, SetInfo, data_root, find
from permll.data.remote_files import CONTENT, PUBLISHED


def test_all_sets_are_there() -> None:
    assert list(SETS) == [
        "digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "clothing1m", "webvision_mini", "food101n",
        "animal10n",
    ]  # fmt: skip


@pytest.mark.parametrize("info", SETS.values(), ids=SETS)
def test_every_loader_can_be_called_with_root_and_split(info: SetInfo) -> None:
    module, function = info.loader.split(":")
    parameters = list(inspect.signature(getattr(importlib.import_module(module), function)).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["root", "split"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[2:])


@pytest.mark.parametrize("info", SETS.values(), ids=SETS)
def test_every_set_that_is_not_there_is_one_sentence_with_what_to_do(
    info: SetInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if info.access.kind == "package":
        assert len(info.load(tmp_path)) == info.samples["train"]
        return
    monkeypatch.setattr("permll.data.datasets.mnist.DEBIAN", tmp_path / "debian")  # it may be installed
    with pytest.raises(FileNotFoundError) as caught:
        info.load(tmp_path, "train")
    message = str(caught.value)
    assert message.startswith(f"{info.title} was not found, looked in {tmp_path} for ")
    todo = f"permll data get {info.name} --root {tmp_path}" if info.access.kind == "download" else info.access.address
    assert todo in message
    assert "\n" not in message


@pytest.mark.parametrize("info", SETS.values(), ids=SETS)
def test_a_split_that_does_not_exist_is_refused(info: SetInfo, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{info.name} has no split 'tran', did you mean train\\? There are train, "):
        info.load(tmp_path, "tran")


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="'cifar_10' is no built-in data set, did you mean cifar10\\?"):
        find("cifar_10")
    with pytest.raises(ValueError, match=r"'zzz' is no built-in data set\. There are digits, mnist"):
        find("zzz")


def test_the_data_root_is_given_or_from_the_environment_or_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PERMLL_DATA", raising=False)
    assert data_root(None) == tmp_path / ".cache" / "permll" / "data"
    monkeypatch.setenv("PERMLL_DATA", "~/sets")
    assert data_root(None) == tmp_path / "sets"
    assert data_root("elsewhere") == Path("elsewhere")
    monkeypatch.setenv("PERMLL_DATA", "")
    assert data_root(None) == tmp_path / ".cache" / "permll" / "data"


def test_what_can_be_downloaded_has_files_and_digests() -> None:
    downloads = [name for name, info in SETS.items() if info.access.kind == "download"]
    assert sorted(downloads) == sorted(PUBLISHED) == sorted(CONTENT)
    digests = [digest for files in CONTENT.values() for digest in files.values()]
    digests += [published.md5 for files in PUBLISHED.values() for published in files]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 32 and int(digest, 16) for digest in digests)


def test_listing_imports_nothing_heavy() -> None:
    code = "import permll.data.registry as r, sys; r.find('cifar10'); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(shown.stdout.split())
    assert "permll.data.registry" in loaded
    assert not loaded & {"PIL", "sklearn", "rich", "permll.data.datasets.cifar", "permll.data.download"}
