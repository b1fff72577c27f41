"""``permll bench`` at tier tiny: interrupted and killed as a process, resumed in this one."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from permll.bench import read_rows
from permll.training import Run
from tests.helpers.command_line import PERMLL, TERMINAL, Result, error_message, run_cli, run_process

TINY = ("bench", "table1", "--tier", "tiny", "--set", "network.widths=[32]")
QUICK = (*TINY, "--set", "training.epochs=2")
FOUR_JOBS = ("--methods", "ce,permll", "--seeds", "1,2")
NAMES = [f"digits-sym-40-{method}-{seed}" for method in ("ce", "permll") for seed in (1, 2)]
LONG = (*TINY, "--set", "training.epochs=30", "--methods", "ce")
TIMEOUT = 600


@contextmanager
def started(*arguments: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process, and kill it at the end of the block."""
    command = [PERMLL, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, cwd=cwd, env=os.environ | TERMINAL, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_epoch(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a job has finished an epoch; fail if the process ends before."""
    deadline = time.monotonic() + TIMEOUT
    while not Run(folder).metrics:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        assert time.monotonic() < deadline


def timestamps(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.glob("*/*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Return a folder with two methods trained on two seeds, and the result of the command."""
    folder = tmp_path_factory.mktemp("bench")
    return folder, run_process(*QUICK, *FOUR_JOBS, "--jobs", "2", cwd=folder)


def test_dry_run_prints_plan_and_writes_nothing(tmp_path: Path) -> None:
    result = run_process(*QUICK, *FOUR_JOBS, "--dry-run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "table1 at tier tiny in runs/bench: 4 jobs" in result.stdout
    assert "4 pending; about" in result.stdout
    assert result.stdout.count("permll train tiny/digits --method") == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_bench_trains_and_renders_report(finished: tuple[Path, Result]) -> None:
    folder, output = finished
    assert output.returncode == 0, output.stderr
    out = folder / "runs" / "bench"
    assert "table1 at tier tiny in runs/bench: 4 jobs" in output.stdout
    assert "4 pending; about" in output.stdout
    assert output.stderr.count(" of 4] ") == 4
    rows = read_rows(out / "bench.csv")
    assert [(row["method"], row["seed"]) for row in rows] == [("ce", 1), ("ce", 2), ("permll", 1), ("permll", 2)]
    for row, name in zip(rows, NAMES, strict=True):
        result = Run(out / "tiny" / name).result
        assert row["last"] == pytest.approx(result["last"], abs=1e-6)
        assert float(str(row["seconds"])) > 0
    report = out / "report"
    tables = ("table1", "detection", "correction", "calibration", "memorization", "time", "ranks")
    for table in tables:
        for ending in ("txt", "md", "tex", "html", "csv"):
            assert (report / f"{table}.{ending}").stat().st_size > 0
    assert not (report / "table2.md").exists()
    for picture in ("memorization", "learned"):
        assert (report / f"{picture}.png").stat().st_size > 1000
    mean = 100 * sum(float(str(row["last"])) for row in rows[2:]) / 2
    assert f"{mean:.2f}" in output.stdout  # Table 1 is printed
    assert f"{mean:.2f}" in (report / "table1.md").read_text()
    page = (report / "index.html").read_text()
    assert "permll train tiny/digits --method permll --seed 2" in page
    assert "4 jobs in runs/bench/bench.csv; open runs/bench/report/index.html" in output.stdout


@pytest.mark.slow
def test_bench_skips_finished_jobs(finished: tuple[Path, Result]) -> None:
    folder, _ = finished
    before = timestamps(folder / "runs" / "bench" / "tiny")
    again = run_cli(*QUICK, *FOUR_JOBS, cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "4 finished; nothing to train." in again.stdout
    assert timestamps(folder / "runs" / "bench" / "tiny") == before


@pytest.mark.slow
def test_bench_keeps_runs_of_another_recipe(finished: tuple[Path, Result]) -> None:
    folder, _ = finished
    before = timestamps(folder / "runs" / "bench" / "tiny")
    other = run_cli(*QUICK, *FOUR_JOBS, "--set", "optimizer.lr=0.1", cwd=folder)
    assert other.returncode == 1
    assert "4 of another recipe; nothing to train." in other.stdout
    assert "holds a run of another recipe (optimizer.lr 0.05 and 0.1)" in other.stderr
    assert timestamps(folder / "runs" / "bench" / "tiny") == before


@pytest.mark.slow
def test_dry_run_and_only_render_train_nothing(finished: tuple[Path, Result]) -> None:
    folder, _ = finished
    out = folder / "runs" / "bench"
    more = ("--methods", "ce,permll,gce", "--seeds", "1,2")
    before = timestamps(out / "tiny")
    dry = run_cli(*QUICK, *more, "--dry-run", cwd=folder)
    assert dry.returncode == 0, dry.stderr
    assert "4 finished, 2 pending; about" in dry.stdout
    assert dry.stdout.count("permll train tiny/digits --method gce") == 2
    assert "--method ce" not in dry.stdout
    (out / "report" / "index.html").unlink()
    rendered = run_cli(*QUICK, *more, "--only-render", cwd=folder)
    assert rendered.returncode == 0, rendered.stderr
    assert (out / "report" / "index.html").is_file()
    assert len(read_rows(out / "bench.csv")) == 4
    assert timestamps(out / "tiny") == before


@pytest.mark.slow
def test_failed_job_is_reported_and_retried(tmp_path: Path) -> None:
    # Cross-entropy has no warm-up to set.
    arguments = (*QUICK, "--methods", "ce,permll", "--seeds", "1", "--set", "method.warm_up=0", "--out", "out")
    result = run_cli(*arguments, cwd=tmp_path)
    assert result.returncode == 1
    failed, finished = (tmp_path / "out" / "tiny" / f"digits-sym-40-{method}-1" for method in ("ce", "permll"))
    assert Run(finished).finished
    (failure,) = json.loads((tmp_path / "out" / "failures.json").read_text())
    assert (failure["method"], failure["folder"]) == ("ce", "out/tiny/digits-sym-40-ce-1")
    assert "warm_up" in failure["sentence"]
    assert failure["command"].startswith("permll train tiny/digits --method ce --seed 1")
    assert "Traceback" in (failed / "failure.txt").read_text()
    assert failure["traceback"] == "out/tiny/digits-sym-40-ce-1/failure.txt"
    assert result.stderr.splitlines()[-1] == f"permll: out/tiny/digits-sym-40-ce-1: {failure['sentence']}"
    assert "warm_up" in (tmp_path / "out" / "report" / "index.html").read_text()
    # Without the wrong parameter the job is trained in the same folder.
    again = run_cli(*QUICK, "--methods", "ce", "--seeds", "1", "--out", "out", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert Run(failed).finished
    assert not (failed / "failure.txt").exists()
    assert json.loads((tmp_path / "out" / "failures.json").read_text()) == []


@pytest.mark.slow
def test_killed_bench_resumes(tmp_path: Path) -> None:
    arguments = (*LONG, "--seeds", "1,2,3", "--out", "out")
    folders = [tmp_path / "out" / "tiny" / f"digits-sym-40-ce-{seed}" for seed in (1, 2, 3)]
    with started(*arguments, cwd=tmp_path) as process:
        wait_for_epoch(folders[1], process)
    assert Run(folders[0]).finished
    assert not Run(folders[1]).finished
    before = timestamps(folders[0].parent)
    resumed = run_cli(*arguments, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "1 finished, 1 started, 1 pending; about" in resumed.stdout
    assert [Run(folder).finished for folder in folders] == [True] * 3
    assert resumed.stderr.count(" of 2] ") == 2
    after = timestamps(folders[0].parent)
    first_run = [path for path in before if Path(path).parent == folders[0]]
    assert {"result.json", "metrics.jsonl"} <= {Path(path).name for path in first_run}
    assert {path: after[path] for path in first_run} == {path: before[path] for path in first_run}
    for name in ("labels.npz", "recipe.toml"):  # the second run was not restarted
        assert after[str(folders[1] / name)] == before[str(folders[1] / name)]
    assert [row["epoch"] for row in Run(folders[1]).metrics] == list(range(1, 31))


@pytest.mark.slow
def test_ctrl_c_saves_checkpoint_and_bench_resumes(tmp_path: Path) -> None:
    arguments = (*LONG, "--seeds", "1,2", "--out", "out")
    first, second = (tmp_path / "out" / "tiny" / f"digits-sym-40-ce-{seed}" for seed in (1, 2))
    with started(*arguments, cwd=tmp_path) as process:
        wait_for_epoch(first, process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-1] == ("permll: stopped; checkpoints are saved, run the same command again to resume.")
    assert "ce on digits, sym-40, seed 1: stopped, checkpoint saved" in stderr
    assert not Run(first).finished
    assert not second.exists()
    assert Run(first).checkpoints.newest() is not None
    assert not (tmp_path / "out" / "report").exists()
    resumed = run_cli(*arguments, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "1 started, 1 pending" in resumed.stdout
    assert Run(first).finished
    assert Run(second).finished


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "1,two"), "--seeds takes comma-separated integers such as 1,2,3; got 'two'."),
        (("--dry-run", "--only-render"), "--dry-run and --only-render exclude each other."),
    ],
)
def test_bench_refuses_bad_options_in_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert error_message(run_cli(*QUICK, *arguments, cwd=tmp_path)) == message
    assert not list(tmp_path.iterdir())
