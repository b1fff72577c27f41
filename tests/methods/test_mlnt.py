"""MLNT: trained networks, teacher, and training steps against a manual version."""

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from permll.methods import find_method
from permll.training.trainer import Trainer
from tests.helpers.method_training import STEPS_PER_EPOCH, record_batches, trainer_with_networks
from tests.helpers.toy_training import build_trainer, do_nothing, points, small_net


def weights(trainer: Trainer, name: str) -> dict[str, Tensor]:
    return copy.deepcopy(trainer.method.networks[name].module.state_dict())


def weights_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())


def run_and_record(trainer: Trainer) -> list[dict[str, dict[str, Tensor]]]:
    """Train to the end; return the weights of all networks initially and after every step."""
    recorded = [{name: weights(trainer, name) for name in trainer.method.network_names}]

    def after_step(trainer: Trainer) -> None:
        recorded.append({name: weights(trainer, name) for name in trainer.method.network_names})

    trainer.run(after_step, do_nothing)
    return recorded


def test_mlnt_trains_mentor_then_student() -> None:
    trainer = build_trainer("mlnt", points(), {"baseline": 2, "perturbations": 1}, epochs=4)
    best: list[dict[str, Tensor]] = []
    real = trainer.stages.keep_if_best

    def keep_if_best(score: float) -> None:
        real(score)
        assert trainer.stages.best is not None
        best.append(copy.deepcopy(trainer.stages.best["networks"]["mentor"]))

    trainer.stages.keep_if_best = keep_if_best  # type: ignore[method-assign]
    recorded = run_and_record(trainer)
    mentor, student = recorded[: 2 * STEPS_PER_EPOCH + 1], recorded[2 * STEPS_PER_EPOCH + 1 :]
    assert len(student) == 2 * STEPS_PER_EPOCH
    for before, after in itertools.pairwise(mentor):
        assert not weights_equal(before["mentor"], after["mentor"])
        assert weights_equal(before["net"], after["net"])
        assert weights_equal(after["teacher"], after["mentor"]), "a copy of the trained network"
    for step in student:
        assert weights_equal(step["mentor"], best[1]), "best weights of the mentor, with batch norm statistics"
    for before, after in itertools.pairwise([mentor[-1], *student]):
        assert not weights_equal(before["net"], after["net"])


def test_mlnt_teacher_is_moving_average() -> None:
    settings = {"baseline": 1, "perturbations": 1, "begin": 0.1, "full": 0.5, "decay": 0.8, "final_decay": 0.95}
    trainer = build_trainer("mlnt", points(), settings, epochs=11)
    recorded = run_and_record(trainer)
    student = recorded[STEPS_PER_EPOCH + 1 :]
    assert len(student) == 40  # the average starts after 4 and has its final decay from the 21st on
    trained = [name for name, _ in trainer.method.networks["net"].module.named_parameters()]
    for step in student[:4]:
        assert weights_equal(step["teacher"], step["net"])
    teacher = student[3]["teacher"]
    for number, step in enumerate(student[4:], start=5):
        num_averaged = number - 4
        decay = min(0.8 if number <= 20 else 0.95, num_averaged / (num_averaged + 1))
        for key in trained:
            expected = decay * teacher[key] + (1 - decay) * step["net"][key]
            assert_close(step["teacher"][key], expected, rtol=1e-4, atol=1e-6)
        teacher = step["teacher"]
    mean = torch.stack([step["net"]["0.weight"] for step in student[3:6]]).mean(0)
    assert_close(student[5]["teacher"]["0.weight"], mean)  # a plain mean initially


def test_mlnt_meta_steps_leave_batch_norm_unchanged() -> None:
    trainer = build_trainer("mlnt", points(), {"baseline": 1, "perturbations": 3}, epochs=3)
    trainer.run(do_nothing, do_nothing)
    num_batches = "1.num_batches_tracked"
    assert weights(trainer, "net")[num_batches] == 2 * STEPS_PER_EPOCH
    assert weights(trainer, "teacher")[num_batches] == 2 * STEPS_PER_EPOCH, "copied after one step, 7 passes of its own"
    assert weights(trainer, "mentor")[num_batches] == STEPS_PER_EPOCH


def test_mlnt_teacher_predicts() -> None:
    trainer = build_trainer("mlnt", points(), {"baseline": 1, "perturbations": 1}, epochs=3)
    trainer.run(do_nothing, do_nothing)
    p = trainer.predict_logits("teacher").softmax(-1)
    assert_close(trainer.predict(trainer.data), p)
    assert_close(trainer.method.corrected_labels(trainer.predict_logits), p)
    assert_close(trainer.method.label_quality(trainer.predict_logits), p[torch.arange(60), trainer.data.labels])
    assert not torch.allclose(p, trainer.predict_logits("net").softmax(-1))


# Manual steps


def meta_gradient(W: Tensor, x: Tensor, labels: Tensor, q: Tensor, lr: float, second_order: bool) -> Tensor:
    """Return ∇_W of the mean KL(q ‖ p(W - lr G)), where G = ∇ of the mean CE, for logits x Wᵀ.

    With p the predictions at W and p' those after the step, the first-order gradient is D = (p' - q)ᵀ x / B. The second
    order adds -lr H D, where H D is the change of G along D: the direction D changes the logits by v = x Dᵀ, and p by
    p (v - <p, v>).
    """
    p = (x @ W.T).softmax(1)
    G = (p - nn.functional.one_hot(labels, len(W)).to(p)).T @ x / len(x)
    D = ((x @ (W - lr * G).T).softmax(1) - q).T @ x / len(x)
    if not second_order:
        return D
    v = x @ D.T
    return D - lr * (p * (v - (p * v).sum(1, keepdim=True))).T @ x / len(x)


def perturb_slowly(x: Tensor, labels: Tensor, fraction: float, k: int) -> Tensor:
    """Return synthetic labels, sample by sample."""
    rows = torch.randperm(len(x))[: int(fraction * len(x))].tolist()
    picks = torch.randint(k, (len(rows),)).tolist()
    perturbed = labels.clone()
    for row, pick in zip(rows, picks, strict=True):
        neighbors_ = sorted((j for j in range(len(x)) if j != row), key=lambda j: (x[row] - x[j]).square().sum().item())
        perturbed[row] = labels[neighbors_[pick]]
    return perturbed


@pytest.mark.parametrize("second_order", [False, True])
def test_mlnt_training_matches_manual_steps(second_order: bool) -> None:
    settings: dict[str, Any] = {"baseline": 1, "perturbations": 3, "fraction": 0.4, "neighbors": 5, "meta_lr": 0.8}
    settings |= {"weight": 2.5, "begin": 0.1, "full": 0.6, "decay": 0.7, "final_decay": 0.9}
    trainer = trainer_with_networks("mlnt", lambda: nn.Linear(4, 3, bias=False), second_order=second_order, **settings)
    student = nn.Parameter(weights(trainer, "net")["weight"])
    recorded = record_batches(trainer)
    trainer.run(do_nothing, do_nothing)
    assert len(recorded) == 3 * STEPS_PER_EPOCH
    optimizer = torch.optim.SGD([student], lr=0.05, momentum=0.9)
    begin, full = 2, 0.6 * 12  # of 12 steps
    teacher = student.detach().clone()
    for step, (batch, rng_state, _) in enumerate(recorded):
        x, labels = batch.x, batch.labels
        W = student.detach()
        gradient = ((x @ W.T).softmax(1) - nn.functional.one_hot(labels, 3)).T @ x / len(x)
        if step >= begin:
            torch.set_rng_state(rng_state)
            q = (x @ teacher.T).softmax(1)
            ramp = torch.tensor(-5 * (1 - min((step - begin) / (full - begin), 1)) ** 2).exp()
            for _ in range(3):
                synthetic = perturb_slowly(x, labels, 0.4, 5)
                gradient = gradient + 2.5 * ramp / 3 * meta_gradient(W, x, synthetic, q, 0.8, second_order)
        student.grad = gradient
        optimizer.step()
        num_averaged = step + 1 - begin
        decay = 0 if num_averaged <= 0 else min(0.7 if step + 1 <= full else 0.9, num_averaged / (num_averaged + 1))
        teacher = decay * teacher + (1 - decay) * student.detach()
    assert_close(weights(trainer, "net")["weight"], student.detach(), rtol=1e-4, atol=1e-5)
    assert_close(weights(trainer, "teacher")["weight"], teacher, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
@pytest.mark.parametrize("second_order", [False, True])
def test_mlnt_trains_in_other_precisions(precision: str, second_order: bool) -> None:
    settings: dict[str, Any] = {"baseline": 1, "perturbations": 1, "second_order": second_order}
    trainer = trainer_with_networks("mlnt", lambda: small_net(4, 3), precision, **settings)
    trainer.run(do_nothing, do_nothing)
    assert (trainer.predict(trainer.data).argmax(1) == trainer.data.labels).float().mean() > 0.7


def test_mlnt_single_sample_keeps_label() -> None:
    method = find_method("mlnt").build()
    assert method._perturb_labels(torch.tensor([2]), torch.empty(1, 0, dtype=torch.int64)).tolist() == [2]


@pytest.mark.parametrize(
    "settings",
    [{"perturbations": 0}, {"neighbors": 0}, {"fraction": 1.5}, {"decay": -0.1}, {"final_decay": 2}, {"begin": 0.5}],
)
def test_mlnt_rejects_invalid_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        find_method("mlnt").build(**settings)
