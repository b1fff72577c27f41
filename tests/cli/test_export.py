"""``permll export``."""

import json
from pathlib import Path

from permll.training.train import train
from tests.helpers.command_line import error_message, run_cli, run_process
from tests.helpers.toy_training import quick_recipe


def test_export_writes_and_prints_files(tmp_path: Path) -> None:
    trained = train(recipe=quick_recipe(training__epochs=1), out=tmp_path / "run")
    result = run_process("export", trained.folder, "--format", "safetensors", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    written = [Path(line) for line in result.stdout.split()]
    assert {path.name for path in written} == {"model.safetensors", "model.json"}
    assert all(path.is_file() for path in written)
    assert "classes" in json.loads((tmp_path / "out" / "model.json").read_text())


def test_export_refuses_unknown_format_or_folder_in_one_line(tmp_path: Path) -> None:
    assert error_message(run_cli("export", tmp_path / "nothing"))
    assert error_message(run_cli("export", tmp_path / "nothing", "--format", "pickle"))
