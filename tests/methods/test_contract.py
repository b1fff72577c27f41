"""Contract of all methods: training, resume, per-sample state, labels and metadata. It runs over the registry."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from permll.methods import METHODS, Method, TrainPass, find_method, list_methods
from permll.training.checkpoint import load_state, save_state
from permll.training.trainer import Trainer
from tests.helpers.method_training import noisy_points
from tests.helpers.method_variants import SETTINGS
from tests.helpers.toy_training import build_trainer, do_nothing, equal_states, points, run_steps

EVERY_METHOD = pytest.mark.parametrize("name", list_methods())
EVERY_VARIANT = pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(name, settings, id=f"{name}{number or ''}")
        for name in METHODS
        for number, settings in enumerate([{}, *SETTINGS.get(name, [])])
    ],
)
EPOCHS, STEPS = 6, 22  # of four steps each; every stage begins within these
STOPS = (7, 16, STEPS)  # within an epoch, at the end of one, and in the last
# May keep their initial value: all samples, those that are not held out or not visited since an update, and the rest of
# a row if the labels are corrected for two classes only.
MASKS = {"drawn.values", "safe.values", "selected.values", "layer.loss_weight.values", "layer.visited.values"}
MASKS |= {"layer.delta_tail", "layer.targets.values_tail"}
LEARNING_EPOCHS: dict[str, int] = {"jnpl": 40, "nlnl": 40, "jocor": 24}  # default 12


def nll(trainer: Trainer) -> float:
    """Return the negative log-likelihood of the training labels."""
    probabilities = trainer.predict(trainer.data)
    return torch.nn.functional.nll_loss(probabilities.clamp_min(1e-6).log(), trainer.data.labels).item()


def sample_state(trainer: Trainer) -> dict[str, Tensor]:
    """Return a copy of the per-sample state."""
    state = trainer.method.extra_state()
    rows = len(trainer.data)
    is_state = {key: value.ndim and len(value) == rows and not key.endswith("labels") for key, value in state.items()}
    return {key: value.clone() for key, value in state.items() if is_state[key]}


@EVERY_VARIANT
def test_method_trains_all_parameters_and_only_visited_samples(name: str, settings: dict[str, Any]) -> None:
    """A step changes per-sample state of its batches only; by the end of training all of it has changed somewhere."""
    trainer = build_trainer(name, noisy_points(60)[0], settings, epochs=EPOCHS)
    initial = {key: value.clone() for key, value in trainer.method.state_dict().items()}
    initial_nll, initial_sample_state = nll(trainer), sample_state(trainer)
    train_step = trainer._train_step

    def checked_step(train_pass: TrainPass, batches: Any) -> None:
        before = sample_state(trainer)
        train_step(train_pass, batches)
        outside = torch.ones(len(trainer.data), dtype=torch.bool)
        outside[torch.cat([batch.index for batch in batches.values()])] = False
        assert outside.any()
        for key, value in sample_state(trainer).items():
            assert torch.equal(value[outside], before[key][outside]), key

    trainer._train_step = checked_step  # type: ignore[method-assign]
    trainer.run(do_nothing, do_nothing)
    changed = {key for key, value in trainer.method.state_dict().items() if not torch.equal(value, initial[key])}
    parameters = {key for key, _ in trainer.method.named_parameters() if "_original_module" not in key}
    assert {key.replace("_forward_module.", "") for key in parameters} <= changed
    assert nll(trainer) < initial_nll
    assert initial_sample_state.keys() - MASKS <= changed


def test_methods_with_sample_state_are_those_that_need_the_index() -> None:
    with_state = {
        name for name in METHODS if sample_state(build_trainer(name, points(), epochs=EPOCHS, held_out=False))
    }
    assert with_state == set(list_methods(needs="index"))


@EVERY_VARIANT
def test_method_resumes_bit_for_bit(name: str, settings: dict[str, Any], tmp_path: Any) -> None:
    """Runs from scratch and from checkpoints have the states of an uninterrupted run."""
    path = tmp_path / "state.safetensors"
    expected: dict[int, Any] = {}

    def record_state(trainer: Trainer) -> None:
        if trainer.step in STOPS:
            expected[trainer.step] = load_state(save_state(path, trainer.state_dict()))
        if trainer.step == STEPS:
            trainer.stop()

    uninterrupted = build_trainer(name, points(), settings, epochs=EPOCHS)
    uninterrupted.run(record_state, do_nothing)
    end = load_state(save_state(path, uninterrupted.state_dict()))  # some methods finish before the last stop
    for start, stop in itertools.pairwise((0, *STOPS)):
        trainer = build_trainer(name, points(), settings, epochs=EPOCHS)
        if start:
            trainer.load_state_dict(load_state(path))
        run_steps(trainer, stop - start)
        save_state(path, trainer.state_dict())
        assert equal_states(expected.get(stop, end), load_state(path)), f"after step {stop}"


@EVERY_METHOD
def test_method_labels_and_quality_are_probabilities(name: str) -> None:
    trainer = build_trainer(name, points(), epochs=EPOCHS)
    run_steps(trainer, STEPS)
    method, predict_logits = trainer.method, trainer.predict_logits
    corrected, quality = method.corrected_labels(predict_logits), method.label_quality(predict_logits)
    assert corrected.shape == (60, 3)
    torch.testing.assert_close(corrected.sum(1), torch.ones(60))
    assert quality.shape == (60,)
    assert bool(((quality >= 0) & (quality <= 1)).all())
    torch.testing.assert_close(method.labels_and_quality(predict_logits), (corrected, quality))
    probabilities = trainer.predict(points(30, seed=1))
    torch.testing.assert_close(probabilities.sum(1), torch.ones(30))


@EVERY_METHOD
def test_method_learns_separable_classes(name: str) -> None:
    every = points(150)
    data, held_out = every.take(range(120)), every.take(range(120, 150))
    trainer = build_trainer(name, data, epochs=LEARNING_EPOCHS.get(name, 12), held_out=held_out)
    trainer.run(do_nothing, do_nothing)
    assert (trainer.predict(data).argmax(1) == data.labels).float().mean() > 0.9


@EVERY_METHOD
def test_method_metadata_matches_class(name: str) -> None:
    info = METHODS[name]
    assert info.name == name
    assert info.paper
    assert info.method_class.__doc__
    method = info.build()
    assert len(method.network_names) == info.networks
    with pytest.raises(ValueError, match=f"{name} has no setting 'lambada'"):
        info.build(lambada=3)


# Registry


def test_list_methods_filters_by_requirement() -> None:
    assert list_methods() == list(METHODS)
    assert list_methods(needs="trusted") == ["glc"]
    assert "elr" in list_methods(needs="index")
    assert "ce" not in list_methods(needs="index")
    with pytest.raises(ValueError, match="unknown requirement 'indices'"):
        list_methods(needs="indices")


def test_find_method_suggests_nearest_name() -> None:
    with pytest.raises(ValueError, match="unknown method 'pemrll', did you mean permll"):
        find_method("pemrll")


class UntypedMethod(Method):
    """User-defined method whose settings have no types."""

    def __init__(self, *, steps=3):  # type: ignore[no-untyped-def]
        super().__init__()
        self.steps = steps


def test_untyped_settings_are_not_converted() -> None:
    method = find_method(f"{__name__}:UntypedMethod").build(steps="many")
    assert isinstance(method, UntypedMethod)
    assert method.steps == "many"
