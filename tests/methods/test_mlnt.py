"""MLNT: who moves when, how the teacher follows, and that its steps are those on paper."""

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from permll.methods import find_method
from permll.training.trainer import Trainer
from tests.functional.test_meta import imagined_gradient
from tests.helpers.toy_training import build_trainer, points, small_net
from tests.methods.test_contract import idle
from tests.methods.test_goldberger import STEPS, loop_of, watch


def weights(trainer: Trainer, name: str) -> dict[str, Tensor]:
    return copy.deepcopy(trainer.method.networks[name].module.state_dict())


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())


def steps_of(trainer: Trainer) -> list[dict[str, dict[str, Tensor]]]:
    """Train to the end; return the weights of all three networks after every step, those of the beginning first."""
    seen = [{name: weights(trainer, name) for name in trainer.method.network_names}]

    def after_step(trainer: Trainer) -> None:
        seen.append({name: weights(trainer, name) for name in trainer.method.network_names})

    trainer.run(after_step, idle)
    return seen


def test_first_the_mentor_moves_then_the_student_alone() -> None:
    trainer = build_trainer("mlnt", points(), {"baseline": 2, "perturbations": 1}, epochs=4)
    best: list[dict[str, Tensor]] = []
    real = trainer.stages.keep_if_best

    def keep_if_best(score: float) -> None:
        real(score)
        assert trainer.stages.best is not None
        best.append(copy.deepcopy(trainer.stages.best["networks"]["mentor"]))

    trainer.stages.keep_if_best = keep_if_best  # type: ignore[method-assign]
    seen = steps_of(trainer)
    mentor, student = seen[: 2 * STEPS + 1], seen[2 * STEPS + 1 :]
    assert len(student) == 2 * STEPS
    for before, after in itertools.pairwise(mentor):
        assert not same(before["mentor"], after["mentor"])
        assert same(before["net"], after["net"])
        assert same(after["teacher"], after["mentor"]), "it is a copy of whoever is trained"
    for step in student:
        assert same(step["mentor"], best[1]), "the best weights of the mentor, statistics of batch norms included"
    for before, after in itertools.pairwise([mentor[-1], *student]):
        assert not same(before["net"], after["net"])


def test_the_teacher_is_a_copy_then_a_mean_then_follows_by_its_decays() -> None:
    settings = {"baseline": 1, "perturbations": 1, "begin": 0.1, "full": 0.5, "decay": 0.8, "final_decay": 0.95}
    trainer = build_trainer("mlnt", points(), settings, epochs=11)
    seen = steps_of(trainer)
    student = seen[STEPS + 1 :]
    assert len(student) == 40  # so that the teacher begins after 4 and follows with its final decay from the 21st on
    trained = [name for name, _ in trainer.method.networks["net"].module.named_parameters()]
    for step in student[:4]:
        assert same(step["teacher"], step["net"])
    teacher = student[3]["teacher"]
    for number, step in enumerate(student[4:], start=5):
        taken = number - 4
        decay = min(0.8 if number <= 20 else 0.95, taken / (taken + 1))
        for key in trained:
            expected = decay * teacher[key] + (1 - decay) * step["net"][key]
            assert_close(step["teacher"][key], expected, rtol=1e-4, atol=1e-6)
        teacher = step["teacher"]
    mean = torch.stack([step["net"]["0.weight"] for step in student[3:6]]).mean(0)
    assert_close(student[5]["teacher"]["0.weight"], mean)  # a plain mean at first


def test_passes_that_are_imagined_leave_no_trace_in_batch_norms() -> None:
    trainer = build_trainer("mlnt", points(), {"baseline": 1, "perturbations": 3}, epochs=3)
    trainer.run(idle, idle)
    counted = "1.num_batches_tracked"
    assert weights(trainer, "net")[counted] == 2 * STEPS
    assert weights(trainer, "teacher")[counted] == 2 * STEPS, "a copy after one step, one pass of its own in each of 7"
    assert weights(trainer, "mentor")[counted] == STEPS


def test_the_teacher_predicts() -> None:
    trainer = build_trainer("mlnt", points(), {"baseline": 1, "perturbations": 1}, epochs=3)
    trainer.run(idle, idle)
    p = trainer.predict_logits("teacher").softmax(-1)
    assert_close(trainer.predict(trainer.data), p)
    assert_close(trainer.method.corrected_labels(trainer.predict_logits), p)
    assert_close(trainer.method.label_quality(trainer.predict_logits), p[torch.arange(60), trainer.data.labels])
    assert not torch.allclose(p, trainer.predict_logits("net").softmax(-1))


# --- The steps, by hand ---------------------------------------------------------------------------------------------


def perturbed(x: Tensor, labels: Tensor, share: float, k: int) -> Tensor:
    """Return synthetic labels, one sample after the other."""
    rows = torch.randperm(len(x))[: int(share * len(x))].tolist()
    picks = torch.randint(k, (len(rows),)).tolist()
    found = labels.clone()
    for row, pick in zip(rows, picks, strict=True):
        others = sorted((j for j in range(len(x)) if j != row), key=lambda j: (x[row] - x[j]).square().sum().item())
        found[row] = labels[others[pick]]
    return found


@pytest.mark.parametrize("second_order", [False, True])
def test_steps_of_the_student_are_those_on_paper(second_order: bool) -> None:
    settings: dict[str, Any] = {"baseline": 1, "perturbations": 3, "share": 0.4, "neighbors": 5, "meta_lr": 0.8}
    settings |= {"weight": 2.5, "begin": 0.1, "full": 0.6, "decay": 0.7, "final_decay": 0.9}
    trainer = loop_of("mlnt", lambda: nn.Linear(4, 3, bias=False), second_order=second_order, **settings)
    student = nn.Parameter(weights(trainer, "net")["weight"])
    seen = watch(trainer, lambda: None)
    trainer.run(idle, idle)
    assert len(seen) == 3 * STEPS
    optimizer = torch.optim.SGD([student], lr=0.05, momentum=0.9)
    begin, full = 2, 0.6 * 12  # of 12 steps
    teacher = student.detach().clone()
    for step, (batch, random, _) in enumerate(seen):
        x, labels = batch.x, batch.labels
        W = student.detach()
        gradient = ((x @ W.T).softmax(1) - nn.functional.one_hot(labels, 3)).T @ x / len(x)
        if step >= begin:
            torch.set_rng_state(random)
            q = (x @ teacher.T).softmax(1)
            ramp = torch.tensor(-5 * (1 - min((step - begin) / (full - begin), 1)) ** 2).exp()
            for _ in range(3):
                synthetic = perturbed(x, labels, 0.4, 5)
                gradient = gradient + 2.5 * ramp / 3 * imagined_gradient(W, x, synthetic, q, 0.8, second_order)
        student.grad = gradient
        optimizer.step()
        taken = step + 1 - begin
        decay = 0 if taken <= 0 else min(0.7 if step + 1 <= full else 0.9, taken / (taken + 1))
        teacher = decay * teacher + (1 - decay) * student.detach()
    assert_close(weights(trainer, "net")["weight"], student.detach(), rtol=1e-4, atol=1e-5)
    assert_close(weights(trainer, "teacher")["weight"], teacher, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
@pytest.mark.parametrize("second_order", [False, True])
def test_steps_are_imagined_in_any_precision(precision: str, second_order: bool) -> None:
    settings: dict[str, Any] = {"baseline": 1, "perturbations": 1, "second_order": second_order}
    trainer = loop_of("mlnt", lambda: small_net(4, 3), precision, **settings)
    trainer.run(idle, idle)
    assert (trainer.predict(trainer.data).argmax(1) == trainer.data.labels).float().mean() > 0.7


def test_a_batch_of_one_has_no_neighbours_and_keeps_its_label() -> None:
    method = find_method("mlnt").build()
    assert method._perturbed(torch.tensor([2]), torch.empty(1, 0, dtype=torch.int64)).tolist() == [2]


@pytest.mark.parametrize(
    "settings",
    [{"perturbations": 0}, {"neighbors": 0}, {"share": 1.5}, {"decay": -0.1}, {"final_decay": 2}, {"begin": 0.5}],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        find_method("mlnt").build(**settings)
