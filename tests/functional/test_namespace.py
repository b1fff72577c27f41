"""The flat namespace ``permll.functional`` and its documentation."""

import re
from pathlib import Path

import pytest

from permll import functional

DOCS = Path(__file__).parents[2] / "docs" / "functional.md"


def test_namespace_is_documented() -> None:
    tables = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    documented = [name for cell in tables for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == functional.__all__


def test_namespace_names_are_not_modules() -> None:
    modules = {path.stem for path in Path(functional.__file__ or "").parent.glob("*.py")}
    assert not modules & set(functional.__all__), "an imported module would hide the function"


def test_documented_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    exec(example, {})
    assert 0 <= float(capsys.readouterr().out) <= 1
