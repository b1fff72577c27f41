"""``permll export``, run as a process; its refusals in this one."""

import json
from pathlib import Path

from permll.training.train import train
from tests.cli.conftest import Inside
from tests.cli.test_commands import run
from tests.helpers.toy_training import quick_recipe


def test_export_writes_what_it_says(tmp_path: Path) -> None:
    trained = train(recipe=quick_recipe(training__epochs=1), out=tmp_path / "run")
    shown = run("export", trained.folder, "--format", "safetensors", "--out", tmp_path / "out")
    assert shown.returncode == 0, shown.stderr
    written = [Path(line) for line in shown.stdout.split()]
    assert {path.name for path in written} == {"model.safetensors", "model.json"}
    assert all(path.is_file() for path in written)
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert "classes" in about


def test_an_unknown_format_or_folder_is_one_sentence(tmp_path: Path, inside: Inside) -> None:
    for arguments in ([tmp_path / "nothing"], [tmp_path / "nothing", "--format", "pickle"]):
        shown = inside("export", *arguments)
        assert shown.returncode == 1
        assert len(shown.stderr.splitlines()) == 1
        assert "Traceback" not in shown.stderr
