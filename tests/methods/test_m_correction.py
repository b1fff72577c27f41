"""M-correction: which loss an epoch has, what the mixture says of a batch, and each variant's loss by loops."""

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
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle
from tests.methods.test_selc import losses_of, noisy_points

VARIANTS = ["M-DYR-H", "M-DYR-S", "MD-DYR-SH"]
MIXTURE = [[2.0, 6.0], [9.0, 3.0], [0.7, 0.3], [0.1, 2.5]]  # a, b, weights, range of losses


def correcting(variant: str) -> tuple[Trainer, MCorrection, Batch]:
    """Return a method with a mixture and a network that says the same in all modes, and a batch."""
    trainer = build_trainer("m_correction", points(), {"variant": variant, "mixup": 2.0, "eta": 0.5}, epochs=20)
    method = trainer.method
    assert isinstance(method, MCorrection)
    method.networks["net"] = nn.Linear(4, 3)
    method.mixture.copy_(torch.tensor(MIXTURE))
    index = torch.tensor([5, 9, 30, 2, 11])
    return trainer, method, Batch(index, trainer.data.labels[index], {"weak": torch.randn(5, 4)}, torch.arange(5))


def softmax(row: list[float], temperature: float = 1.0) -> list[float]:
    powers = [math.exp((value - max(row)) / temperature) for value in row]
    return [power / sum(powers) for power in powers]


def slow_wrong(loss: float) -> float:
    """Return w of a loss; this mixture's odds rise everywhere."""
    (a0, a1), (b0, b1), (w0, w1), (low, high) = MIXTURE
    x = min(max((loss - low) / (high - low + 1e-6), 1e-3), 1 - 1e-3)
    lower, upper = w0 * stats.beta.pdf(x, a0, b0), w1 * stats.beta.pdf(x, a1, b1)
    return min(max(upper / (lower + upper), 1e-4), 1 - 1e-4)


# --- What happens when ---------------------------------------------------------------------------------------------


def test_every_epoch_has_its_loss() -> None:
    for variant in ("M-DYR-H", "M-DYR-S"):
        trainer = build_trainer("m_correction", points(), {"variant": variant}, epochs=20)
        assert losses_of(trainer, 20) == ["loss"] * 7 + ["correct"] * 13
    trainer = build_trainer("m_correction", points(), {"variant": "MD-DYR-SH", "guided": 3}, epochs=20)
    assert losses_of(trainer, 20) == ["loss"] * 7 + ["guide"] * 3 + ["correct"] * 10
    assert len(trainer.stages.every) == 1, "momentum and schedule go on"


def test_the_temperature_falls_linearly_and_stays_low() -> None:
    settings = {"variant": "MD-DYR-SH", "warm_up": 2, "guided": 1, "sharpening": 5}
    trainer = build_trainer("m_correction", points(), settings, epochs=12)
    found = []
    for epoch in range(12):
        trainer.method.train_pass(epoch, 0, trainer.predict_logits)
        found.append(trainer.method.temperature.item())
    assert found[:3] == [1.0] * 3
    assert found[3:] == pytest.approx([*torch.linspace(1, 0.001, 5).tolist(), *[0.001] * 4])


def test_the_mixture_is_that_of_the_losses_after_the_epoch() -> None:
    trainer = build_trainer("m_correction", points(240), {"warm_up": 2}, epochs=4)
    logits = 2 * torch.randn(240, 3)

    def predict_logits(network: str = "net", *, best: bool = False, view: str = "plain") -> Tensor:
        assert (network, best, view) == ("net", False, "weak")
        return logits

    before = trainer.method.mixture.clone()
    trainer.method.on_epoch_end(0, predict_logits)
    assert torch.equal(trainer.method.mixture, before), "warm-up goes on without it"
    trainer.method.on_epoch_end(1, predict_logits)
    losses = sorted(
        -math.log(softmax(row)[y]) for row, y in zip(logits.tolist(), trainer.data.labels.tolist(), strict=True)
    )
    place = 0.05 * 239  # between the twelfth loss and the next
    low = losses[11] + (place - 11) * (losses[12] - losses[11])
    high = losses[-12] - (place - 11) * (losses[-12] - losses[-13])
    kept = [(loss - low) / (high - low + 1e-6) for loss in losses if low <= loss <= high]
    expected = fit_beta_mixture(torch.tensor([min(max(x, 1e-3), 1 - 1e-3) for x in kept], dtype=torch.float64))
    assert expected is not None
    torch.testing.assert_close(trainer.method.mixture[:3], torch.stack([*expected]).float(), rtol=1e-4, atol=1e-5)
    assert trainer.method.mixture[3].tolist() == pytest.approx([low, high], rel=1e-5)
    assert trainer.method.metrics()["wrong"] == pytest.approx(expected.weight[1].item(), rel=1e-4)


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_a_fit_that_fails_leaves_the_one_before(bad: float) -> None:
    trainer, method, _ = correcting("M-DYR-H")
    flat = torch.full((60, 3), bad)
    method.on_epoch_end(19, lambda **_: flat)  # type: ignore[arg-type]
    assert method.mixture.tolist() == torch.tensor(MIXTURE).tolist()
    none = build_trainer("m_correction", points(), epochs=20).method
    none.on_epoch_end(19, lambda **_: flat)
    none.networks["net"] = nn.Linear(4, 3)
    batch = Batch(torch.arange(4), trainer.data.labels[:4], {"weak": torch.randn(4, 4)}, torch.arange(4))
    assert none._wrong(batch).tolist() == pytest.approx([1e-4] * 4), "without any mixture no label is wrong"
    assert bool(none.correct(batch).isfinite().all())


# --- What the mixture says -----------------------------------------------------------------------------------------


def test_looking_at_a_batch_leaves_no_trace() -> None:
    trainer = build_trainer("m_correction", points(), epochs=6)
    trainer.method.mixture.copy_(torch.tensor(MIXTURE))
    trainer.method.train()
    net = trainer.method.networks["net"]
    index = torch.arange(8)
    batch = Batch(index, trainer.data.labels[index], {"weak": torch.randn(8, 4)}, index)
    before, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    wrong = trainer.method._wrong(batch)
    assert torch.equal(torch.get_rng_state(), random), "no dropout"
    assert all(module.training for module in net.modules())
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key])
    net.eval()
    losses = nn.functional.cross_entropy(net(batch.x), batch.labels, reduction="none").tolist()
    assert wrong.tolist() == pytest.approx([slow_wrong(loss) for loss in losses], rel=1e-4)
    assert not wrong.requires_grad


def test_a_network_that_breaks_goes_on_in_training_mode() -> None:
    _, method, batch = correcting("M-DYR-H")
    method.train()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        method._wrong(Batch(batch.index, batch.labels, {"weak": torch.randn(5, 9)}, batch.keys))
    assert method.networks["net"].training


@pytest.mark.parametrize("variant", VARIANTS)
def test_labels_are_given_as_far_as_they_are_right(variant: str) -> None:
    trainer, method, _ = correcting(variant)
    method.temperature.fill_(0.5)
    logits = 2 * torch.randn(60, 3)
    corrected, quality = method.corrected_labels(lambda: logits), method.label_quality(lambda: logits)  # type: ignore[arg-type]
    for i, (row, y) in enumerate(zip(logits.tolist(), trainer.data.labels.tolist(), strict=True)):
        w = slow_wrong(-math.log(softmax(row)[y]))
        assert quality[i].item() == pytest.approx(1 - w, rel=1e-3, abs=1e-5)
        t = [float(v == max(row)) for v in row] if variant == "M-DYR-H" else softmax(row, 0.5)
        for k in range(3):
            assert corrected[i, k].item() == pytest.approx((1 - w) * (k == y) + w * t[k], rel=1e-3, abs=1e-5)


def test_in_warm_up_predictions_speak() -> None:
    trainer = build_trainer("m_correction", points(), epochs=20)
    p = trainer.predict_logits().softmax(1)
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), p)
    assert torch.equal(
        trainer.method.label_quality(trainer.predict_logits), p.gather(1, trainer.data.labels[:, None])[:, 0]
    )


# --- Losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["loss", "guide"])
def test_mixup_on_given_labels_is_what_loops_make(stage: str) -> None:
    _, method, batch = correcting("MD-DYR-SH")
    net, mix = method.networks["net"], mixup(batch.keys, 2.0)
    outputs, labels, share = net(batch.x).tolist(), batch.labels.tolist(), mix.lam[0].item()
    found = getattr(method, stage)(batch).tolist()
    for i, j in enumerate(mix.partner.tolist()):
        of_input = share
        if stage == "guide":
            right = [1 - slow_wrong(-math.log(softmax(outputs[n])[labels[n]])) for n in (i, j)]
            of_input = right[0] / sum(right)
        p = softmax(net(of_input * batch.x[i] + (1 - of_input) * batch.x[j]).tolist())
        assert found[i] == pytest.approx(
            -share * math.log(p[labels[i]]) - (1 - share) * math.log(p[labels[j]]), rel=1e-4
        )


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_corrected_loss_is_what_loops_make(variant: str) -> None:
    _, method, batch = correcting(variant)
    method.temperature.fill_(0.4 if variant == "MD-DYR-SH" else 1.0)
    net, mix = method.networks["net"], mixup(batch.keys, 2.0)
    outputs, labels, share = net(batch.x).tolist(), batch.labels.tolist(), mix.lam[0].item()
    wrong = [slow_wrong(-math.log(softmax(row)[y])) for row, y in zip(outputs, labels, strict=True)]
    losses, predictions = [], []
    for i, j in enumerate(mix.partner.tolist()):
        of_input, of_target = share, share
        if variant == "MD-DYR-SH":
            of_input, of_target = (1 - wrong[i]) / ((1 - wrong[i]) + (1 - wrong[j])), 0.5
        p = softmax(net(of_input * batch.x[i] + (1 - of_input) * batch.x[j]).tolist())
        predictions.append(p)
        loss = 0.0
        for weight, n in ((of_target, i), (1 - of_target, j)):
            if variant == "M-DYR-H":
                denied = -math.log(p[outputs[n].index(max(outputs[n]))])
            else:
                t = softmax(outputs[n], method.temperature.item())
                denied = -sum(t[k] * math.log(p[k]) for k in range(3))
            loss += weight * ((1 - wrong[n]) * -math.log(p[labels[n]]) + wrong[n] * denied)
        losses.append(loss)
    mean = [sum(p[k] for p in predictions) / 5 for k in range(3)]
    penalty = sum(math.log(1 / 3 / m) / 3 for m in mean)
    assert method.correct(batch).tolist() == pytest.approx([loss + 0.5 * penalty for loss in losses], rel=1e-4)


def test_targets_pass_on_no_gradient() -> None:
    _, method, batch = correcting("M-DYR-S")
    net, mix = method.networks["net"], mixup(batch.keys, 2.0)
    with torch.no_grad():
        p, w = net(batch.x).softmax(1), method._wrong(batch)[:, None]
        targets = (1 - w) * nn.functional.one_hot(batch.labels, 3) + w * p
    method.eta = 0.0
    method.correct(batch).sum().backward()
    blended = mix(batch.x)
    expected = (net(blended).softmax(1) - mix(targets)).T @ blended
    torch.testing.assert_close(net.weight.grad, expected.detach(), rtol=1e-4, atol=1e-5)


# --- All together --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_wrong_labels_are_found_and_corrected(variant: str) -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("m_correction", data, {"variant": variant}, epochs=24)
    trainer.run(idle, idle)
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
        ({"mixup": 0}, "mixup must be positive"),
        ({"eta": -1}, "eta must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["m_correction"].build(**settings)
