"""``Trainer`` and ``train``: passes, learning rates, errors, arguments."""

import inspect
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from permll.data import Batch, LabeledData
from permll.distributed.process_group import ProcessGroup
from permll.methods import METHODS, Method, StreamSpec, TrainPass
from permll.methods.ce import CrossEntropy
from permll.training import Run, trainer
from permll.training.schedule import learning_rate
from permll.training.train import train
from permll.training.train_streams import open_streams
from permll.training.trainer import NotFiniteError, Trainer
from tests.helpers.toy_training import (
    StopAfter,
    build_trainer,
    do_nothing,
    newest_state,
    points,
    points_recipe,
)


def test_trainer_does_not_name_methods() -> None:
    source = inspect.getsource(trainer)
    classes = [info.method_class.__name__ for info in METHODS.values()]
    assert not [name for name in METHODS if f'"{name}"' in source]
    assert not [name for name in classes if name in source]


class Fragile(torch.nn.Linear):
    """A network that returns NaN for some inputs."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).masked_fill(x[:, :1] > 1, torch.nan)


class Late(torch.nn.Module):
    """A network with batch norm that returns NaN at its tenth step."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head, self.steps = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += self.training
        return self.head(self.norm(x.masked_fill(x[:, :1] > 1, torch.nan) if self.steps == 10 else x))


@pytest.mark.parametrize("method", ["ce", "permll"])
def test_trainer_refuses_nan_loss(method: str, tmp_path: Path) -> None:
    recipe = points_recipe(method__name=method)
    with pytest.raises(NotFiniteError, match=r"epoch 1, step 1, for \d+ samples \(point"):
        train(points(), recipe=recipe, out=tmp_path / "run", network=Fragile())
    assert not Run(tmp_path / "run").finished


@pytest.mark.parametrize("method", ["ce", "permll"])
def test_checkpoint_before_nan_loss_is_finite(method: str, tmp_path: Path) -> None:
    recipe = points_recipe(method__name=method, training__epochs=20)
    with pytest.raises(NotFiniteError, match=r"step 10, for .* the previous checkpoint is intact"):
        train(points(256), recipe=recipe, out=tmp_path / "run", network=Late())
    state = newest_state(tmp_path / "run")
    assert state["step"] == 8, "the end of the second epoch"
    assert all(bool(value.isfinite().all()) for value in state["networks"]["net"].values())


def test_nan_weights_are_not_saved(tmp_path: Path) -> None:
    recipe = points_recipe(method__name="ce", optimizer__lr=1e38, training__batch_size=60)
    with pytest.raises(NotFiniteError, match=r"norm.weight became NaN or infinite in epoch 2"):
        train(points(), recipe=recipe, out=tmp_path / "run", network=torch.nn.Sequential(Late(), Double()))
    assert Run(tmp_path / "run").checkpoints.newest() is None


class Double(torch.nn.Linear):
    """A second layer, for a gradient that is a product of weights."""

    def __init__(self) -> None:
        super().__init__(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1e6


class TwoPasses(Method):
    """Two passes in an epoch, over different rows, each with a second, shorter stream."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[str, list[int], list[int]]] = []

    def train_pass(self, epoch: int, number: int, predict_logits: Any) -> TrainPass | None:  # noqa: ARG002
        if number == 2:
            return None
        rows = torch.arange(40) if number == 0 else torch.arange(40, 60)
        few = StreamSpec(views=("weak", "strong", "weak:2"), rows=torch.arange(50, 55), batch_factor=0.25)
        return TrainPass({"many": StreamSpec(rows=rows), "few": few}, loss="both")

    def both(self, many: Batch, few: Batch) -> Tensor:
        assert not torch.equal(few.views["weak"], few.views["weak:2"])
        self.batches.append(("both", many.index.tolist(), few.index.tolist()))
        logits = self.networks["net"](many.x)
        return torch.nn.functional.cross_entropy(logits, many.labels, reduction="none")


def test_pass_with_two_streams_gets_its_rows() -> None:
    method = TwoPasses()
    two_pass_trainer(method).run(do_nothing, do_nothing)
    by_epoch = [method.batches[:5], method.batches[5:]]
    for batches in by_epoch:
        assert sorted(itertools.chain(*(rows for _, rows, _ in batches[:3]))) == list(range(40))
        assert sorted(itertools.chain(*(rows for _, rows, _ in batches[3:]))) == list(range(40, 60))
        assert {row for _, _, few in batches for row in few} == set(range(50, 55))
    assert method.batches[0][2:] != method.batches[5][2:], "a stream that repeats is drawn again in every epoch"
    assert by_epoch[0] != by_epoch[1]


def two_pass_trainer(method: Method, **more: Any) -> Trainer:
    base = build_trainer("ce", points())
    method.networks["net"] = torch.nn.Linear(4, 3)
    optimizer = {"name": "sgd", "lr": 0.01}
    return Trainer(base.fabric, method, base.data, base.views, optimizer=optimizer, epochs=2, batch_size=16, **more)


def test_predict_logits_does_not_change_state() -> None:
    trainer = build_trainer("permll", points())
    trainer.method.train()
    before = {key: value.clone() for key, value in trainer.method.state_dict().items()}
    assert torch.equal(trainer.predict_logits("net"), trainer.predict_logits("net"))
    assert trainer.method.training
    assert all(torch.equal(value, before[key]) for key, value in trainer.method.state_dict().items())


def test_predict_logits_of_some_rows() -> None:
    trainer = build_trainer("permll", points(200))
    rows = torch.tensor([150, 3, 77])
    torch.testing.assert_close(trainer.predict_logits("net", rows=rows), trainer.predict_logits("net")[rows])
    mask = torch.arange(200) % 2 == 0
    torch.testing.assert_close(trainer.predict_logits("net", rows=mask), trainer.predict_logits("net")[mask])


@pytest.mark.parametrize(
    ("epoch", "settings", "factor"),
    [
        (0, {"milestones": (2,)}, 1.0),
        (1.99, {"milestones": (2,)}, 1.0),
        (2, {"milestones": (2,)}, 0.1),
        (6.7, {"milestones": (0.67, 0.84)}, 0.1),
        (8.5, {"milestones": (0.67, 0.84), "gamma": 0.5}, 0.25),
        (0, {"kind": "cosine"}, 1.0),
        (5.9, {"kind": "cosine"}, 0.5),
        (5, {"kind": "cosine", "final": 0.1}, 0.55),
        (3.9, {"kind": "linear", "milestones": (4,)}, 1.0),
        (4, {"kind": "linear", "milestones": (0.4,)}, 1.0),
        (5.5, {"kind": "linear", "milestones": (4,)}, 5 / 6),
        (9, {"kind": "linear", "milestones": (4,)}, 1 / 6),
        (9, {"kind": "linear", "milestones": (4,), "final": 0.4}, 0.5),
        (5, {"kind": "linear"}, 0.5),
        (9, {"kind": "linear", "milestones": (30,)}, 1.0),
        (1, {"kind": "constant", "warm_up": 4}, 0.25),
        (9, {"kind": "constant", "warm_up": 4}, 1.0),
    ],
)
def test_learning_rate_schedules(epoch: float, settings: dict[str, Any], factor: float) -> None:
    assert learning_rate(epoch, 10, **settings) == pytest.approx(factor)


def test_train_builds_several_networks(tmp_path: Path) -> None:
    data: LabeledData = points(90)
    recipe = points_recipe(data__noise="sym:0.3", data__validation=0.1, method__networks=2)
    run = train(data, recipe=recipe, out=tmp_path / "run", network=lambda: torch.nn.Linear(4, 3))
    state = newest_state(run)
    assert set(state["networks"]) == {"net0", "net1"}
    assert run.metrics[-1]["correction_wrong"] == 24


class Halved(CrossEntropy):
    """A user-defined method."""

    def loss(self, batch: Batch) -> torch.Tensor:
        """Return half of the cross-entropy."""
        return super().loss(batch) / 2


def test_train_resumes_with_a_method_class(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "epochs": 2,
        "noise": "sym:0.2",
        "overrides": {"method.label_smoothing": 0.1},
        "out": tmp_path / "run",
    }
    train(points(), Halved, callbacks=[StopAfter(1)], **settings)
    run = train(points(), Halved, **settings)
    assert run.finished
    assert run.recipe.method.name == f"{__name__}:Halved"
    assert run.recipe.method.settings == {"label_smoothing": 0.1}
    plain = train(points(), CrossEntropy, **settings | {"out": tmp_path / "plain"})
    assert plain.recipe.method.name == "ce"
    assert run.metrics[0]["loss"] < 0.7 * plain.metrics[0]["loss"]


def test_train_needs_data_and_a_method(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no training data"):
        train(method="permll", out=tmp_path)
    with pytest.raises(ValueError, match="the recipe names no data"):
        train(recipe="auto/default", out=tmp_path / "run")
    with pytest.raises(ValueError, match="is not a method: it must inherit"):
        train(points(), "pathlib:Path", out=tmp_path / "run")
    with pytest.raises(ValueError, match="cannot import method"):
        train(points(), "permll.methods.nowhere:It", out=tmp_path / "run")


def test_second_pass_has_the_learning_rate_of_its_epoch() -> None:
    trainer = two_pass_trainer(TwoPasses(), schedule={"milestones": (1,)})
    rates: list[float] = []
    trainer.run(lambda trainer: rates.append(trainer.optimizers["net"].param_groups[0]["lr"]), do_nothing)
    assert rates == [0.01] * 5 + [0.001] * 5


def test_train_refuses_a_finished_run_of_other_data(tmp_path: Path) -> None:
    train(points(), "ce", epochs=1, out=tmp_path / "run")
    assert train(points(), "ce", epochs=1, out=tmp_path / "run").finished
    for other in (points(200, classes=5), points(90)):
        with pytest.raises(
            ValueError, match=r"was started with 3 classes|is finished, and was trained on other samples"
        ):
            train(other, "ce", epochs=1, out=tmp_path / "run")


def test_several_networks_need_a_function(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "overrides": {"method.networks": 2}, "out": tmp_path / "run"}
    with pytest.raises(ValueError, match="trains 2 networks: pass a function"):
        train(points(), "permll", network=torch.nn.Linear(4, 3), **settings)
    run = train(points(), "permll", network=lambda: torch.nn.Linear(4, 3), **settings)
    state = newest_state(run)
    one, other = (state["networks"][name]["weight"] for name in ("net0", "net1"))
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method.balance": "correct"}, "the setting balance of permll is 'correct', but input should be 'none', 'gi"),
        ({"method.lr": "fast"}, "the setting lr of permll is 'fast', but input should be a valid number"),
        ({"schedule.gamma": -3}, "schedule.gamma is -3"),
        ({"schedule.milestones": [-5]}, "schedule.milestones.0 is -5"),
        ({"training.precision": "16-mixed"}, "training.precision is '16-mixed'"),
        (
            {"method.name": "mlnt", "training.devices": 2, "training.accelerator": "cpu"},
            "mlnt differentiates through gradients",
        ),
        ({"training.devices": "two"}, "training.devices is 'two', but must be a count >= 1"),
        ({"training.devices": 0}, "training.devices is 0, but must be a count >= 1"),
        (
            {"training.devices": 99, "training.accelerator": "cpu"},
            "too small for 99 processes, each of which",
        ),
        ({"data.test": "tets"}, "data.test is 'tets', but there is no such split or file"),
        ({"data.trusted": 10}, "data.trusted is a number, but no noise is added"),
    ],
)
def test_train_refuses_wrong_settings(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,label\n" + "".join(f"{row % 7 + 0.5},{'ab'[row % 2]}\n" for row in range(40)))
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        train(path, epochs=1, out=tmp_path / "run", overrides={"method.name": "permll", **changes})
    assert not Run(tmp_path / "run").exists


def test_train_reads_test_data_from_another_file(tmp_path: Path) -> None:
    for name in ("data.csv", "test.csv"):
        (tmp_path / name).write_text("x,label\n" + "".join(f"{row % 2 + 0.5},{'ab'[row % 2]}\n" for row in range(40)))
    run = train(
        tmp_path / "data.csv", "ce", epochs=1, out=tmp_path / "run", overrides={"data.test": str(tmp_path / "test.csv")}
    )
    assert run.result["last"] is not None


def test_train_accepts_a_data_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [0.5, 1.5, 2.5, 7.5] * 12, "kind": ["a", "a", "b", "b"] * 12})
    run = train(frame, "ce", epochs=1, out=tmp_path / "run", label="kind")
    assert run.recipe.training.batch_size == 16, "chosen by the data"
    assert run.recipe.network.name == "mlp"
    again = train(frame, "ce", epochs=1, out=tmp_path / "run", label="kind")
    assert again.result == run.result
    with pytest.raises(TypeError, match=r"pass the method's class, not an object: train\(data, CrossEntropy"):
        train(frame, CrossEntropy())  # type: ignore[arg-type]


def test_train_checks_a_user_network(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "out": tmp_path / "run"}
    with pytest.raises(ValueError, match=r"the network does not accept samples of shape \(4,\): mat1 and mat2"):
        train(points(), "ce", network=torch.nn.Linear(5, 3), **settings)
    with pytest.raises(ValueError, match=r"logits of shape \(2, 3\) for 2 samples; got \(2, 4\)"):
        train(points(), "ce", network=torch.nn.Linear(4, 4), **settings)
    run = train(points(), "ce", network=torch.nn.Linear(4, 3), **settings)
    assert run.recipe.network.name == "given:torch.nn.modules.linear.Linear"
    with pytest.raises(ValueError, match="is a run of another recipe"):
        train(points(), "ce", **settings)
    with pytest.raises(ValueError, match=r"another recipe \(network.name given.*Linear and given.*Sequential\)"):
        train(points(), "ce", network=torch.nn.Sequential(torch.nn.Linear(4, 3)), **settings)


def test_findings_are_sorted_by_quality(tmp_path: Path) -> None:
    run = train("digits", "permll", recipe="tiny/digits", epochs=3, out=tmp_path / "run")
    findings = run.findings.head(None)
    assert sorted(finding.id for finding in findings) == sorted(run.labels.ids)
    for is_issue in (True, False):  # issues come first
        quality = [finding.label_quality for finding in findings if finding.is_issue == is_issue]
        assert quality == sorted(quality)
    given = run.labels.by_id()
    assert all(finding.given_label == run.labels.classes[given[finding.id]] for finding in findings)
    changed = sum(finding.given_label != finding.proposed_label for finding in findings)
    assert changed == run.metrics[-1]["correction_changed"]
    with pytest.raises(FileNotFoundError, match="is not a run: permll train or permll clean makes one"):
        _ = Run(tmp_path / "none").findings


def test_several_streams_need_batch_coupling_with_several_processes() -> None:
    two_streams = TrainPass({"batch": StreamSpec(), "other": StreamSpec()})
    trainer = build_trainer("ce", points())
    assert list(open_streams(two_streams, trainer)) == ["batch", "other"]
    trainer.group = ProcessGroup(rank=0, size=2)
    with pytest.raises(ValueError, match="several processes and batch_coupling 'none', a pass must have one stream"):
        open_streams(two_streams, trainer)
