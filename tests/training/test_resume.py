"""Resuming: a run that was killed, stopped or interrupted ends in the same bits as an uninterrupted one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from permll.data import LabeledData
from permll.training import Callback, Run
from permll.training.checkpoint import Checkpoints, load_state, save_state
from permll.training.train import train
from permll.utils.files import is_partial
from tests.helpers.toy_training import StopAfter, newest_state, points, points_recipe, quick_recipe, run_bytes

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a Python process that can import the tests."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-W", "ignore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def train_and_kill(out: Path, kills: str, **changes: Any) -> list[int]:
    """Train and be train_and_kill at these points, see ``killed_training``; return the number of steps at each."""
    process = python("-m", "tests.helpers.killed_training", out, kills, json.dumps(changes))
    assert process.returncode == 0, process.stderr
    children = [line.split() for line in process.stdout.splitlines()]
    assert children[-1][:3] == ["never", "False", "0"], process.stderr
    assert "".join(point for point, was_killed, *_ in children if was_killed == "True") == kills
    return [int(child[3]) for child in children]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    torch.set_num_threads(1)
    run = train(recipe=quick_recipe(training__checkpoint_minutes=1e-9), out=tmp_path_factory.mktemp("run") / "full")
    return run_bytes(run.folder)


def test_run_killed_ten_times_ends_in_the_same_bits(uninterrupted: dict[str, bytes], tmp_path: Path) -> None:
    train_and_kill(tmp_path / "run", "scbmswcsbm")
    assert run_bytes(tmp_path / "run") == uninterrupted


@pytest.mark.slow
def test_dividemix_killed_within_passes_ends_in_the_same_bits(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"method__name": "dividemix", "data__train": 740}  # 24 steps in an epoch
    full = train(recipe=quick_recipe(training__checkpoint_minutes=1e-9, **changes), out=tmp_path / "full")
    warm_up = next(row["step"] for row in full.metrics if row["epoch"] == 1)
    *deaths, _ = train_and_kill(tmp_path / "run", "sSScsc", **changes)
    assert sum(death > warm_up + 3 for death in deaths) >= 3, "killed after the warm-up, in passes over divided rows"
    assert run_bytes(tmp_path / "run") == run_bytes(full.folder)


def test_stopped_run_ends_in_the_same_bits(uninterrupted: dict[str, bytes], tmp_path: Path) -> None:
    recipe = quick_recipe(training__checkpoint_minutes=1e-9)
    for steps in (5, 14, 7, 12):  # of 19 in an epoch: within and at the end of the first and of the second epoch
        run = train(recipe=recipe, out=tmp_path / "run", callbacks=[StopAfter(steps)])
        assert not run.finished
    run = train(recipe=recipe, out=tmp_path / "run")
    assert run_bytes(run.folder) == uninterrupted


def test_finished_run_is_only_read(tmp_path: Path) -> None:
    recipe = quick_recipe(training__epochs=1)
    run = train(recipe=recipe, out=tmp_path / "run")
    before = run_bytes(run.folder)
    assert train(recipe=recipe, out=tmp_path / "run").result == run.result
    assert run_bytes(run.folder) == before


def test_run_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(recipe=quick_recipe(training__epochs=1), out=tmp_path / "run")
    for other in ("mini/sym-60", quick_recipe(training__epochs=1, training__seed=1)):
        with pytest.raises(ValueError, match="is a run of another recipe"):
            train(recipe=other, out=tmp_path / "run")


def test_run_killed_at_its_start_can_be_started_again(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("labels.npz", "noise.npz"):
        (tmp_path / "run" / name).write_bytes(b"half of it")
    assert train(recipe=quick_recipe(training__epochs=1), out=tmp_path / "run").finished


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not a run and not empty"):
        train(recipe=quick_recipe(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


RECIPE = points_recipe(data__validation=0.2)


def test_resume_refuses_other_labels_classes_or_samples(tmp_path: Path) -> None:
    data = points()
    train(data, recipe=RECIPE, out=tmp_path / "run", callbacks=[StopAfter(2)])
    changed = data.labels.clone()
    changed[:30] = (changed[:30] + 1) % 3
    with pytest.raises(ValueError, match=r"was started with other labels for .* samples"):
        train(data.relabel(changed), recipe=RECIPE, out=tmp_path / "run")
    with pytest.raises(ValueError, match="was started with 3 classes"):
        train(points(classes=4), recipe=RECIPE, out=tmp_path / "run")
    renamed = LabeledData(data.inputs, data.labels, data.classes, tuple(f"other {row}" for row in range(len(data))))
    with pytest.raises(ValueError, match="none of these samples is in it"):
        train(renamed, recipe=RECIPE, out=tmp_path / "run")


def alpha_by_id(run: Run) -> dict[str, list[float]]:
    """Return α of every training sample, by id."""
    alpha = newest_state(run)["method"]["layer.alpha"]
    return dict(zip(run.labels.ids, alpha.tolist(), strict=True))


def test_resume_with_reordered_data_gives_the_same_bits(tmp_path: Path) -> None:
    data = points(90)
    full = train(data, recipe=RECIPE, out=tmp_path / "full")
    train(data, recipe=RECIPE, out=tmp_path / "run", callbacks=[StopAfter(3)])
    shuffled = data.take(torch.randperm(90, generator=torch.Generator().manual_seed(1)))
    run = train(shuffled, recipe=RECIPE, out=tmp_path / "run")
    assert run_bytes(run.folder) == run_bytes(full.folder)


def test_resume_with_other_samples_finds_state_by_id(tmp_path: Path) -> None:
    data = points(90)
    train(data.take(range(60)), recipe=RECIPE, out=tmp_path / "run", callbacks=[StopAfter(3)])
    stopped = Run(tmp_path / "run")
    before, validation = alpha_by_id(stopped), stopped.labels.validation_ids
    rows = [row for row in range(5, 90) if row % 7]  # some removed, thirty added, in another order
    starts: list[Any] = []

    class RecordStart(Callback):
        def on_train_start(self, trainer: Any, run: Run) -> None:  # noqa: ARG002
            starts.append((trainer.data.ids, trainer.method.layer.alpha.clone(), trainer.method.layer.init))

    run = train(data.take(rows[::-1]), recipe=RECIPE, out=tmp_path / "run", callbacks=[RecordStart()])
    assert run.finished
    ((ids, alpha, init),) = starts
    assert set(ids) == {data.ids[row] for row in rows} - set(validation)
    assert set(ids) & set(before)
    for name, row in zip(ids, alpha, strict=True):
        if name in before:
            assert row.tolist() == before[name]
        else:
            assert row.softmax(-1).max().item() == pytest.approx(init)
    assert set(run.labels.ids) == set(ids)
    assert run.labels.validation_ids == tuple(name for name in validation if data.ids.index(name) in rows)
    assert len(alpha_by_id(run)) == len(ids)


@pytest.mark.slow
def test_full_disk_keeps_the_previous_checkpoint(uninterrupted: dict[str, bytes], tmp_path: Path) -> None:
    sizes = 40_000, 400  # small files can be written, but no checkpoint; hardly anything can be written
    process = python("-m", "tests.helpers.full_disk", tmp_path, *sizes)
    assert process.stdout.count("could not be written") == 2, process.stderr
    assert process.stdout.count("the previous checkpoint is intact") == 2
    for size in sizes:
        folder = tmp_path / str(size)
        assert newest_state(folder)["step"] == 29
        assert not any(is_partial(path) for path in folder.rglob("*")), "no temporary files"
        run = train(recipe=quick_recipe(training__checkpoint_minutes=1e-9), out=folder)
        assert run_bytes(run.folder) == uninterrupted


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    """A file in place of the folder: permissions do not stop root."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        train(recipe=quick_recipe(), out=tmp_path / "file" / "run")
    train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[StopAfter(5)])
    (tmp_path / "run" / "checkpoints").rename(tmp_path / "moved")
    (tmp_path / "run" / "checkpoints").write_text("")
    with pytest.raises(OSError, match="checkpoints"):
        train(recipe=quick_recipe(), out=tmp_path / "run")


def test_damaged_checkpoint_is_skipped(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(step, {"step": step, "tensors": {"a": torch.arange(step)}})
    assert [path.name[5:15] for path in checkpoints.paths()] == ["0000000002", "0000000003"]
    newest = checkpoints.paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-4])
    found = checkpoints.newest()
    assert found is not None
    assert found["step"] == 2
    assert torch.equal(found["tensors"]["a"], torch.arange(2))
    newest.with_name(checkpoints.paths()[0].name).write_bytes(b"")
    with pytest.raises(ValueError, match="no checkpoint is readable"):
        checkpoints.newest()


def test_state_round_trips(tmp_path: Path) -> None:
    state = {
        "number": 3,
        "loss": 0.1 + 0.2,
        "none": None,
        "text": "tensor",
        "list": [1, torch.tensor([1.5])],
        "shared": {"a": torch.zeros(2), "nested": {"b": torch.arange(3)}},
        "empty": {},
        "scalar": torch.tensor(7),
    }
    found = load_state(save_state(tmp_path / "state.safetensors", state))
    assert found["loss"] == 0.1 + 0.2
    assert found["list"][1].tolist() == [1.5]
    assert found["scalar"].item() == 7
    assert found["shared"]["nested"]["b"].tolist() == [0, 1, 2]
    assert {key: found[key] for key in ("number", "none", "text", "empty")} == {
        key: state[key] for key in ("number", "none", "text", "empty")
    }
    with pytest.raises(TypeError, match="x/y is a set"):
        save_state(tmp_path / "state.safetensors", {"x": {"y": {1}}})
    assert load_state(tmp_path / "state.safetensors")["number"] == 3, "the previous file is intact"


@pytest.mark.slow
def test_ctrl_c_saves_and_tells_how_to_resume(tmp_path: Path) -> None:
    permll = Path(sys.executable).with_name("permll")
    recipe = tmp_path / "quick.toml"
    recipe.write_text(quick_recipe(training__checkpoint_minutes=1e-9, training__epochs=400).to_toml())
    with subprocess.Popen(
        [permll, "train", recipe, "--out", tmp_path / "run"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # after the first epoch
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == f"permll: stopped and saved; permll train {tmp_path / 'run'} resumes it."
    assert len(Run(tmp_path / "run").metrics) >= 1
    resumed = subprocess.run([permll, "train", tmp_path / "run", "--epochs", "3"], capture_output=True, text=True)
    assert "run is a run and" in resumed.stderr, "its recipe cannot be changed"


def test_run_is_locked_while_it_trains(tmp_path: Path) -> None:
    class Second(Callback):
        def on_step_end(self, trainer: Any) -> None:
            trainer.stop()
            train(recipe=quick_recipe(), out=tmp_path / "run")

    with pytest.raises(OSError, match="another process is training"):
        train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[Second()])
    assert train(recipe=quick_recipe(), out=tmp_path / "run").finished


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_and_ends_callbacks(number: int, tmp_path: Path) -> None:
    ended: list[Run] = []

    class Signal(Callback):
        def on_step_end(self, trainer: Any) -> None:
            if trainer.step == 5:
                os.kill(os.getpid(), number)

        def on_train_end(self, run: Run) -> None:
            ended.append(run)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match=r"stopped and saved; permll train .* resumes it"):
        train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[Signal()])
    assert signal.getsignal(number) == before
    assert len(ended) == 1
    assert newest_state(tmp_path / "run")["step"] == 5


def test_refused_resume_does_not_change_the_model_card(tmp_path: Path) -> None:
    data = points()
    train(data, recipe=RECIPE, out=tmp_path / "run", callbacks=[StopAfter(2)])
    before = (tmp_path / "run" / "network.json").read_bytes()
    renamed = LabeledData(data.inputs, data.labels, ("x", "y", "z"), data.ids)
    with pytest.raises(ValueError, match="was started with 3 classes"):
        train(renamed, recipe=RECIPE, out=tmp_path / "run")
    assert (tmp_path / "run" / "network.json").read_bytes() == before


def test_resume_refuses_another_network(tmp_path: Path) -> None:
    train(points(), recipe=RECIPE, out=tmp_path / "run", network=torch.nn.Linear(4, 3), callbacks=[StopAfter(2)])
    with pytest.raises(ValueError, match="was started with another network"):
        train(points(), recipe=RECIPE, out=tmp_path / "run", network=torch.nn.Linear(4, 3, bias=False))
