"""Importing permll is cheap: nothing heavy, not even torch, before it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import permll
import permll.data
import permll.evaluation
import permll.methods
import permll.networks
import permll.noise
import permll.training

PACKAGES = [
    permll,
    permll.data,
    permll.evaluation,
    permll.methods,
    permll.networks,
    permll.noise,
    permll.training,
]
HEAVY = ("sklearn", "scipy", "pandas", "polars", "matplotlib", "PIL", "rich", "typer", "torch._dynamo", "sympy")


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(shown.stdout.split())


def test_the_package_and_its_command_line_start_without_torch() -> None:
    for statement in ("import permll, permll.data, permll.data.registry", "import permll.cli.main"):
        loaded = modules_after(statement)
        assert "permll.data" in loaded or "permll.cli.data" in loaded
        assert not {"torch", "numpy", "PIL", "polars"} & loaded


def test_using_the_layer_and_the_data_brings_torch_and_nothing_else_that_is_heavy() -> None:
    used = "import permll; permll.PermutationLayer, permll.data.load, permll.data.Stream, permll.noise.corrupt"
    added = modules_after(used) - modules_after("import torch")
    assert {"permll.layer.module", "permll.data.streams", "permll.noise.corruption"} <= added
    assert not [name for name in added if name.startswith(HEAVY)]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_the_names_for_type_checkers_are_the_names_there_are(package: ModuleType) -> None:
    assert package.__file__
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    promised = {
        alias.asname: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert None not in promised
    for name, (module, original) in promised.items():
        source = importlib.import_module(str(module))
        assert getattr(package, str(name)) is getattr(source, original)
    unpromised = set(dir(package)) - set(promised) - {"TYPE_CHECKING", "lazy"}
    assert not [name for name in unpromised if name[0] != "_" and not isinstance(getattr(package, name), ModuleType)]


def test_modules_can_be_reached_without_importing_them() -> None:
    code = (
        "import permll; permll.data.splits.stratified_split, permll.data.readers.read; "
        "permll.noise.instance.part_dependent"
    )
    modules_after(code)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'permll' has no attribute 'PermLayer'"):
        _ = permll.PermLayer  # type: ignore[attr-defined]
