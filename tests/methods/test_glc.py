"""GLC: doubtful rows alone at first, the matrix from trusted ones, then both with the loss that suits each."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from permll.data import Batch, LabeledData
from permll.methods import FitInfo, find_method
from permll.training.recipe_files import load_recipe
from permll.training.train import train
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_bootstrap import assert_same_weights, train_by_hand, watch
from tests.methods.test_contract import idle, run_steps

EPOCHS = 8


def trusted_rows(data: LabeledData) -> Tensor:
    """Return the rows that ``build_trainer`` calls trusted."""
    return torch.arange(len(data)) % 5 < 2


def turned(data: LabeledData) -> LabeledData:
    """Return the points with all doubtful labels 0 turned into 1, but for one in four."""
    doubtful = ((data.labels == 0) & ~trusted_rows(data)).nonzero()[:, 0]
    labels = data.labels.clone()
    labels[doubtful[torch.arange(len(doubtful)) % 4 != 0]] = 1
    return data.relabel(labels)


def prepared(trusted: list[bool] | None, labels: tuple[int, ...] = (0, 1, 2, 0, 1, 2)) -> Any:
    method = find_method("glc").build()
    mask = None if trusted is None else torch.tensor(trusted)
    method.on_fit_start(FitInfo(torch.tensor(labels), tuple("abcdef"), 3, EPOCHS, 4, trusted=mask))
    return method


def end_of_first_stage(trainer: Trainer) -> None:
    for epoch, _ in enumerate(trainer.each_epoch(), start=1):
        if epoch == EPOCHS // 2:
            return


def test_at_first_only_doubtful_rows_are_seen_then_all() -> None:
    trainer = build_trainer("glc", points(), epochs=EPOCHS)
    seen = watch(trainer)
    end_of_first_stage(trainer)
    doubtful = (~trusted_rows(trainer.data)).nonzero()[:, 0]
    for_each_epoch = len(seen) // (EPOCHS // 2)
    first = torch.cat([batch.index for batch, _ in seen[:for_each_epoch]])
    assert torch.equal(first.sort().values, doubtful)
    assert set(torch.cat([batch.index for batch, _ in seen]).tolist()) == set(doubtful.tolist())
    seen.clear()
    run_steps(trainer, trainer.steps_per_epoch)
    assert torch.equal(torch.cat([batch.index for batch, _ in seen]).sort().values, torch.arange(60))


def test_the_matrix_is_the_mean_prediction_for_trusted_rows_and_the_weights_are_the_first() -> None:
    trainer = build_trainer("glc", turned(points()), epochs=EPOCHS)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    end_of_first_stage(trainer)
    assert torch.equal(trainer.method.T, torch.eye(3))
    p, trusted = trainer.predict_logits().softmax(-1), trusted_rows(trainer.data)
    expected = torch.stack([p[trusted & (trainer.data.labels == i)].mean(0) for i in range(3)])
    seen = watch(trainer)
    run_steps(trainer, 6)
    torch.testing.assert_close(trainer.method.T, expected)

    def by_hand(p: Tensor, batch: Batch) -> Tensor:
        losses = []
        for b, (row, y) in enumerate(zip(batch.index.tolist(), batch.labels.tolist(), strict=True)):
            losses.append(-(p[b, y] if trusted[row] else p[b] @ expected[:, y]).log())
        return torch.stack(losses).mean()

    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))


def test_the_class_that_most_labels_hide_is_found() -> None:
    clean = points(120)
    trainer = build_trainer("glc", turned(clean), epochs=16)
    trainer.run(idle, idle)
    assert (trainer.predict(trainer.data).argmax(1) == clean.labels).double().mean() > 0.95
    T = trainer.method.T
    assert T[0, 1] > 0.4
    assert T[1:].diagonal(1).min() > 0.8
    corrected, quality = (
        trainer.method.corrected_labels(trainer.predict_logits),
        trainer.method.label_quality(trainer.predict_logits),
    )
    trusted = trusted_rows(clean)
    assert torch.equal(corrected[trusted], torch.nn.functional.one_hot(clean.labels, 3).float()[trusted])
    assert bool((quality[trusted] == 1).all())
    wrong = trainer.data.labels != clean.labels
    assert quality[wrong].mean() < 0.2 < 0.8 < quality[~wrong].mean()


@pytest.mark.parametrize(
    ("trusted", "message"),
    [
        (None, "glc needs rows whose labels are known to be right, and there are none: data.trusted says"),
        ([False] * 6, "glc needs rows whose labels are known to be right, and there are none: data.trusted says"),
        (
            [True, False, False, True, False, False],
            r"trusted rows of every class, and there are none of 2 classes \(number 1, number 2\): data.trusted says",
        ),
        ([True] * 6, "all rows are trusted, so there is nothing to correct: train with ce"),
    ],
)
def test_without_trusted_rows_it_says_how_to_give_some(trusted: list[bool] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepared(trusted)


def test_its_recipes_keep_some_rows_from_noise(tmp_path: Any) -> None:
    for name in ("tiny/digits", "mini/sym-60", "lite/cifar10-sym-40", "paper/cifar100-asym-40"):
        assert load_recipe(name, {"method.name": "glc"}).data.trusted == 0.05
        assert load_recipe(name, {"method.name": "ce"}).data.trusted is None
    run = train(method="glc", recipe="tiny/digits", epochs=2, out=tmp_path / "run", overrides={"network.widths": [16]})
    assert run.finished
    with pytest.raises(ValueError, match=r"data\.trusted says"):
        train(points(), "glc", epochs=2, out=tmp_path / "own")
