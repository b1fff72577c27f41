"""A training that is killed, stopped or interrupted ends where an undisturbed one ends, bit by bit."""

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
from tests.helpers.toy_training import StopAfter, files, points, quick_recipe

# Trains in a child process that says on a pipe what it is about to do, and is killed there: s before a step, c in the
# writing of a checkpoint, m of a line of metrics, b between that line and its checkpoint, w in the writing of any other
# file; a capital lets more than an epoch pass before. Forked from a parent that has imported everything, so that ten
# deaths cost seconds.
KILLS = "scbmswcsbm"
SCRIPT = """
import json, os, random, signal, sys
import torch
torch.set_num_threads(1)
from permll.training import Run
from permll.training.train import train
from tests.helpers.toy_training import quick_recipe

out, kills, changes = sys.argv[1:]
turns, steps = random.Random(7), 0
recipe = quick_recipe(training__checkpoint_minutes=1e-9, **json.loads(changes))  # after every step
from permll.training.data_preparation import prepare
from permll.training.train import build_trainer
build_trainer(recipe, prepare(recipe))  # imports what the children will need


def child(tell, hear):
    def say(word):
        os.write(tell, word)
        os.read(hear, 1)  # wait: it is here that the axe falls, or not

    class Watch:
        def on_start(self, loop, run): pass
        def on_step(self, loop): say(b"s")
        def on_epoch(self, loop, metrics): say(b"e")
        def on_end(self, run): pass
    sync = os.fsync
    def slow_sync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        checkpoint = path.endswith(".part") and "/checkpoints/" in path
        say(b"c" if checkpoint else b"m" if path.endswith("metrics.jsonl") else b"w")
        sync(descriptor)
    os.fsync = slow_sync
    add = Run.add_metrics
    def add_and_wait(run, entry):
        add(run, entry)
        say(b"b")
    Run.add_metrics = add_and_wait
    train(recipe=recipe, out=out, callbacks=[Watch()])


for wanted in [*kills, "never"]:
    (read, tell), (hear, write) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read), os.close(write)
        child(tell, hear)
        os._exit(0)
    os.close(tell), os.close(hear)
    after = turns.randrange(1, {"s": 9, "c": 9, "w": 3}.get(wanted, 1) + 1) + 24 * wanted.isupper()
    while word := os.read(read, 1):
        after -= word.decode() == wanted.lower()
        steps += word == b"s"
        if after == 0:
            os.kill(pid, signal.SIGKILL)
            break
        os.write(write, b".")
    os.close(read), os.close(write)
    _, status = os.waitpid(pid, 0)
    print(wanted, os.WIFSIGNALED(status), os.WEXITSTATUS(status), steps)
"""


def killed(out: Path, kills: str, **changes: Any) -> list[int]:
    """Train, and be killed there; return how many steps were taken before each death and in all."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, out, kills, json.dumps(changes)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    turns = [line.split() for line in shown.stdout.splitlines()]
    assert turns[-1][:3] == ["never", "False", "0"], shown.stderr
    assert "".join(where for where, was_killed, *_ in turns if was_killed == "True") == kills
    return [int(turn[3]) for turn in turns]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    torch.set_num_threads(1)
    run = train(recipe=quick_recipe(training__checkpoint_minutes=1e-9), out=tmp_path_factory.mktemp("run") / "whole")
    return files(run.folder)


def test_killed_ten_times_it_ends_in_the_same_bits(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    killed(tmp_path / "run", KILLS)
    assert files(tmp_path / "run") == undisturbed


def test_killed_within_an_epoch_of_dividemix_it_ends_in_the_same_bits(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"method__name": "dividemix", "data__train": 740}  # of 24 steps an epoch
    whole = train(recipe=quick_recipe(training__checkpoint_minutes=1e-9, **changes), out=tmp_path / "whole")
    warm_up = next(row["step"] for row in whole.metrics if row["epoch"] == 1)
    *deaths, _ = killed(tmp_path / "run", "sSScsc", **changes)
    assert sum(death > warm_up + 3 for death in deaths) >= 3, "it should be killed where the rows are divided"
    assert files(tmp_path / "run") == files(whole.folder)


def test_stopped_within_an_epoch_and_at_its_last_step_it_goes_on(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    recipe = quick_recipe(training__checkpoint_minutes=1e-9)
    for steps in (5, 14, 7, 12):  # an epoch has 19: within the first, at its last, within and at the last of the second
        run = train(recipe=recipe, out=tmp_path / "run", callbacks=[StopAfter(steps)])
        assert not run.finished
    run = train(recipe=recipe, out=tmp_path / "run")
    assert files(run.folder) == undisturbed


def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    recipe = quick_recipe(training__epochs=1)
    run = train(recipe=recipe, out=tmp_path / "run")
    before = files(run.folder)
    assert train(recipe=recipe, out=tmp_path / "run").result == run.result
    assert files(run.folder) == before


def test_a_run_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(recipe=quick_recipe(training__epochs=1), out=tmp_path / "run")
    for other in ("mini/sym-60", quick_recipe(training__epochs=1, training__seed=1)):
        with pytest.raises(ValueError, match="is a run of another recipe"):
            train(recipe=other, out=tmp_path / "run")


def test_a_beginning_that_was_killed_can_be_begun_again(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("labels.npz", "noise.npz"):
        (tmp_path / "run" / name).write_bytes(b"half of it")
    assert train(recipe=quick_recipe(training__epochs=1), out=tmp_path / "run").finished


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is no run, and not empty"):
        train(recipe=quick_recipe(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def own() -> Any:
    return quick_recipe(data__source="own", data__noise="", data__validation=0.2, views__weak=None, views__strong=None)


def test_other_labels_classes_or_data_are_refused_with_the_difference(tmp_path: Path) -> None:
    data = points()
    train(data, recipe=own(), out=tmp_path / "run", callbacks=[StopAfter(2)])
    changed = data.labels.clone()
    changed[:30] = (changed[:30] + 1) % 3
    with pytest.raises(ValueError, match=r"was begun with other labels for .* samples"):
        train(data.relabel(changed), recipe=own(), out=tmp_path / "run")
    with pytest.raises(ValueError, match="was begun with 3 classes"):
        train(points(classes=4), recipe=own(), out=tmp_path / "run")
    strangers = LabeledData(data.inputs, data.labels, data.classes, tuple(f"other {row}" for row in range(len(data))))
    with pytest.raises(ValueError, match="knows none of these samples"):
        train(strangers, recipe=own(), out=tmp_path / "run")


def rows_of(run: Run) -> dict[str, list[float]]:
    """Return α of every training sample, by id."""
    state = run.checkpoints.newest()
    assert state is not None
    alpha = state["method"]["layer.alpha"]
    return dict(zip(run.rows[0], alpha.tolist(), strict=True))


def test_reordered_data_find_their_rows_by_id(tmp_path: Path) -> None:
    data = points(90)
    whole = train(data, recipe=own(), out=tmp_path / "whole")
    train(data, recipe=own(), out=tmp_path / "run", callbacks=[StopAfter(3)])
    shuffled = data.take(torch.randperm(90, generator=torch.Generator().manual_seed(1)))
    run = train(shuffled, recipe=own(), out=tmp_path / "run")
    assert files(run.folder) == files(whole.folder)


def test_extended_and_filtered_data_find_their_rows_by_id(tmp_path: Path) -> None:
    data = points(90)
    train(data.take(range(60)), recipe=own(), out=tmp_path / "run", callbacks=[StopAfter(3)])
    begun = Run(tmp_path / "run")
    before, (trained, validation) = rows_of(begun), begun.rows
    kept = [row for row in range(5, 90) if row % 7]  # some are gone, thirty are new, and the order is another
    loops: list[Any] = []

    class Look(Callback):
        def on_train_start(self, trainer: Any, run: Run) -> None:  # noqa: ARG002
            loops.append((trainer.data.ids, trainer.method.layer.alpha.clone(), trainer.method.layer.init))

    run = train(data.take(kept[::-1]), recipe=own(), out=tmp_path / "run", callbacks=[Look()])
    assert run.finished
    ((ids, alpha, init),) = loops
    assert set(ids) == {data.ids[row] for row in kept} - set(validation)
    known = set(trained)
    assert {name for name in ids if name in known} != set()
    for name, row in zip(ids, alpha, strict=True):
        if name in known:
            assert row.tolist() == before[name]
        else:
            assert row.softmax(-1).max().item() == pytest.approx(init)
    assert set(run.rows[0]) == set(ids)
    assert run.rows[1] == tuple(name for name in validation if data.ids.index(name) in kept)
    assert len(rows_of(run)) == len(ids)


def test_a_full_disk_in_the_middle_of_a_run_loses_nothing(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk without room; each fills in a process that was forked for it."""
    rooms = 40_000, 400  # for a whole file but not for a checkpoint; for next to nothing
    code = (
        "import resource, sys; from tests.helpers.toy_training import *; from permll import train\n"
        "torch.set_num_threads(1)\n"
        "from permll.training.data_preparation import prepare; from permll.training.train import build_trainer\n"
        "recipe = quick_recipe(training__checkpoint_minutes=1e-9)\n"
        "build_trainer(recipe, prepare(recipe))  # imports what the children will need\n"
        "class Fill(StopAfter):\n"
        "    def on_step(self, loop):\n"
        "        if loop.step == 30: resource.setrlimit(resource.RLIMIT_FSIZE, (room, -1))\n"
        "for room in map(int, sys.argv[2:]):\n"
        "    if os.fork() == 0:\n"
        "        try: train(recipe=recipe, out=f'{sys.argv[1]}/{room}', callbacks=[Fill(999)])\n"
        "        except OSError as problem: print(problem, flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()"
    )
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import os; {code}", tmp_path, *map(str, rooms)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        timeout=120,
    )
    assert shown.stdout.count("could not be written") == 2, shown.stderr
    assert shown.stdout.count("the checkpoint before is still good") == 2
    for room in rooms:
        state = Run(tmp_path / str(room)).checkpoints.newest()
        assert state is not None
        assert state["step"] == 29
        run = train(recipe=quick_recipe(training__checkpoint_minutes=1e-9), out=tmp_path / str(room))
        assert files(run.folder) == undisturbed


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where the folder should be: what no right to write looks like to root."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        train(recipe=quick_recipe(), out=tmp_path / "file" / "run")
    train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[StopAfter(5)])
    (tmp_path / "run" / "checkpoints").rename(tmp_path / "kept")
    (tmp_path / "run" / "checkpoints").write_text("")
    with pytest.raises(OSError, match="checkpoints"):
        train(recipe=quick_recipe(), out=tmp_path / "run")


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match="no checkpoint can be read"):
        checkpoints.newest()


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
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
    assert load_state(tmp_path / "state.safetensors")["number"] == 3, "the file before is still there"


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk without room."""
    code = (
        "import resource, sys, torch; from pathlib import Path; from permll.training.checkpoint import Checkpoints\n"
        "checkpoints = Checkpoints(Path(sys.argv[1])); checkpoints.save(1, {'step': 1})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try: checkpoints.save(2, {'step': 2, 'values': torch.zeros(100_000)})\n"
        "except OSError as problem: print(problem)"
    )
    shown = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60)
    assert "could not be written" in shown.stdout, shown.stderr
    assert "the checkpoint before is still good" in shown.stdout
    found = Checkpoints(tmp_path).newest()
    assert found is not None
    assert found["step"] == 1
    assert len(list(tmp_path.iterdir())) == 1, "no half of a file is left behind"


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    permll = Path(sys.executable).with_name("permll")
    recipe = tmp_path / "quick.toml"
    recipe.write_text(quick_recipe(training__checkpoint_minutes=1e-9, training__epochs=400).to_toml())
    with subprocess.Popen(
        [permll, "train", recipe, "--out", tmp_path / "run"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # an epoch is done
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == f"permll: stopped and saved; permll train {tmp_path / 'run'} goes on."
    before = Run(tmp_path / "run").metrics
    shown = subprocess.run([permll, "train", tmp_path / "run", "--epochs", "3"], capture_output=True, text=True)
    assert "goes on as it was begun" in shown.stderr
    assert len(before) >= 1


def test_two_processes_cannot_train_one_run(tmp_path: Path) -> None:
    class Second(Callback):
        def on_step_end(self, trainer: Any) -> None:
            trainer.stop()
            train(recipe=quick_recipe(), out=tmp_path / "run")

    with pytest.raises(OSError, match="another process is training"):
        train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[Second()])
    assert train(recipe=quick_recipe(), out=tmp_path / "run").finished


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_python_saves_and_ends_what_watches(number: int, tmp_path: Path) -> None:
    ended: list[Run] = []

    class Signal(Callback):
        def on_step_end(self, trainer: Any) -> None:
            if trainer.step == 5:
                os.kill(os.getpid(), number)

        def on_train_end(self, run: Run) -> None:
            ended.append(run)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match=r"stopped and saved; permll train .* goes on"):
        train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[Signal()])
    assert signal.getsignal(number) == before
    assert len(ended) == 1
    state = Run(tmp_path / "run").checkpoints.newest()
    assert state is not None
    assert state["step"] == 5


def test_a_refused_beginning_leaves_what_predictions_need_alone(tmp_path: Path) -> None:
    data = points()
    train(data, recipe=own(), out=tmp_path / "run", callbacks=[StopAfter(2)])
    before = (tmp_path / "run" / "network.json").read_bytes()
    renamed = LabeledData(data.inputs, data.labels, ("x", "y", "z"), data.ids)
    with pytest.raises(ValueError, match="was begun with 3 classes"):
        train(renamed, recipe=own(), out=tmp_path / "run")
    assert (tmp_path / "run" / "network.json").read_bytes() == before


def test_another_network_is_refused(tmp_path: Path) -> None:
    train(points(), recipe=own(), out=tmp_path / "run", network=torch.nn.Linear(4, 3), callbacks=[StopAfter(2)])
    with pytest.raises(ValueError, match="was begun with another network"):
        train(points(), recipe=own(), out=tmp_path / "run", network=torch.nn.Linear(4, 3, bias=False))
