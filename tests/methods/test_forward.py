"""Forward, backward and Dual-T: two trainings, the matrix between them, and what it changes."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from permll.data import Batch, LabeledData
from permll.functional.transition import anchor_transition, dual_transition
from permll.methods import FitInfo, find_method
from permll.methods._transition import read_transition
from permll.training.recipe_files import load_recipe
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points, small_net
from tests.methods.test_bootstrap import assert_same_weights, train_by_hand, watch
from tests.methods.test_contract import idle, run_steps

ALL = pytest.mark.parametrize("name", ["forward", "backward", "dual_t"])
MOST_OF_0_TO_1 = [[0.4, 0.6, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
SOME_NOISE = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]]


def turned(data: LabeledData) -> LabeledData:
    """Return the points with three of five labels 0 turned into 1: most of class 0 is called 1."""
    zeros = (data.labels == 0).nonzero()[:, 0]
    labels = data.labels.clone()
    labels[zeros[torch.arange(len(zeros)) % 5 < 3]] = 1
    return data.relabel(labels)


def prepared(name: str, labels: tuple[int, ...] = (0, 1, 2, 0), **settings: Any) -> Any:
    """Return a method that knows these samples of three classes."""
    method = find_method(name).build(**settings)
    method.on_fit_start(FitInfo(torch.tensor(labels), tuple("abcd"[: len(labels)]), 3, 10, 4))
    return method


# --- The stages -----------------------------------------------------------------------------------------------------


@ALL
def test_the_matrix_is_read_off_the_best_network_and_another_begins(name: str) -> None:
    trainer = build_trainer(name, turned(points()), {"estimate": 0.5, "quantile": 0.9}, epochs=8)
    run_steps(trainer, 16)  # four epochs: the last step of the first stage
    assert torch.equal(trainer.method.T, torch.eye(3))
    for _ in trainer.each_epoch():
        break  # the end of the epoch: the last candidate for the best
    p = trainer.predict_logits(best=True).softmax(-1)
    expected = dual_transition(p, trainer.data.labels, 0.9) if name == "dual_t" else anchor_transition(p, 0.9)
    begun: list[Tensor] = []
    real = trainer.method.loss

    def watched(batch: Batch) -> Tensor:
        begun.append(torch.cat([value.detach().flatten() for value in trainer.method.networks.parameters()]))
        return real(batch)

    trainer.method.loss = watched
    run_steps(trainer, 1)
    torch.testing.assert_close(trainer.method.T, expected.float())
    fresh = small_net(4, 3)  # no way to make another was given: the initial weights once more
    assert torch.equal(begun[0], torch.cat([value.detach().flatten() for value in fresh.parameters()]))
    if name == "backward":
        identity = trainer.method.T.double() @ trainer.method.inverse.double()
        torch.testing.assert_close(identity, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_with_a_matrix_given_all_epochs_train_with_it(name: str) -> None:
    method = prepared(name, T=SOME_NOISE)
    assert [(stage.name, stage.epochs, stage.weights) for stage in method.stages(10)] == [("correct", 10, "last")]
    torch.testing.assert_close(method.T, torch.tensor(SOME_NOISE))
    assert [stage.weights for stage in prepared(name).stages(10)] == ["last", "fresh"]


@ALL
def test_the_first_stage_is_cross_entropy(name: str) -> None:
    loops = [build_trainer(one, points(), epochs=8) for one in (name, "ce")]
    for trainer in loops:
        torch.manual_seed(5)
        trainer.stages._schedule = {"kind": "constant"}
        run_steps(trainer, 6)
    assert_same_weights(*(trainer.method.networks["net"] for trainer in loops))


# --- Training -------------------------------------------------------------------------------------------------------


def forward_by_hand(p: Tensor, batch: Batch) -> Tensor:
    T = torch.tensor(SOME_NOISE)
    given = torch.stack(
        [sum((p[b, i] * T[i, y] for i in range(3)), torch.zeros(())) for b, y in enumerate(batch.labels)]
    )
    return -given.log().mean()


def backward_by_hand(p: Tensor, batch: Batch) -> Tensor:
    inverse = torch.tensor(np.linalg.inv(np.array(SOME_NOISE)), dtype=torch.float32)
    return -torch.stack([(inverse[y] * p[b].log()).sum() for b, y in enumerate(batch.labels)]).mean()


@pytest.mark.parametrize(("name", "by_hand"), [("forward", forward_by_hand), ("backward", backward_by_hand)])
def test_training_is_a_few_plain_steps(name: str, by_hand: Any) -> None:
    trainer = build_trainer(name, points(), {"T": SOME_NOISE})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    seen = watch(trainer)
    run_steps(trainer, 6)
    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))


def accuracy(trainer: Trainer, clean: Tensor) -> float:
    trainer.run(idle, idle)
    return (trainer.predict(trainer.data).argmax(1) == clean).double().mean().item()


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_the_class_that_most_labels_hide_is_found(name: str) -> None:
    clean = points(120)
    assert accuracy(build_trainer("ce", turned(clean), epochs=12), clean.labels) < 0.75
    trainer = build_trainer(name, turned(clean), {"T": MOST_OF_0_TO_1}, epochs=12)
    assert accuracy(trainer, clean.labels) > 0.95
    corrected, quality = (
        trainer.method.corrected_labels(trainer.predict_logits),
        trainer.method.label_quality(trainer.predict_logits),
    )
    wrong = turned(clean).labels != clean.labels
    assert (corrected.argmax(1) == clean.labels).double().mean() > 0.95
    assert quality[wrong].max() < quality[~wrong & (clean.labels == 0)].min()


# --- Which epoch is best --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [None, SOME_NOISE])
def test_the_score_of_forward_is_the_corrected_validation_loss(T: Any) -> None:
    method = prepared("forward", T=T)
    p, labels = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]), torch.tensor([1, 2])
    matrix = torch.eye(3) if T is None else torch.tensor(T)
    expected = sum(math.log(sum(p[b, i] * matrix[i, y] for i in range(3))) for b, y in enumerate(labels)) / 2
    assert method.score(p, labels) == pytest.approx(float(expected), rel=1e-5)
    certain = torch.tensor([[1.0, 0.0, 0.0]])
    assert method.score(certain, torch.tensor([1])) > -math.inf


def test_the_score_of_backward_is_the_corrected_validation_loss() -> None:
    method = prepared("backward", T=SOME_NOISE)
    p, labels = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]), torch.tensor([1, 2])
    inverse = np.linalg.inv(np.array(SOME_NOISE))
    expected = sum(inverse[y, k] * math.log(p[b, k]) for b, y in enumerate(labels) for k in range(3)) / 2
    assert method.score(p, labels) == pytest.approx(expected, rel=1e-5)
    assert math.isfinite(method.score(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0])))


def test_the_score_of_dual_t_is_how_often_the_expected_label_is_given() -> None:
    method = prepared("dual_t")
    p, labels = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([1, 2])
    assert method.score(p, labels) == 0.5
    method.set_transition(torch.tensor(MOST_OF_0_TO_1))
    assert method.score(p, labels) == 1.0


# --- What is believed of labels -------------------------------------------------------------------------------------


def test_labels_follow_the_posterior_once_the_matrix_is_known() -> None:
    method = prepared("forward")
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    p = logits.softmax(-1)
    torch.testing.assert_close(method.corrected_labels(lambda: logits), p)
    T = torch.tensor(SOME_NOISE)
    method.set_transition(T)
    corrected, quality = method.corrected_labels(lambda: logits), method.label_quality(lambda: logits)
    for b, y in enumerate((0, 1, 2, 0)):
        joint = [float(p[b, i] * T[i, y]) for i in range(3)]
        assert corrected[b].tolist() == pytest.approx([one / sum(joint) for one in joint], rel=1e-5)
        assert quality[b].item() == pytest.approx(joint[y] / sum(joint), rel=1e-5)


def test_the_numbers_worth_watching_are_those_of_the_matrix() -> None:
    method = prepared("forward")
    assert method.metrics() == {"T_condition": 1.0, "T_diagonal": 1.0}
    method.set_transition(torch.tensor(SOME_NOISE))
    found = method.metrics()
    assert found["T_condition"] == pytest.approx(np.linalg.cond(np.array(SOME_NOISE)), rel=1e-5)
    assert found["T_diagonal"] == pytest.approx(0.7)
    method.set_transition(torch.full((3, 3), 1 / 3))
    assert method.metrics()["T_condition"] == 1e9, "a file of metrics knows no infinity"


# --- Matrices that are given ----------------------------------------------------------------------------------------


def test_a_matrix_comes_as_rows_or_as_a_file(tmp_path: Path) -> None:
    expected = torch.tensor(SOME_NOISE, dtype=torch.float64)
    np.save(tmp_path / "T.npy", np.array(SOME_NOISE))
    np.savetxt(tmp_path / "T.csv", np.array(SOME_NOISE), delimiter=",")
    for given in (SOME_NOISE, str(tmp_path / "T.npy"), str(tmp_path / "T.csv")):
        torch.testing.assert_close(read_transition(given, 3), expected)
    recipe = load_recipe("tiny/digits", {"method.name": "forward", "method.T": str(tmp_path / "T.npy")})
    assert find_method("forward").build(**recipe.method.settings).given_T == str(tmp_path / "T.npy")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], "must have 3 rows and columns, one for each class; it is 2 x 2"),
        ([[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.0, 0.0, 1.0]], "sum to one; row 1 does not"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.5, 0.5, 1.0]], "sum to one; row 2 does not"),
        ([[math.nan] * 3] * 3, "sum to one; row 0 does not"),
        ([[1.0, 0.0], [0.0, 1.0, 0.0], [1.0]], "cannot be read"),
        ("nowhere.npy", "nowhere.npy cannot be read: .*No such file"),
        ("T.txt", "T.txt cannot be read: it must be a .npy or a .csv file"),
    ],
)
def test_a_matrix_that_is_none_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepared("forward", T=given)


def test_backward_refuses_a_given_matrix_without_inverse_and_survives_an_estimated_one() -> None:
    same = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(ValueError, match="cannot be inverted"):
        prepared("backward", T=same)
    method = prepared("backward")
    method.set_transition(torch.tensor(same))
    assert method.inverse.abs().max() <= 1 + 1e-6
    prepared("forward", T=same)


@pytest.mark.parametrize("quantile", [0.0, -1.0, 1.5])
@ALL
def test_a_quantile_that_is_none_is_refused(name: str, quantile: float) -> None:
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\]"):
        find_method(name).build(quantile=quantile)
