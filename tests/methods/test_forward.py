"""Forward, backward and Dual-T: estimation of the matrix, corrected losses and labels."""

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
from tests.helpers.method_training import assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps, small_net

ALL = pytest.mark.parametrize("name", ["forward", "backward", "dual_t"])
MOSTLY_0_TO_1 = [[0.4, 0.6, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
NOISE_MATRIX = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]]


def flip_most_of_class_0(data: LabeledData) -> LabeledData:
    """Return the points with three of five labels 0 changed to 1."""
    zeros = (data.labels == 0).nonzero()[:, 0]
    labels = data.labels.clone()
    labels[zeros[torch.arange(len(zeros)) % 5 < 3]] = 1
    return data.relabel(labels)


def prepared_forward(name: str, labels: tuple[int, ...] = (0, 1, 2, 0), **settings: Any) -> Any:
    """Return a method after ``on_fit_start`` on samples of three classes."""
    method = find_method(name).build(**settings)
    method.on_fit_start(FitInfo(torch.tensor(labels), tuple("abcd"[: len(labels)]), 3, 10, 4))
    return method


# Stages


@ALL
def test_forward_estimates_matrix_from_best_network(name: str) -> None:
    trainer = build_trainer(name, flip_most_of_class_0(points()), {"estimate": 0.5, "quantile": 0.9}, epochs=8)
    run_steps(trainer, 16)  # four epochs, up to the last step of the first stage
    assert torch.equal(trainer.method.T, torch.eye(3))
    for _ in trainer.each_epoch():
        break  # the end of the epoch, the last candidate for the best weights
    p = trainer.predict_logits(best=True).softmax(-1)
    expected = dual_transition(p, trainer.data.labels, 0.9) if name == "dual_t" else anchor_transition(p, 0.9)
    initial_weights: list[Tensor] = []
    loss = trainer.method.loss

    def recording_loss(batch: Batch) -> Tensor:
        initial_weights.append(torch.cat([value.detach().flatten() for value in trainer.method.networks.parameters()]))
        return loss(batch)

    trainer.method.loss = recording_loss
    run_steps(trainer, 1)
    torch.testing.assert_close(trainer.method.T, expected.float())
    fresh = small_net(4, 3)  # without a function that builds networks, the initial weights are used
    assert torch.equal(initial_weights[0], torch.cat([value.detach().flatten() for value in fresh.parameters()]))
    if name == "backward":
        identity = trainer.method.T.double() @ trainer.method.inverse.double()
        torch.testing.assert_close(identity, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_forward_with_given_matrix_has_one_stage(name: str) -> None:
    method = prepared_forward(name, T=NOISE_MATRIX)
    assert [(stage.name, stage.epochs, stage.weights) for stage in method.stages(10)] == [("correct", 10, "last")]
    torch.testing.assert_close(method.T, torch.tensor(NOISE_MATRIX))
    assert [stage.weights for stage in prepared_forward(name).stages(10)] == ["last", "fresh"]


@ALL
def test_forward_first_stage_is_cross_entropy(name: str) -> None:
    trainers = [build_trainer(one, points(), epochs=8) for one in (name, "ce")]
    for trainer in trainers:
        torch.manual_seed(5)
        trainer.stages._schedule = {"kind": "constant"}
        run_steps(trainer, 6)
    assert_weights_close(*(trainer.method.networks["net"] for trainer in trainers))


# Training


def manual_forward_loss(p: Tensor, batch: Batch) -> Tensor:
    T = torch.tensor(NOISE_MATRIX)
    source = torch.stack(
        [sum((p[b, i] * T[i, y] for i in range(3)), torch.zeros(())) for b, y in enumerate(batch.labels)]
    )
    return -source.log().mean()


def manual_backward_loss(p: Tensor, batch: Batch) -> Tensor:
    inverse = torch.tensor(np.linalg.inv(np.array(NOISE_MATRIX)), dtype=torch.float32)
    return -torch.stack([(inverse[y] * p[b].log()).sum() for b, y in enumerate(batch.labels)]).mean()


@pytest.mark.parametrize(
    ("name", "manual_loss"), [("forward", manual_forward_loss), ("backward", manual_backward_loss)]
)
def test_forward_training_matches_manual_steps(name: str, manual_loss: Any) -> None:
    trainer = build_trainer(name, points(), {"T": NOISE_MATRIX})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)
    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))


def accuracy(trainer: Trainer, clean: Tensor) -> float:
    trainer.run(do_nothing, do_nothing)
    return (trainer.predict(trainer.data).argmax(1) == clean).double().mean().item()


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_forward_recovers_mostly_mislabeled_class(name: str) -> None:
    clean = points(120)
    assert accuracy(build_trainer("ce", flip_most_of_class_0(clean), epochs=12), clean.labels) < 0.75
    trainer = build_trainer(name, flip_most_of_class_0(clean), {"T": MOSTLY_0_TO_1}, epochs=12)
    assert accuracy(trainer, clean.labels) > 0.95
    corrected, quality = (
        trainer.method.corrected_labels(trainer.predict_logits),
        trainer.method.label_quality(trainer.predict_logits),
    )
    wrong = flip_most_of_class_0(clean).labels != clean.labels
    assert (corrected.argmax(1) == clean.labels).double().mean() > 0.95
    assert quality[wrong].max() < quality[~wrong & (clean.labels == 0)].min()


# Score


@pytest.mark.parametrize("T", [None, NOISE_MATRIX])
def test_forward_score_is_corrected_validation_loss(T: Any) -> None:
    method = prepared_forward("forward", T=T)
    p, labels = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]), torch.tensor([1, 2])
    matrix = torch.eye(3) if T is None else torch.tensor(T)
    expected = sum(math.log(sum(p[b, i] * matrix[i, y] for i in range(3))) for b, y in enumerate(labels)) / 2
    assert method.score(p, labels) == pytest.approx(float(expected), rel=1e-5)
    certain = torch.tensor([[1.0, 0.0, 0.0]])
    assert method.score(certain, torch.tensor([1])) > -math.inf


def test_backward_score_is_corrected_validation_loss() -> None:
    method = prepared_forward("backward", T=NOISE_MATRIX)
    p, labels = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]), torch.tensor([1, 2])
    inverse = np.linalg.inv(np.array(NOISE_MATRIX))
    expected = sum(inverse[y, k] * math.log(p[b, k]) for b, y in enumerate(labels) for k in range(3)) / 2
    assert method.score(p, labels) == pytest.approx(expected, rel=1e-5)
    assert math.isfinite(method.score(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0])))


def test_dual_t_score_is_noisy_accuracy() -> None:
    method = prepared_forward("dual_t")
    p, labels = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([1, 2])
    assert method.score(p, labels) == 0.5
    method.set_transition(torch.tensor(MOSTLY_0_TO_1))
    assert method.score(p, labels) == 1.0


# Corrected labels


def test_forward_corrected_labels_are_posterior() -> None:
    method = prepared_forward("forward")
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    p = logits.softmax(-1)
    torch.testing.assert_close(method.corrected_labels(lambda: logits), p)
    T = torch.tensor(NOISE_MATRIX)
    method.set_transition(T)
    corrected, quality = method.corrected_labels(lambda: logits), method.label_quality(lambda: logits)
    for b, y in enumerate((0, 1, 2, 0)):
        joint = [float(p[b, i] * T[i, y]) for i in range(3)]
        assert corrected[b].tolist() == pytest.approx([one / sum(joint) for one in joint], rel=1e-5)
        assert quality[b].item() == pytest.approx(joint[y] / sum(joint), rel=1e-5)


def test_forward_metrics_describe_matrix() -> None:
    method = prepared_forward("forward")
    assert method.metrics() == {"T_condition": 1.0, "T_diagonal": 1.0}
    method.set_transition(torch.tensor(NOISE_MATRIX))
    actual = method.metrics()
    assert actual["T_condition"] == pytest.approx(np.linalg.cond(np.array(NOISE_MATRIX)), rel=1e-5)
    assert actual["T_diagonal"] == pytest.approx(0.7)
    method.set_transition(torch.full((3, 3), 1 / 3))
    assert method.metrics()["T_condition"] == 1e9, "JSON has no infinity"


# Given matrices


def test_transition_is_read_from_lists_and_files(tmp_path: Path) -> None:
    expected = torch.tensor(NOISE_MATRIX, dtype=torch.float64)
    np.save(tmp_path / "T.npy", np.array(NOISE_MATRIX))
    np.savetxt(tmp_path / "T.csv", np.array(NOISE_MATRIX), delimiter=",")
    for source in (NOISE_MATRIX, str(tmp_path / "T.npy"), str(tmp_path / "T.csv")):
        torch.testing.assert_close(read_transition(source, 3), expected)
    recipe = load_recipe("tiny/digits", {"method.name": "forward", "method.T": str(tmp_path / "T.npy")})
    assert find_method("forward").build(**recipe.method.settings).given_T == str(tmp_path / "T.npy")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], "must have 3 rows and columns, one per class; it is 2 x 2"),
        ([[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.0, 0.0, 1.0]], "sum to one; row 1 does not"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.5, 0.5, 1.0]], "sum to one; row 2 does not"),
        ([[math.nan] * 3] * 3, "sum to one; row 0 does not"),
        ([[1.0, 0.0], [0.0, 1.0, 0.0], [1.0]], "cannot be read"),
        ("nowhere.npy", "nowhere.npy cannot be read: .*No such file"),
        ("T.txt", "T.txt cannot be read: it must be a .npy or a .csv file"),
    ],
)
def test_transition_rejects_invalid_matrices(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepared_forward("forward", T=source)


def test_backward_rejects_singular_matrix() -> None:
    singular = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(ValueError, match="is singular or nearly so: use forward"):
        prepared_forward("backward", T=singular)
    method = prepared_forward("backward")
    method.set_transition(torch.tensor(singular))
    assert method.inverse.abs().max() <= 1 + 1e-6
    prepared_forward("forward", T=singular)


@pytest.mark.parametrize("quantile", [0.0, -1.0, 1.5])
@ALL
def test_forward_rejects_invalid_quantile(name: str, quantile: float) -> None:
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\]"):
        find_method(name).build(quantile=quantile)
