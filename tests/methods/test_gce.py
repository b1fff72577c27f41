"""Generalized cross-entropy, and pruning: when, which samples, by which weights."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from permll.data import Batch
from permll.functional.robust_losses import truncated_gce_mask
from permll.methods import FitInfo, find_method
from permll.methods.gce import TruncatedGCE
from tests.helpers.method_training import assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps

NAMES = ("a", "b", "c", "d")


def truncated(labels: Tensor, epochs: int = 120, **settings: float) -> TruncatedGCE:
    method = TruncatedGCE(**settings)
    method.on_fit_start(FitInfo(labels, NAMES[: len(labels)], 3, epochs, 4))
    return method


def fake_predictions(probabilities: list[list[float]], calls: list[bool]) -> Any:
    def predict_logits(network: str = "net", *, best: bool = False, view: str = "plain") -> Tensor:
        calls.append(best)
        return torch.tensor(probabilities).log()

    return predict_logits


def test_gce_training_matches_manual_steps() -> None:
    trainer = build_trainer("gce", points(), {"q": 0.4})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)

    def manual_loss(p: Tensor, batch: Batch) -> Tensor:
        return ((1 - p.gather(1, batch.labels[:, None]) ** 0.4) / 0.4).mean()

    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))


@pytest.mark.parametrize(
    ("epochs", "settings", "expected"),
    [
        (120, {}, [40, 50, 60, 70, 80, 90, 100, 110]),
        (120, {"prune_from": 40, "prune_every": 10}, [40, 50, 60, 70, 80, 90, 100, 110]),
        (40, {}, [13, 16, 19, 22, 25, 28, 31, 34, 37]),
        (6, {}, [2, 3, 4, 5]),
        (5, {"prune_from": 0, "prune_every": 0.01}, [0, 1, 2, 3, 4]),
        (5, {"prune_from": 9}, []),
    ],
)
def test_truncated_gce_prunes_on_schedule(epochs: int, settings: dict[str, float], expected: list[int]) -> None:
    method = truncated(torch.tensor([0, 1]), epochs, **settings)
    calls: list[bool] = []
    predict_logits = fake_predictions([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]], calls)
    pruned_at = []
    for epoch in range(epochs):
        assert method.train_pass(epoch, 0, predict_logits) is not None
        assert method.train_pass(epoch, 1, predict_logits) is None
        pruned_at += [epoch] * len(calls)
        calls.clear()
    assert pruned_at == expected


def test_truncated_gce_prunes_by_best_weights() -> None:
    method = truncated(torch.tensor([0, 1, 2, 0]), prune_from=0, prune_every=1, k=0.5)
    calls: list[bool] = []
    method.train_pass(
        0, 0, fake_predictions([[0.51, 0.4, 0.09], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.4, 0.3, 0.3]], calls)
    )
    assert method.kept.values.tolist() == [True, False, False, False]
    assert method.metrics() == {"kept": 0.25, "refusals": 0.0}
    method.train_pass(
        1, 0, fake_predictions([[0.4, 0.6, 0.0], [0.3, 0.7, 0.0], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]], calls)
    )
    assert method.kept.values.tolist() == [False, True, True, False]
    assert calls == [True, True]


def test_truncated_gce_skips_pruning_of_all_samples() -> None:
    method = truncated(torch.tensor([0, 1]), prune_from=0, prune_every=1)
    method.train_pass(0, 0, fake_predictions([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]], []))
    method.train_pass(1, 0, fake_predictions([[0.2, 0.6, 0.2], [0.6, 0.2, 0.2]], []))
    assert method.kept.values.tolist() == [True, False]
    assert method.metrics() == {"kept": 0.5, "refusals": 1.0}


def test_truncated_gce_prunes_low_probability_labels() -> None:
    data = points()
    wrong = torch.arange(60) % 10 == 0
    trainer = build_trainer(
        "gce_truncated", data.relabel(torch.where(wrong, (data.labels + 1) % 3, data.labels)), epochs=12
    )
    best, kept = [], []
    for _ in trainer.each_epoch():
        kept.append(trainer.method.kept.values.clone())
        best.append(truncated_gce_mask(trainer.predict_logits(best=True), trainer.data.labels))
    assert all(one.all() for one in kept[:4])
    assert all(map(torch.equal, kept[4:], best[3:-1]))  # decided before the epoch, by the best weights so far
    assert (~kept[-1][wrong]).double().mean() > (~kept[-1][~wrong]).double().mean()


@pytest.mark.parametrize(("settings", "message"), [({"q": 1.5}, "q must"), ({"k": 1.0}, "k must")])
def test_truncated_gce_rejects_invalid_loss_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method("gce_truncated").build(**settings)


@pytest.mark.parametrize("settings", [{"prune_from": -1.0}, {"prune_every": 0.0}])
def test_truncated_gce_rejects_invalid_schedule(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must lie"):
        find_method("gce_truncated").build(**settings)


def test_truncated_gce_pruned_samples_have_no_gradient() -> None:
    trainer = build_trainer("gce_truncated", points(), {"prune_from": 9}, epochs=2)
    trainer.method.kept.values.fill_(False)
    before = copy.deepcopy(trainer.method.networks["net"].module)
    trainer.run(do_nothing, do_nothing)
    assert_weights_close(trainer.method.networks["net"].module, before)
