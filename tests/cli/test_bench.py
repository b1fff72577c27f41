"""``permll bench`` at tier tiny, seconds a cell: begun, killed and stopped as a process, gone on with in this one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from permll.bench import read_rows
from permll.training import Run
from tests.cli.conftest import Here

PERMLL = Path(sys.executable).with_name("permll")
TINY = ("bench", "table1", "--tier", "tiny", "--set", "network.widths=[32]")
QUICK = (*TINY, "--set", "training.epochs=2")
TWO = ("--methods", "ce,permll", "--seeds", "1,2")
NAMES = [f"digits-sym-40-{method}-{seed}" for method in ("ce", "permll") for seed in (1, 2)]
LONG = (*TINY, "--set", "training.epochs=30", "--methods", "ce")
TERMINAL = {"COLUMNS": "100", "NO_COLOR": "1"}
TIMEOUT = 600


def environment() -> dict[str, str]:
    return os.environ | TERMINAL


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)


def bench(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [PERMLL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment(), timeout=TIMEOUT)


@contextmanager
def started(*arguments: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Start it and let go of it at the end, whatever happens in between."""
    command = [PERMLL, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, cwd=cwd, env=environment(), stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_begun(folder: Path, process: subprocess.Popen[str]) -> None:
    """Look now and then until a cell has an epoch behind it; a process that ends before is no use."""
    deadline = time.monotonic() + TIMEOUT
    while not Run(folder).metrics:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        assert time.monotonic() < deadline


def times(folder: Path) -> dict[str, int]:
    """Return when the files of all cells were written."""
    return {str(path): path.stat().st_mtime_ns for path in folder.glob("*/*") if path.is_file()}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return a folder in which two methods were trained with two seeds, and what was said."""
    folder = tmp_path_factory.mktemp("bench")
    return folder, bench(*QUICK, *TWO, "--jobs", "2", cwd=folder)


def test_from_nothing_to_a_report(done: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, shown = done
    assert shown.returncode == 0, shown.stderr
    out = folder / "runs" / "bench"
    assert "table1 at tier tiny in runs/bench: 4 cells" in shown.stdout
    assert "4 to begin; about" in shown.stdout
    assert shown.stderr.count(" of 4] ") == 4
    rows = read_rows(out / "bench.csv")
    assert [(row["method"], row["seed"]) for row in rows] == [("ce", 1), ("ce", 2), ("permll", 1), ("permll", 2)]
    for row, name in zip(rows, NAMES, strict=True):
        result = Run(out / "tiny" / name).result
        assert row["last"] == pytest.approx(result["last"], abs=1e-6)
        assert float(str(row["seconds"])) > 0
    report = out / "report"
    tables = ("table1", "detection", "correction", "calibration", "memorisation", "time", "ranks")
    for table in tables:
        for ending in ("txt", "md", "tex", "html", "csv"):
            assert (report / f"{table}.{ending}").stat().st_size > 0
    assert not (report / "table2.md").exists()
    for picture in ("memorisation", "learned"):
        assert (report / f"{picture}.png").stat().st_size > 1000
    mean = 100 * sum(float(str(row["last"])) for row in rows[2:]) / 2
    assert f"{mean:.2f}" in shown.stdout  # Table 1 is shown
    assert f"{mean:.2f}" in (report / "table1.md").read_text()
    page = (report / "index.html").read_text()
    assert "permll train tiny/digits --method permll --seed 2" in page
    assert "4 cells in runs/bench/bench.csv; open runs/bench/report/index.html" in shown.stdout


def test_finished_cells_are_never_repeated(
    done: tuple[Path, subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    folder, _ = done
    monkeypatch.chdir(folder)
    before = times(folder / "runs" / "bench" / "tiny")
    code, printed, complaints = here(*QUICK, *TWO)
    assert code == 0, complaints
    assert "4 finished; nothing to train." in printed
    assert times(folder / "runs" / "bench" / "tiny") == before
    code, printed, complaints = here(*QUICK, *TWO, "--set", "optimizer.lr=0.1")  # what is there is of another recipe
    assert code == 1
    assert "4 of another recipe; nothing to train." in printed
    assert "is a run of another recipe (optimizer.lr 0.05 and 0.1): it is left alone; choose another --out." in (
        complaints
    )
    assert times(folder / "runs" / "bench" / "tiny") == before


def test_a_dry_run_and_a_mere_rendering_train_nothing(
    done: tuple[Path, subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    folder, _ = done
    monkeypatch.chdir(folder)
    out = folder / "runs" / "bench"
    more = ("--methods", "ce,permll,gce", "--seeds", "1,2")
    before = times(out / "tiny")
    code, printed, complaints = here(*QUICK, *more, "--dry-run")
    assert code == 0, complaints
    assert "4 finished, 2 to begin; about" in printed
    assert printed.count("permll train tiny/digits --method gce") == 2
    assert "--method ce" not in printed
    (out / "report" / "index.html").unlink()
    code, _, complaints = here(*QUICK, *more, "--only-render")
    assert code == 0, complaints
    assert (out / "report" / "index.html").is_file()
    assert len(read_rows(out / "bench.csv")) == 4
    assert times(out / "tiny") == before
    code, _, complaints = here(*QUICK, *TWO, "--dry-run", "--out", "elsewhere")
    assert code == 0, complaints
    assert not (folder / "elsewhere").exists()


def test_a_cell_that_fails_is_reported_and_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    monkeypatch.chdir(tmp_path)
    # Cross-entropy has no warm-up to set.
    arguments = (*QUICK, "--methods", "ce,permll", "--seeds", "1", "--set", "method.warm_up=0", "--out", "out")
    code, _, complaints = here(*arguments)
    assert code == 1
    failed, finished = (tmp_path / "out" / "tiny" / f"digits-sym-40-{method}-1" for method in ("ce", "permll"))
    assert Run(finished).finished
    (failure,) = json.loads((tmp_path / "out" / "failures.json").read_text())
    assert (failure["method"], failure["folder"]) == ("ce", "out/tiny/digits-sym-40-ce-1")
    assert failure["sentence"].startswith("ce has no setting 'warm_up'")
    assert failure["command"].startswith("permll train tiny/digits --method ce --seed 1")
    assert "Traceback" in (failed / "failure.txt").read_text()
    assert failure["traceback"] == "out/tiny/digits-sym-40-ce-1/failure.txt"
    assert complaints.splitlines()[-1].startswith("permll: out/tiny/digits-sym-40-ce-1: ce has no setting")
    assert "ce has no setting" in (tmp_path / "out" / "report" / "index.html").read_text()
    # Tried again with what it can do, the cell is trained where it failed before.
    arguments = (*QUICK, "--methods", "ce", "--seeds", "1", "--out", "out")
    code, _, complaints = here(*arguments)
    assert code == 0, complaints
    assert Run(failed).finished
    assert not (failed / "failure.txt").exists()
    assert json.loads((tmp_path / "out" / "failures.json").read_text()) == []


def test_killed_in_the_middle_it_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = (*LONG, "--seeds", "1,2,3", "--out", "out")
    folders = [tmp_path / "out" / "tiny" / f"digits-sym-40-ce-{seed}" for seed in (1, 2, 3)]
    with started(*arguments, cwd=tmp_path) as process:
        wait_until_begun(folders[1], process)
    assert Run(folders[0]).finished
    assert not Run(folders[1]).finished
    kept = times(folders[0].parent)
    beginning = folders[1] / "labels.npz", folders[1] / "recipe.toml"
    code, printed, complaints = here(*arguments)
    assert code == 0, complaints
    assert "1 finished, 1 begun, 1 to begin; about" in printed
    assert [Run(folder).finished for folder in folders] == [True] * 3
    assert complaints.count(" of 2] ") == 2
    now = times(folders[0].parent)
    untouched = [path for path in kept if Path(path).parent == folders[0]]
    assert {"result.json", "metrics.jsonl"} <= {Path(path).name for path in untouched}
    assert {path: now[path] for path in untouched} == {path: kept[path] for path in untouched}
    for path in map(str, beginning):
        assert now[path] == kept[path]  # the second was not begun again
    assert [row["epoch"] for row in Run(folders[1]).metrics] == list(range(1, 31))


def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = (*LONG, "--seeds", "1,2", "--out", "out")
    first, second = (tmp_path / "out" / "tiny" / f"digits-sym-40-ce-{seed}" for seed in (1, 2))
    with started(*arguments, cwd=tmp_path) as process:
        wait_until_begun(first, process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-1] == "permll: stopped and saved; the same command goes on."
    assert "ce on digits, sym-40, seed 1: stopped and saved" in stderr
    assert not Run(first).finished
    assert not second.exists()
    assert Run(first).checkpoints.newest() is not None
    assert not (tmp_path / "out" / "report").exists()
    code, printed, complaints = here(*arguments)
    assert code == 0, complaints
    assert "1 begun, 1 to begin" in printed
    assert Run(first).finished
    assert Run(second).finished


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "1,two"), "permll: --seeds takes whole numbers with commas, 1,2,3; got 'two'."),
        (("--dry-run", "--only-render"), "permll: choose one of --dry-run and --only-render."),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, complaints = here(*QUICK, *arguments)
    assert code == 1
    (line,) = complaints.splitlines()
    assert line.startswith(message)
    assert not list(tmp_path.iterdir())
