"""M-correction: schedule, mixture posterior, and the loss of each variant."""

import copy
import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from permll.data import Batch
from permll.data.transforms import mixup
from permll.functional.mixture import fit_beta_mixture
from permll.methods import METHODS
from permll.methods.m_correction import MCorrection
from permll.training.trainer import Trainer
from tests.helpers.method_training import loss_names, noisy_points, slow_softmax
from tests.helpers.toy_training import build_trainer, do_nothing, points

VARIANTS = ["M-DYR-H", "M-DYR-S", "MD-DYR-SH"]
MIXTURE = [[2.0, 6.0], [9.0, 3.0], [0.7, 0.3], [0.1, 2.5]]  # a, b, weights, range of losses


def fitted_method(variant: str) -> tuple[Trainer, MCorrection, Batch]:
    """Return a method with a mixture and a linear network, whose outputs do not depend on the mode, and a batch."""
    trainer = build_trainer("m_correction", points(), {"variant": variant, "mixup": 2.0, "eta": 0.5}, epochs=20)
    method = trainer.method
    assert isinstance(method, MCorrection)
    method.networks["net"] = nn.Linear(4, 3)
    method.mixture.copy_(torch.tensor(MIXTURE))
    index = torch.tensor([5, 9, 30, 2, 11])
    return trainer, method, Batch(index, trainer.data.labels[index], {"weak": torch.randn(5, 4)}, torch.arange(5))


def slow_wrong_prob(loss: float) -> float:
    """Return w of a loss; the odds of this mixture are monotone."""
    (a0, a1), (b0, b1), (w0, w1), (low, high) = MIXTURE
    x = min(max((loss - low) / (high - low + 1e-6), 1e-3), 1 - 1e-3)
    lower, upper = w0 * stats.beta.pdf(x, a0, b0), w1 * stats.beta.pdf(x, a1, b1)
    return min(max(upper / (lower + upper), 1e-4), 1 - 1e-4)


# Schedule


def test_m_correction_loss_schedule() -> None:
    for variant in ("M-DYR-H", "M-DYR-S"):
        trainer = build_trainer("m_correction", points(), {"variant": variant}, epochs=20)
        assert loss_names(trainer, 20) == ["loss"] * 7 + ["corrected_loss"] * 13
    trainer = build_trainer("m_correction", points(), {"variant": "MD-DYR-SH", "guided": 3}, epochs=20)
    assert loss_names(trainer, 20) == ["loss"] * 7 + ["guided_loss"] * 3 + ["corrected_loss"] * 10
    assert len(trainer.stages.plan) == 1, "one optimizer and one schedule"


def test_m_correction_temperature_schedule() -> None:
    settings = {"variant": "MD-DYR-SH", "warm_up": 2, "guided": 1, "sharpening": 5}
    trainer = build_trainer("m_correction", points(), settings, epochs=12)
    actual = []
    for epoch in range(12):
        trainer.method.train_pass(epoch, 0, trainer.predict_logits)
        actual.append(trainer.method.temperature.item())
    assert actual[:3] == [1.0] * 3
    assert actual[3:] == pytest.approx([*torch.linspace(1, 0.001, 5).tolist(), *[0.001] * 4])


def test_m_correction_fits_mixture_after_epoch() -> None:
    trainer = build_trainer("m_correction", points(240), {"warm_up": 2}, epochs=4)
    logits = 2 * torch.randn(240, 3)

    def predict_logits(network: str = "net", *, best: bool = False, view: str = "plain") -> Tensor:
        assert (network, best, view) == ("net", False, "weak")
        return logits

    before = trainer.method.mixture.clone()
    trainer.method.on_epoch_end(0, predict_logits)
    assert torch.equal(trainer.method.mixture, before), "not fitted in the warm-up"
    trainer.method.on_epoch_end(1, predict_logits)
    losses = sorted(
        -math.log(slow_softmax(row)[y]) for row, y in zip(logits.tolist(), trainer.data.labels.tolist(), strict=True)
    )
    position = 0.05 * 239  # between the twelfth loss and the next
    low = losses[11] + (position - 11) * (losses[12] - losses[11])
    high = losses[-12] - (position - 11) * (losses[-12] - losses[-13])
    kept = [(loss - low) / (high - low + 1e-6) for loss in losses if low <= loss <= high]
    expected = fit_beta_mixture(torch.tensor([min(max(x, 1e-3), 1 - 1e-3) for x in kept], dtype=torch.float64))
    assert expected is not None
    torch.testing.assert_close(trainer.method.mixture[:3], torch.stack([*expected]).float(), rtol=1e-4, atol=1e-5)
    assert trainer.method.mixture[3].tolist() == pytest.approx([low, high], rel=1e-5)
    assert trainer.method.metrics()["wrong"] == pytest.approx(expected.weight[1].item(), rel=1e-4)


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_m_correction_failed_fit_keeps_mixture(bad: float) -> None:
    trainer, method, _ = fitted_method("M-DYR-H")
    flat = torch.full((60, 3), bad)
    method.on_epoch_end(19, lambda **_: flat)  # type: ignore[arg-type]
    assert method.mixture.tolist() == torch.tensor(MIXTURE).tolist()
    none = build_trainer("m_correction", points(), epochs=20).method
    none.on_epoch_end(19, lambda **_: flat)
    none.networks["net"] = nn.Linear(4, 3)
    batch = Batch(torch.arange(4), trainer.data.labels[:4], {"weak": torch.randn(4, 4)}, torch.arange(4))
    assert none._wrong_probs(batch).tolist() == pytest.approx([1e-4] * 4), "without a mixture no label is wrong"
    assert bool(none.corrected_loss(batch).isfinite().all())


# Posterior


def test_m_correction_posterior_has_no_side_effects() -> None:
    trainer = build_trainer("m_correction", points(), epochs=6)
    trainer.method.mixture.copy_(torch.tensor(MIXTURE))
    trainer.method.train()
    net = trainer.method.networks["net"]
    index = torch.arange(8)
    batch = Batch(index, trainer.data.labels[index], {"weak": torch.randn(8, 4)}, index)
    before, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    wrong = trainer.method._wrong_probs(batch)
    assert torch.equal(torch.get_rng_state(), random), "no dropout"
    assert all(module.training for module in net.modules())
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key])
    net.eval()
    losses = nn.functional.cross_entropy(net(batch.x), batch.labels, reduction="none").tolist()
    assert wrong.tolist() == pytest.approx([slow_wrong_prob(loss) for loss in losses], rel=1e-4)
    assert not wrong.requires_grad


def test_m_correction_restores_mode_after_error() -> None:
    _, method, batch = fitted_method("M-DYR-H")
    method.train()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        method._wrong_probs(Batch(batch.index, batch.labels, {"weak": torch.randn(5, 9)}, batch.keys))
    assert method.networks["net"].training


@pytest.mark.parametrize("variant", VARIANTS)
def test_m_correction_corrected_labels_match_loops(variant: str) -> None:
    trainer, method, _ = fitted_method(variant)
    method.temperature.fill_(0.5)
    logits = 2 * torch.randn(60, 3)
    corrected, quality = method.corrected_labels(lambda: logits), method.label_quality(lambda: logits)  # type: ignore[arg-type]
    for i, (row, y) in enumerate(zip(logits.tolist(), trainer.data.labels.tolist(), strict=True)):
        w = slow_wrong_prob(-math.log(slow_softmax(row)[y]))
        assert quality[i].item() == pytest.approx(1 - w, rel=1e-3, abs=1e-5)
        t = [float(v == max(row)) for v in row] if variant == "M-DYR-H" else slow_softmax(row, 0.5)
        for k in range(3):
            assert corrected[i, k].item() == pytest.approx((1 - w) * (k == y) + w * t[k], rel=1e-3, abs=1e-5)


def test_m_correction_warm_up_labels_are_predictions() -> None:
    trainer = build_trainer("m_correction", points(), epochs=20)
    p = trainer.predict_logits().softmax(1)
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), p)
    assert torch.equal(
        trainer.method.label_quality(trainer.predict_logits), p.gather(1, trainer.data.labels[:, None])[:, 0]
    )


# Losses


@pytest.mark.parametrize("stage", ["loss", "guided_loss"])
def test_m_correction_mixup_loss_matches_loops(stage: str) -> None:
    _, method, batch = fitted_method("MD-DYR-SH")
    net, mix = method.networks["net"], mixup(batch.keys, 2.0)
    outputs, labels, weight = net(batch.x).tolist(), batch.labels.tolist(), mix.lam[0].item()
    actual = getattr(method, stage)(batch).tolist()
    for i, j in enumerate(mix.partner.tolist()):
        input_weight = weight
        if stage == "guided_loss":
            right = [1 - slow_wrong_prob(-math.log(slow_softmax(outputs[n])[labels[n]])) for n in (i, j)]
            input_weight = right[0] / sum(right)
        p = slow_softmax(net(input_weight * batch.x[i] + (1 - input_weight) * batch.x[j]).tolist())
        assert actual[i] == pytest.approx(
            -weight * math.log(p[labels[i]]) - (1 - weight) * math.log(p[labels[j]]), rel=1e-4
        )


@pytest.mark.parametrize("variant", VARIANTS)
def test_m_correction_corrected_loss_matches_loops(variant: str) -> None:
    _, method, batch = fitted_method(variant)
    method.temperature.fill_(0.4 if variant == "MD-DYR-SH" else 1.0)
    net, mix = method.networks["net"], mixup(batch.keys, 2.0)
    outputs, labels, weight = net(batch.x).tolist(), batch.labels.tolist(), mix.lam[0].item()
    wrong = [slow_wrong_prob(-math.log(slow_softmax(row)[y])) for row, y in zip(outputs, labels, strict=True)]
    losses, predictions = [], []
    for i, j in enumerate(mix.partner.tolist()):
        input_weight, target_weight = weight, weight
        if variant == "MD-DYR-SH":
            input_weight, target_weight = (1 - wrong[i]) / ((1 - wrong[i]) + (1 - wrong[j])), 0.5
        p = slow_softmax(net(input_weight * batch.x[i] + (1 - input_weight) * batch.x[j]).tolist())
        predictions.append(p)
        loss = 0.0
        for part, n in ((target_weight, i), (1 - target_weight, j)):
            if variant == "M-DYR-H":
                prediction_loss = -math.log(p[outputs[n].index(max(outputs[n]))])
            else:
                t = slow_softmax(outputs[n], method.temperature.item())
                prediction_loss = -sum(t[k] * math.log(p[k]) for k in range(3))
            loss += part * ((1 - wrong[n]) * -math.log(p[labels[n]]) + wrong[n] * prediction_loss)
        losses.append(loss)
    mean = [sum(p[k] for p in predictions) / 5 for k in range(3)]
    penalty = sum(math.log(1 / 3 / m) / 3 for m in mean)
    assert method.corrected_loss(batch).tolist() == pytest.approx([loss + 0.5 * penalty for loss in losses], rel=1e-4)


def test_m_correction_targets_have_no_gradient() -> None:
    _, method, batch = fitted_method("M-DYR-S")
    net, mix = method.networks["net"], mixup(batch.keys, 2.0)
    with torch.no_grad():
        p, w = net(batch.x).softmax(1), method._wrong_probs(batch)[:, None]
        targets = (1 - w) * nn.functional.one_hot(batch.labels, 3) + w * p
    method.eta = 0.0
    method.corrected_loss(batch).sum().backward()
    blended = mix(batch.x)
    expected = (net(blended).softmax(1) - mix(targets)).T @ blended
    torch.testing.assert_close(net.weight.grad, expected.detach(), rtol=1e-4, atol=1e-5)


# Training


@pytest.mark.parametrize("variant", VARIANTS)
def test_m_correction_corrects_wrong_labels(variant: str) -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("m_correction", data, {"variant": variant}, epochs=24)
    trainer.run(do_nothing, do_nothing)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.1
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.3
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "M-DYR"}, "the setting variant of m_correction"),
        ({"mixup": 0}, "mixup must lie"),
        ({"eta": -1}, "eta must lie"),
    ],
)
def test_m_correction_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["m_correction"].build(**settings)
