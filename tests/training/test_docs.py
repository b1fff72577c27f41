"""The code of docs/training.md runs."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from permll.methods import MethodInfo
from permll.training import load_recipe
from permll.training.train import train
from tests.helpers.toy_training import points

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language, indented or not."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", PAGE, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def test_docs_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"MethodInfo": MethodInfo}
    for code in blocks("python"):
        if "class Remembered" in code:  # a method is imported by its name
            (tmp_path / "remembered.py").write_text(code)
        else:
            exec(compile(code, "docs/training.md", "exec"), names)
    assert names["probabilities"].shape == (len(names["test"]), 10)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["callback", "logged", "network", "python"]
    monkeypatch.syspath_prepend(tmp_path)
    method = importlib.import_module("remembered").Remembered
    run = train(points(), method, epochs=2, out="runs/remembered", overrides={"method.trust": 0.7})
    assert run.finished


def test_docs_recipe_is_valid(tmp_path: Path) -> None:
    (code,) = blocks("toml")
    (tmp_path / "mine.toml").write_text(code)
    recipe = load_recipe(tmp_path / "mine.toml")
    assert (recipe.training.epochs, recipe.method.settings["init"]) == (5, 0.25)
