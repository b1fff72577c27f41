import shutil
from pathlib import Path

import pytest

from permll.training.run import Run
from tests.helpers.apply_runs import PROPOSALS, make_csv_run


@pytest.fixture(scope="session")
def csv_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and its run, trained once for all tests."""
    return make_csv_run(tmp_path_factory.mktemp("csv_run"), PROPOSALS)


@pytest.fixture
def run(csv_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run in a copy of that folder, which is the working directory."""
    shutil.copytree(csv_run, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path / "run")
