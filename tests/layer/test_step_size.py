"""``correct_after``: a contradicted label is corrected at the requested time."""

import pytest
import torch

from permll import PermutationLayer
from permll.layer import equations
from permll.layer.paper import PaperPermutationLayer
from permll.layer.step_size import is_corrected_after, lr_to_correct_after


def first_correction(layer: PaperPermutationLayer, updates: int) -> int | None:
    """Update sample 0 with a network certain of another class; return the update that corrects its label."""
    logits = torch.full((1, layer.num_classes), -50.0)
    logits[0, 1] = 50.0
    for update in range(1, updates + 1):
        layer(logits.clone().requires_grad_(), [0]).backward()
        layer.step()
        if layer.corrected_labels()[0] != 0:
            return update
    return None


@pytest.mark.parametrize("loss", equations.LOSSES)
@pytest.mark.parametrize(("num_classes", "epochs", "correct_after"), [(2, 10, 0.5), (10, 40, 0.9), (100, 12, 1.0)])
def test_label_is_corrected_after_requested_fraction(
    loss: str, num_classes: int, epochs: int, correct_after: float
) -> None:
    layer = PermutationLayer.paper([0], num_classes=num_classes, epochs=epochs, correct_after=correct_after, loss=loss)
    assert first_correction(layer, 2 * epochs) == round(correct_after * epochs)


def test_epochs_alone_use_default_correct_after() -> None:
    layer = PermutationLayer.paper([0], num_classes=10, epochs=20)
    assert first_correction(layer, 40) == 6


@pytest.mark.parametrize(("num_classes", "init"), [(2, 0.8), (10, 0.35), (100, 0.225)])
@pytest.mark.parametrize("updates", [1, 30, 400])
def test_lr_lies_within_analytic_bounds(num_classes: int, init: float, updates: int) -> None:
    """α_y - α_k shrinks by lr (1 + a_y - a_k) per update, where 0 <= a_y - a_k < m until the correction."""
    label_logit = equations.initial_label_logit(num_classes, init)
    lr = lr_to_correct_after(updates, num_classes=num_classes, init=init)
    assert label_logit / (1 + init) / updates <= lr * (1 + 1e-4)
    assert lr <= label_logit / updates * (1 + 1e-4)


@pytest.mark.parametrize(
    ("updates", "case"),
    [
        (3000, {"num_classes": 10, "init": 0.35}),  # more than are simulated
        (1, {"num_classes": 1000, "init": 0.9, "loss": "l1"}),  # a huge step
        (50, {"num_classes": 2, "init": 0.5 + 1e-9}),  # a tiny label logit
        (20, {"num_classes": 21_000, "init": 0.35, "loss": "l2"}),
    ],
)
def test_lr_is_the_smallest_that_corrects_in_time(updates: int, case: dict) -> None:
    lr = lr_to_correct_after(updates, **case)
    assert is_corrected_after(updates, 1.001 * lr, **case)
    assert not is_corrected_after(updates, 0.999 * lr, **case)
