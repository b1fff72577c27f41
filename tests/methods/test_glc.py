"""GLC: training on untrusted samples, matrix from trusted ones, then training on both."""

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
from tests.helpers.method_training import assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps

EPOCHS = 8


def trusted_rows(data: LabeledData) -> Tensor:
    """Return the mask of samples that ``build_trainer`` marks as trusted."""
    return torch.arange(len(data)) % 5 < 2


def flip_untrusted(data: LabeledData) -> LabeledData:
    """Return the points with three of four untrusted labels 0 changed to 1."""
    untrusted = ((data.labels == 0) & ~trusted_rows(data)).nonzero()[:, 0]
    labels = data.labels.clone()
    labels[untrusted[torch.arange(len(untrusted)) % 4 != 0]] = 1
    return data.relabel(labels)


def prepared_glc(trusted: list[bool] | None, labels: tuple[int, ...] = (0, 1, 2, 0, 1, 2)) -> Any:
    method = find_method("glc").build()
    mask = None if trusted is None else torch.tensor(trusted)
    method.on_fit_start(FitInfo(torch.tensor(labels), tuple("abcdef"), 3, EPOCHS, 4, trusted=mask))
    return method


def end_of_first_stage(trainer: Trainer) -> None:
    for epoch, _ in enumerate(trainer.each_epoch(), start=1):
        if epoch == EPOCHS // 2:
            return


def test_glc_first_stage_uses_untrusted_samples() -> None:
    trainer = build_trainer("glc", points(), epochs=EPOCHS)
    recorded = record_batches(trainer)
    end_of_first_stage(trainer)
    untrusted = (~trusted_rows(trainer.data)).nonzero()[:, 0]
    batches_per_epoch = len(recorded) // (EPOCHS // 2)
    first = torch.cat([batch.index for batch, *_ in recorded[:batches_per_epoch]])
    assert torch.equal(first.sort().values, untrusted)
    assert set(torch.cat([batch.index for batch, *_ in recorded]).tolist()) == set(untrusted.tolist())
    recorded.clear()
    run_steps(trainer, trainer.steps_per_epoch)
    assert torch.equal(torch.cat([batch.index for batch, *_ in recorded]).sort().values, torch.arange(60))


def test_glc_matrix_is_mean_prediction_of_trusted_samples() -> None:
    trainer = build_trainer("glc", flip_untrusted(points()), epochs=EPOCHS)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    end_of_first_stage(trainer)
    assert torch.equal(trainer.method.T, torch.eye(3))
    p, trusted = trainer.predict_logits().softmax(-1), trusted_rows(trainer.data)
    expected = torch.stack([p[trusted & (trainer.data.labels == i)].mean(0) for i in range(3)])
    recorded = record_batches(trainer)
    run_steps(trainer, 6)
    torch.testing.assert_close(trainer.method.T, expected)

    def manual_loss(p: Tensor, batch: Batch) -> Tensor:
        losses = []
        for b, (row, y) in enumerate(zip(batch.index.tolist(), batch.labels.tolist(), strict=True)):
            losses.append(-(p[b, y] if trusted[row] else p[b] @ expected[:, y]).log())
        return torch.stack(losses).mean()

    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))


def test_glc_recovers_mostly_mislabeled_class() -> None:
    clean = points(120)
    trainer = build_trainer("glc", flip_untrusted(clean), epochs=16)
    trainer.run(do_nothing, do_nothing)
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
        (None, "glc needs trusted samples, and there are none: set data.trusted"),
        ([False] * 6, "glc needs trusted samples, and there are none: set data.trusted"),
        (
            [True, False, False, True, False, False],
            r"trusted samples of every class, and there are none of 2 classes \(number 1, number 2\): set data.trusted",
        ),
        ([True] * 6, "all samples are trusted, so there is nothing to correct: train with ce"),
    ],
)
def test_glc_rejects_missing_trusted_samples(trusted: list[bool] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepared_glc(trusted)


def test_glc_recipes_set_trusted_samples(tmp_path: Any) -> None:
    for name in ("tiny/digits", "mini/sym-60", "lite/cifar10-sym-40", "paper/cifar100-asym-40"):
        assert load_recipe(name, {"method.name": "glc"}).data.trusted == 0.05
        assert load_recipe(name, {"method.name": "ce"}).data.trusted is None
    run = train(method="glc", recipe="tiny/digits", epochs=2, out=tmp_path / "run", overrides={"network.widths": [16]})
    assert run.finished
    with pytest.raises(ValueError, match=r"set data\.trusted"):
        train(points(), "glc", epochs=2, out=tmp_path / "own")
