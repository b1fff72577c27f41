"""``permll methods`` and ``permll recipes``."""

import inspect
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from permll.cli.methods import methods, parse_docstring_args, settings
from permll.methods import METHODS, find_method
from permll.training.recipe_files import load_recipe, recipe_names
from tests.helpers.command_line import error_message, run_cli, run_process, words


@pytest.mark.parametrize("columns", [60, 100])
def test_methods_lists_every_method(columns: int) -> None:
    result = run_process("methods", COLUMNS=str(columns))
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= columns
    lines = result.stdout.partition("\n\n")[0].splitlines()
    assert lines[0].replace(";", "").split() == ["name", "year", "idea", "needs", "cost"]
    starts = [number for number, line in enumerate(lines) if line.split()[:1] and line.split()[0] in METHODS]
    assert [lines[number].split()[0] for number in starts] == list(METHODS)
    for info, begin, end in zip(METHODS.values(), starts, [*starts[1:], len(lines)], strict=True):
        first, *more = (line.split() for line in lines[begin:end] if line)
        row = {word.strip(";,") for line in (first, *more) for word in line}
        assert {*info.summary.replace(",", "").split(), f"{info.cost:g}", *info.needs} <= row
        assert info.year is None or str(info.year) in first


def test_methods_does_not_import_torch() -> None:
    code = "import sys; from permll.cli.methods import methods; methods(); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout.splitlines()[-1] == "False", result.stderr


@pytest.mark.parametrize("name", METHODS)
def test_method_is_shown_with_every_setting(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    methods(name)
    result = capsys.readouterr().out
    assert max(map(len, result.splitlines())) <= 60
    for entry in settings(find_method(name)):
        default = "(not set)" if entry["default"] is None else f"= {json.dumps(entry['default'])}"
        assert f"  {entry['name']} {default}" in result
        assert words(entry["meaning"].replace("``", "")) in words(result)
    info = METHODS[name]
    assert f"{info.name}: {info.title}\n" in result
    for text in (info.paper, info.summary, info.state):
        assert words(text) in words(result)
    assert all(f"{need}:" in words(result) for need in info.needs)
    for deviation in info.deviations:
        assert words(deviation) in words(result)


@pytest.mark.slow
def test_method_as_a_process() -> None:
    result = run_process("methods", "permll")
    assert result.returncode == 0, result.stderr
    assert "permll: PermLL" in result.stdout


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_has_a_description(name: str) -> None:
    descriptions = {entry["name"]: entry["meaning"] for entry in settings(find_method(name))}
    assert list(descriptions) == list(inspect.signature(METHODS[name].method_class).parameters)
    assert all(descriptions.values())


def test_allowed_values_are_listed() -> None:
    (balance,) = (entry for entry in settings(find_method("permll")) if entry["name"] == "balance")
    assert (balance["default"], balance["words"]) == ("none", ["none", "given", "corrected"])


def test_docstring_without_args_section() -> None:
    assert parse_docstring_args("Only words.\n\nExamples:\n    >>> 1\n") == {}


def test_methods_as_json() -> None:
    listed = json.loads(run_cli("methods", "--json").stdout)
    assert [entry["name"] for entry in listed] == list(METHODS)
    permll = json.loads(run_cli("methods", "permll", "--json").stdout)
    assert permll["deviations"] == list(METHODS["permll"].deviations)
    assert {entry["name"]: entry["default"] for entry in permll["settings"]}["on"] == "prediction"


def test_unknown_method_suggests_the_nearest() -> None:
    assert "did you mean permll?" in error_message(run_cli("methods", "pemrll"))


@pytest.mark.parametrize("columns", [60, 100])
def test_recipes_lists_every_recipe(columns: int) -> None:
    result = run_cli("recipes", "list", COLUMNS=str(columns))
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= columns
    for name in recipe_names():
        assert words(f"{name} {load_recipe(name).title}") in words(result.stdout)


def test_recipes_lists_one_tier() -> None:
    result = run_cli("recipes", "list", "--tier", "mini")
    listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")]
    assert listed == [name for name in recipe_names() if name.startswith("mini/")]
    message = error_message(run_cli("recipes", "list", "--tier", "mni"))
    assert message.startswith("unknown tier 'mni', did you mean mini? Available: tiny, mini, lite, paper, ")


def test_recipes_as_json() -> None:
    listed = {entry["name"]: entry for entry in json.loads(run_process("recipes", "list", "--json").stdout)}
    assert list(listed) == recipe_names()
    assert listed["mini/sym-60"] == {
        "name": "mini/sym-60",
        "tier": "mini",
        "title": "Fashion-MNIST, 10,000 images, symmetric noise 60 %",
        "data": "fashion_mnist",
        "noise": "permll:sym:0.6",
        "network": "mlp",
        "method": "permll",
        "epochs": 40,
        "batch_size": 128,
        "hash": load_recipe("mini/sym-60").hash,
    }


def test_shown_recipe_can_be_loaded(tmp_path: Path) -> None:
    result = run_process("recipes", "show", "mini/sym-60")
    assert result.returncode == 0, result.stderr
    recipe = load_recipe("mini/sym-60")
    assert result.stdout.splitlines()[0] == f"# mini/sym-60, hash {recipe.hash}"
    assert tomllib.loads(result.stdout)["network"] == {"name": "mlp", "widths": [256, 128]}
    (tmp_path / "mine.toml").write_text(result.stdout)
    assert load_recipe(tmp_path / "mine.toml") == recipe
    again = run_cli("recipes", "show", tmp_path / "mine.toml")
    assert again.stdout.splitlines()[1:] == result.stdout.splitlines()[1:]


def test_unknown_recipe_suggests_the_nearest() -> None:
    assert "did you mean mini/sym-60?" in error_message(run_cli("recipes", "show", "mini/sym-6"))
