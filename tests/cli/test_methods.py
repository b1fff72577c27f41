"""``permll methods`` and ``permll recipes``, run as the processes a user would start, and in this one."""

import inspect
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from permll.cli.methods import argument_texts, methods, settings
from permll.methods import METHODS, find_method
from permll.training.recipe_files import load_recipe, recipe_names
from tests.cli.conftest import Inside

PERMLL = Path(sys.executable).with_name("permll")


def run(*arguments: str | Path, columns: int = 80) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1"}
    return subprocess.run([PERMLL, *arguments], capture_output=True, text=True, env=env, timeout=120)


def sentence(shown: subprocess.CompletedProcess[str]) -> str:
    assert shown.returncode == 1
    (line,) = shown.stderr.splitlines()
    assert line.startswith("permll: ")
    return line.removeprefix("permll: ")


def words(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


@pytest.mark.parametrize("columns", [60, 100])
def test_every_method_is_in_the_table_whole(columns: int) -> None:
    shown = run("methods", columns=columns)
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= columns
    lines = shown.stdout.partition("\n\n")[0].splitlines()
    assert lines[0].replace(";", "").split() == ["name", "year", "idea", "needs", "cost"]
    starts = [number for number, line in enumerate(lines) if line.split()[:1] and line.split()[0] in METHODS]
    assert [lines[number].split()[0] for number in starts] == list(METHODS)
    for info, begin, end in zip(METHODS.values(), starts, [*starts[1:], len(lines)], strict=True):
        first, *more = (line.split() for line in lines[begin:end] if line)
        row = {word.strip(";,") for line in (first, *more) for word in line}
        assert {*info.summary.replace(",", "").split(), f"{info.cost:g}", *info.needs} <= row
        assert info.year is None or str(info.year) in first


def test_the_list_does_not_wait_for_torch() -> None:
    code = "import sys; from permll.cli.methods import methods; methods(); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert shown.stdout.splitlines()[-1] == "False", shown.stderr


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_shown_with_every_setting(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    methods(name)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 60
    for entry in settings(find_method(name)):
        default = "(not set)" if entry["default"] is None else f"= {json.dumps(entry['default'])}"
        assert f"  {entry['name']} {default}" in shown
        assert words(entry["meaning"].replace("``", "")) in words(shown)
    info = METHODS[name]
    assert f"{info.name}: {info.title}\n" in shown
    for text in (info.paper, info.summary, info.state):
        assert words(text) in words(shown)
    assert all(f"{need}:" in words(shown) for need in info.needs)
    for deviation in info.deviations:
        assert words(deviation) in words(shown)


def test_a_method_as_a_process() -> None:
    shown = run("methods", "permll")
    assert shown.returncode == 0, shown.stderr
    assert "permll: PermLL" in shown.stdout


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_is_explained(name: str) -> None:
    found = {entry["name"]: entry["meaning"] for entry in settings(find_method(name))}
    assert list(found) == list(inspect.signature(METHODS[name].method_class).parameters)
    assert all(found.values())


def test_words_that_are_allowed_are_named() -> None:
    (balance,) = (entry for entry in settings(find_method("permll")) if entry["name"] == "balance")
    assert (balance["default"], balance["words"]) == ("none", ["none", "given", "corrected"])


def test_a_docstring_without_arguments_has_none() -> None:
    assert argument_texts("Only words.\n\nExamples:\n    >>> 1\n") == {}


def test_methods_as_json(inside: Inside) -> None:
    format_list = json.loads(inside("methods", "--json").stdout)
    assert [entry["name"] for entry in format_list] == list(METHODS)
    one = json.loads(inside("methods", "permll", "--json").stdout)
    assert one["deviations"] == list(METHODS["permll"].deviations)
    assert {entry["name"]: entry["default"] for entry in one["settings"]}["on"] == "prediction"


def test_an_unknown_method_is_answered_with_the_nearest(inside: Inside) -> None:
    assert sentence(inside("methods", "pemrll")).startswith("'pemrll' is no method, did you mean permll? There are ")


@pytest.mark.parametrize("columns", [60, 100])
def test_every_recipe_is_listed_whole(columns: int, inside: Inside) -> None:
    shown = inside("recipes", "list", COLUMNS=str(columns))
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= columns
    for name in recipe_names():
        assert words(f"{name} {load_recipe(name).title}") in words(shown.stdout)


def test_recipes_of_one_tier(inside: Inside) -> None:
    shown = inside("recipes", "list", "--tier", "mini")
    format_list = [line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")]
    assert format_list == [name for name in recipe_names() if name.startswith("mini/")]
    assert sentence(inside("recipes", "list", "--tier", "mni")) == (
        "'mni' is no tier, did you mean mini? There are tiny, mini, lite, paper, own."
    )


def test_recipes_as_json() -> None:
    format_list = {entry["name"]: entry for entry in json.loads(run("recipes", "list", "--json").stdout)}
    assert list(format_list) == recipe_names()
    assert format_list["mini/sym-60"] == {
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


def test_a_recipe_that_is_shown_can_be_trained_with(tmp_path: Path, inside: Inside) -> None:
    shown = run("recipes", "show", "mini/sym-60")
    assert shown.returncode == 0, shown.stderr
    recipe = load_recipe("mini/sym-60")
    assert shown.stdout.splitlines()[0] == f"# mini/sym-60, hash {recipe.hash}"
    assert tomllib.loads(shown.stdout)["network"] == {"name": "mlp", "widths": [256, 128]}
    (tmp_path / "mine.toml").write_text(shown.stdout)
    assert load_recipe(tmp_path / "mine.toml") == recipe
    again = inside("recipes", "show", tmp_path / "mine.toml")
    assert again.stdout.splitlines()[1:] == shown.stdout.splitlines()[1:]


def test_an_unknown_recipe_is_answered_with_the_nearest(inside: Inside) -> None:
    assert "'mini/sym-6' is no recipe, no .toml file and no run, did you mean mini/sym-60?" in sentence(
        inside("recipes", "show", "mini/sym-6")
    )
