"""Importing permll is cheap: torch, and nothing else that is heavy."""

import subprocess
import sys

HEAVY = ("sklearn", "scipy", "pandas", "matplotlib", "rich", "typer", "torch._dynamo", "torch._inductor", "sympy")


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(shown.stdout.split())


def test_import_brings_nothing_heavy() -> None:
    added = modules_after("import permll") - modules_after("import torch")
    assert "permll.layer.module" in added
    assert not [name for name in added if name.startswith(HEAVY)]
