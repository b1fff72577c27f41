"""What every registered method must do. A method that is registered is tested."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from permll.methods import METHODS, Method, TrainPass, find_method
from permll.training.checkpoint import load_state, save_state
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points

EVERY = pytest.mark.parametrize("name", METHODS)
# Settings whose state, sweeps or networks are not those of the defaults.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "bootstrap_hard": [{"warm_up_epochs": 2}],
    "nlnl": [{"average": 2, "complementary": 4}],
    "forward": [{"T": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]], "quantile": 1.0}],
    "t_revision": [{"estimate": 3, "reweight": 2, "estimate_lr": 0.1, "revision_lr": 1e-3}],
    "elr": [{"top_k": 2, "state": "bfloat16"}],
    "sop": [{"consistency": 0.9, "balance": 0.1, "u_by": "both"}, {"top_k": 2}],
    "pencil": [{"first": 2, "compatibility": "plain", "lr": 3.0, "final_lr": 0.1}],
    "joint": [{"window": 2, "prior": "given", "first": 1, "second": 3, "final_lr": 0.1}],
    "m_correction": [{"variant": "M-DYR-S"}, {"variant": "MD-DYR-SH"}],
    "c_model": [{"baseline": 2, "simple": 1, "neighbors": 2}],
    "mlnt": [{"baseline": 2, "perturbations": 2, "begin": 0.0, "full": 0.3, "second_order": False}],
    "decoupling": [{"warm_up": 2, "least": 0.0}],
    "co_teaching": [{"noise_rate": 0.3, "ramp": 3, "exponent": 2.0, "schedule": "code"}, {"ramp": 4}],
    "co_teaching_plus": [{"noise_rate": 0.2, "warm_up": 0, "double_softmax": True}, {"ramp": 2, "warm_up": 3}],
    "jocor": [{"noise_rate": 0.3, "lam": 0.5}, {"ramp": 3}],
    "morph": [{"history": 2, "ramp": 2, "against": "strong"}, {"history": 3, "weight": 0.0}],
    "dividemix": [
        {"warm_up": 2, "history": 2, "lambda_u": 5.0, "penalty": 0.0, "guess": "training"},
        {"draws": 30, "blends": "labeled", "threshold": 0.7},
    ],
    "elr_plus": [{"supported": True, "lam_ramp": 0.5, "decay_ramp": 0.0, "draws": 40, "top_k": 2}],
    "unicon": [{"units": "nats", "unlabeled": 1.0, "draws": 40, "guess": "evaluating"}],
    "permll": [
        {"balance": "corrected", "warm_up": 5},
        {"networks": 2, "on": "label", "lr": 0.1, "balance": "given", "warm_up": 0.5},
        {"top_k": 2, "balance": "corrected"},
        {"state": "bfloat16", "lr": 0.1},
        {"state": "disk"},
    ],
    "permll_plus": [{"warm_up": 2, "prior": "given", "earned": False}, {"warm_up": 0, "top_k": 2, "state": "bfloat16"}],
    "selc": [{"turning_point": 2, "top_k": 2, "state": "disk"}],
    "selc_plus": [{"turning_point": 0.3, "correction": 3}],
}
VARIANTS = pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(name, settings, id=f"{name}{number or ''}")
        for name in METHODS
        for number, settings in enumerate([{}, *SETTINGS.get(name, [])])
    ],
)
EPOCHS, STEPS = 6, 22  # of four steps each; every stage begins within these
STOPS = (1, 4, 7, 12, 18, 20, STEPS)  # within epochs and at the end of some
SLOW: dict[str, int] = {"jnpl": 40, "nlnl": 40, "jocor": 24}  # epochs of methods that learn too little in twelve


def idle(_: Trainer) -> None:
    pass


def run_steps(trainer: Trainer, steps: int) -> None:
    """Take so many steps, or fewer if training ends."""
    left = itertools.count(steps - 1, -1)

    def after_step(trainer: Trainer) -> None:
        if next(left) == 0:
            trainer.stop()

    trainer.run(after_step, idle)
    trainer._stop = False


def same(one: Any, other: Any) -> bool:
    """Return whether two states are the same to the bit, numbers and words included."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def misfit(trainer: Trainer) -> float:
    """Return the cross-entropy of what the method predicts for its training data."""
    probabilities = trainer.predict(trainer.data)
    return torch.nn.functional.nll_loss(probabilities.clamp_min(1e-6).log(), trainer.data.labels).item()


@VARIANTS
def test_training_reaches_every_parameter_and_the_labels(name: str, settings: dict[str, Any]) -> None:
    trainer = build_trainer(name, points(), settings, epochs=EPOCHS)
    before = {key: value.clone() for key, value in trainer.method.state_dict().items()}
    untrained = misfit(trainer)
    trainer.run(idle, idle)
    moved = {key for key, value in trainer.method.state_dict().items() if not torch.equal(value, before[key])}
    parameters = {key for key, _ in trainer.method.named_parameters() if "_original_module" not in key}
    assert {key.replace("_forward_module.", "") for key in parameters} <= moved
    assert misfit(trainer) < untrained


@VARIANTS
def test_the_same_seed_gives_the_same_result(name: str, settings: dict[str, Any]) -> None:
    states = []
    for _ in range(2):
        trainer = build_trainer(name, points(), settings, epochs=EPOCHS)
        run_steps(trainer, STEPS)
        states.append(trainer.state_dict())
    assert same(*states)


@VARIANTS
def test_a_state_on_disk_goes_on_as_if_nothing_had_happened(name: str, settings: dict[str, Any], tmp_path: Any) -> None:
    """It is left and taken up again by another loop at every stop, and must be where an undisturbed one passed."""
    passed: dict[int, Any] = {}

    def look(trainer: Trainer) -> None:
        if trainer.step in STOPS:
            passed[trainer.step] = as_saved(trainer, tmp_path)
        if trainer.step == STOPS[-1]:
            trainer.stop()

    undisturbed = build_trainer(name, points(), settings, epochs=EPOCHS)
    undisturbed.run(look, idle)
    end = as_saved(undisturbed, tmp_path)  # some are at their end before the last stop
    path = tmp_path / "state.safetensors"
    for start, stop in itertools.pairwise((0, *STOPS)):
        trainer = build_trainer(name, points(), settings, epochs=EPOCHS)
        if start:
            trainer.load_state_dict(load_state(path))
        run_steps(trainer, stop - start)
        save_state(path, trainer.state_dict())
        assert same(passed.get(stop, end), load_state(path)), f"after step {stop}"


def as_saved(trainer: Trainer, folder: Any) -> Any:
    return load_state(save_state(folder / "again.safetensors", trainer.state_dict()))


@EVERY
def test_rows_outside_the_batch_do_not_move(name: str) -> None:
    trainer = build_trainer(name, points(), epochs=EPOCHS)
    own = {key: value.clone() for key, value in trainer.method.extra_state().items() if len(value.shape) > 1}
    seen: list[Tensor] = []
    train_pass = trainer.method.train_pass(0, 0, trainer.predict_logits)
    assert train_pass is not None
    loss = getattr(trainer.method, train_pass.loss)

    def watched(**batches: Any) -> Tensor:
        seen.extend(batch.index for batch in batches.values())
        return loss(**batches)

    setattr(trainer.method, train_pass.loss, watched)
    run_steps(trainer, 1)
    outside = torch.ones(len(trainer.data), dtype=torch.bool)
    outside[torch.cat(seen)] = False
    assert outside.any()
    for key, before in own.items():
        if len(before) == len(trainer.data):
            assert torch.equal(trainer.method.extra_state()[key][outside], before[outside])


@EVERY
def test_labels_and_quality_are_what_they_promise(name: str) -> None:
    trainer = build_trainer(name, points(), epochs=EPOCHS)
    run_steps(trainer, STEPS)
    corrected, quality = (
        trainer.method.corrected_labels(trainer.predict_logits),
        trainer.method.label_quality(trainer.predict_logits),
    )
    assert corrected.shape == (60, 3)
    torch.testing.assert_close(corrected.sum(1), torch.ones(60))
    assert quality.shape == (60,)
    assert bool(((quality >= 0) & (quality <= 1)).all())
    torch.testing.assert_close(trainer.method.labels_and_quality(trainer.predict_logits), (corrected, quality))
    probabilities = trainer.predict(points(30, seed=1))
    torch.testing.assert_close(probabilities.sum(1), torch.ones(30))


@EVERY
def test_it_learns_what_can_be_learned(name: str) -> None:
    every = points(150)
    data, held_out = every.take(range(120)), every.take(range(120, 150))
    trainer = build_trainer(name, data, epochs=SLOW.get(name, 12), held_out=held_out)
    trainer.run(idle, idle)
    assert (trainer.predict(data).argmax(1) == data.labels).float().mean() > 0.9


@EVERY
def test_an_unknown_setting_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has no setting 'lambada'"):
        find_method(name).build(lambada=3)


@EVERY
def test_records_say_what_there_is(name: str) -> None:
    info = METHODS[name]
    assert info.name == name
    assert info.paper
    assert info.method_class.__doc__
    method = info.build()
    assert len(method.network_names) == info.networks
    assert isinstance(build_trainer(name, points(), epochs=EPOCHS).method.train_pass(0, 0, torch.zeros), TrainPass)


def test_an_unknown_method_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="'pemrll' is no method, did you mean permll"):
        find_method("pemrll")


class Quick(Method):
    """Somebody's own, whose settings have no types."""

    def __init__(self, *, steps=3):  # type: ignore[no-untyped-def]
        super().__init__()
        self.steps = steps


def test_settings_without_types_are_taken_as_they_are() -> None:
    method = find_method(f"{__name__}:Quick").build(steps="many")
    assert isinstance(method, Quick)
    assert method.steps == "many"
