"""``correct_after``: a contradicted label turns when it was said to."""

import pytest
import torch

from permll import PermutationLayer
from permll.layer import equations
from permll.layer.step_size import is_corrected_after, lr_to_correct_after


def first_turn(layer: PermutationLayer, visits: int) -> int | None:
    """Visit sample 0 with a network certain of another class; return the visit at which its label turns."""
    logits = torch.full((1, layer.num_classes), -50.0)
    logits[0, 1] = 50.0
    for visit in range(1, visits + 1):
        layer(logits.clone().requires_grad_(), [0]).backward()
        layer.step()
        if layer.corrected_labels()[0] != 0:
            return visit
    return None


@pytest.mark.parametrize("loss", equations.LOSSES)
@pytest.mark.parametrize(("num_classes", "epochs", "correct_after"), [(2, 10, 0.5), (10, 40, 0.9), (100, 12, 1.0)])
def test_a_contradicted_label_turns_when_asked(loss: str, num_classes: int, epochs: int, correct_after: float) -> None:
    layer = PermutationLayer([0], num_classes=num_classes, epochs=epochs, correct_after=correct_after, loss=loss)
    assert first_turn(layer, 2 * epochs) == round(correct_after * epochs)


def test_epochs_alone_mean_the_default_fraction() -> None:
    layer = PermutationLayer([0], num_classes=10, epochs=20)
    assert first_turn(layer, 40) == 6


@pytest.mark.parametrize(("num_classes", "init"), [(2, 0.8), (10, 0.35), (100, 0.225)])
@pytest.mark.parametrize("visits", [1, 30, 400])
def test_the_step_keeps_the_bounds_of_the_gap(num_classes: int, init: float, visits: int) -> None:
    """The gap closes by lr (1 + a_y - a_k) at each visit, where 0 <= a_y - a_k < m until it turns."""
    gap = equations.initial_label_logit(num_classes, init)
    lr = lr_to_correct_after(visits, num_classes=num_classes, init=init)
    assert gap / (1 + init) / visits <= lr * (1 + 1e-4)
    assert lr <= gap / visits * (1 + 1e-4)


@pytest.mark.parametrize(
    ("visits", "case"),
    [
        (3000, {"num_classes": 10, "init": 0.35}),  # longer than is followed step by step
        (1, {"num_classes": 1000, "init": 0.9, "loss": "l1"}),  # a huge step
        (50, {"num_classes": 2, "init": 0.5 + 1e-9}),  # a tiny gap
        (20, {"num_classes": 21_000, "init": 0.35, "loss": "l2"}),
    ],
)
def test_the_step_turns_the_label_in_time_and_a_smaller_one_does_not(visits: int, case: dict) -> None:
    lr = lr_to_correct_after(visits, **case)
    assert is_corrected_after(visits, 1.001 * lr, **case)
    assert not is_corrected_after(visits, 0.999 * lr, **case)
