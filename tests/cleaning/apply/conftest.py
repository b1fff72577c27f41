import shutil
from pathlib import Path

import pytest

from permll.training.run import Run
from tests.helpers.apply_runs import PROPOSALS, table_and_run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table and a run that looked at it, trained once for all tests."""
    return table_and_run(tmp_path_factory.mktemp("made"), PROPOSALS)


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the run in a copy of that folder, to stand in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path / "run")
