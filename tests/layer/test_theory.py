"""The paper's Propositions 1 to 4, inequality (3.2) and what follows from them, on random samples in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import minimize
from torch.testing import assert_close

import permll
from permll.layer import equations
from permll.layer.minimizers import best_alpha
from permll.layer.reference import permutation_layer, reference_loss, swap_matrix
from tests.helpers.layer_strategies import Samples, samples, unsure_samples

EXACT = {"rtol": 1e-12, "atol": 1e-12}
# Assumption 1 (zero only where prediction and target agree) leaves cross-entropy out, except against one-hot targets.
ASSUMPTION_1 = ("kl", "l1", "l2")
MODERATE = (0.01, 1.0, 10.0)


def rows(sample: Samples):
    return zip(sample.alpha, sample.logits, sample.labels.tolist(), strict=True)


@given(samples())
def test_proposition_1_permuting_the_label_gives_softmax_alpha(sample: Samples) -> None:
    for alpha, _, y in rows(sample):
        e_y = torch.eye(len(alpha), dtype=alpha.dtype)[y]
        assert_close(permutation_layer(alpha, y) @ e_y, alpha.softmax(-1), **EXACT)


def test_proposition_1_the_label_variant_is_learning_the_label_directly() -> None:
    """Joint Optimization's view: a soft label per sample, learned by gradient descent beside the network."""
    x, labels = torch.randn(12, 5, dtype=torch.float64), torch.arange(12) % 3
    nets = [torch.nn.Linear(5, 3, dtype=torch.float64) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    layer = permll.PermutationLayer(labels, num_classes=3, init=0.6, lr=0.5, on="label").double()
    soft_label_logits = torch.nn.Parameter(layer.alpha.clone())
    ours = torch.optim.SGD(nets[0].parameters(), lr=0.1)
    theirs = torch.optim.SGD(
        [{"params": nets[1].parameters(), "lr": 0.1}, {"params": [soft_label_logits], "lr": 0.5 * 12}]
    )
    for _ in range(30):
        ours.zero_grad()
        layer(nets[0](x), torch.arange(12)).backward()
        ours.step()
        layer.step()

        theirs.zero_grad()
        torch.nn.functional.cross_entropy(nets[1](x), soft_label_logits.softmax(-1)).backward()
        theirs.step()
    assert_close(layer.alpha, soft_label_logits.data, **EXACT)
    assert_close(nets[0].weight, nets[1].weight, **EXACT)
    assert not torch.equal(layer.corrected_labels(), labels)  # it did learn something


@pytest.mark.parametrize("loss", ASSUMPTION_1)
@given(samples(logit_scales=MODERATE))
def test_proposition_2_on_the_label_solving_for_alpha_ends_learning(loss: str, sample: Samples) -> None:
    alpha = best_alpha(sample.logits, sample.labels, "label", loss)
    got = equations.CLOSED_FORMS["label", loss](alpha, sample.logits, sample.labels)
    assert_close(got.loss, torch.zeros_like(got.loss), **EXACT)
    assert_close(got.grad_logits, torch.zeros_like(alpha), **EXACT)


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(samples(max_classes=8, logit_scales=(0.01, 1.0, 3.0)))
def test_proposition_3_on_the_prediction_it_does_not(loss: str, sample: Samples) -> None:
    alpha = best_alpha(sample.logits, sample.labels, "prediction", loss)
    got = equations.CLOSED_FORMS["prediction", loss](alpha, sample.logits, sample.labels)
    assert sample.probabilities.max() < 1
    assert (got.loss > 0).all()
    # ... and what is left still moves the network, unless it has nothing to say at all.
    assert (got.grad_logits.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("on", equations.SIDES)
@pytest.mark.parametrize("loss", equations.LOSSES)
@given(samples(max_classes=6, logit_scales=(0.3, 1.0, 3.0)))
@settings(max_examples=15)
def test_best_alpha_is_the_minimum(on: str, loss: str, sample: Samples) -> None:
    """Against a numerical solver over the simplex of weights, from several starts."""
    best = best_alpha(sample.logits, sample.labels, on, loss)
    value = equations.CLOSED_FORMS[on, loss](best, sample.logits, sample.labels).loss
    for k in range(len(sample.labels)):
        z, y = sample.logits[k : k + 1], sample.labels[k : k + 1]
        c = z.shape[1]

        def objective(a: np.ndarray, z=z, y=y) -> float:
            alpha = torch.from_numpy(np.maximum(a, 1e-300)).log()[None]
            return float(equations.CLOSED_FORMS[on, loss](alpha, z, y).loss)

        starts = [np.full(c, 1 / c), z.softmax(-1)[0].numpy()]
        simplex = {"bounds": [(0, 1)] * c, "constraints": {"type": "eq", "fun": lambda a: a.sum() - 1}}
        found = min(minimize(objective, start, method="SLSQP", **simplex).fun for start in starts)
        assert float(value[k]) <= found + 1e-7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(samples(max_classes=12, logit_scales=(100.0, 1e4)))
def test_best_alpha_for_l2_survives_classes_too_close_to_tell_apart(dtype: torch.dtype, sample: Samples) -> None:
    weights = best_alpha(sample.logits.to(dtype), sample.labels, "prediction", "l2").softmax(-1)
    assert weights.isfinite().all()
    assert weights.dtype == dtype


@given(samples(max_classes=12, logit_scales=MODERATE))
def test_inequality_3_2_a_row_moves_the_permuted_prediction_by_at_most_a_quarter_of_its_spread(sample: Samples) -> None:
    for alpha, logits, y in rows(sample):
        p = logits.softmax(-1)
        jacobian = torch.autograd.functional.jacobian(lambda row, y=y, p=p: permutation_layer(row, y) @ p, alpha)
        spread = p.max() - p.min()
        a = alpha.softmax(-1)
        assert (jacobian.abs() <= a * (1 - a) * spread + 1e-15).all()  # its own, sharper middle line
        assert (jacobian.abs() <= spread / 4 + 1e-15).all()


def gradient_bound(loss: str, num_classes: int) -> float:
    """M of Assumption 2; for CE and KL it is derived in docs/theory.md."""
    return {"ce": float(num_classes**2), "kl": float(num_classes**2), "l1": num_classes, "l2": math.sqrt(num_classes)}[
        loss
    ]


@given(unsure_samples())
def test_an_unsure_prediction_has_no_entry_below_one_over_c_squared(sample: Samples) -> None:
    """The lemma behind M = c² for CE and KL."""
    c = sample.logits.shape[1]
    assert (sample.probabilities.amax(-1) - sample.probabilities.amin(-1) < 1 / c).all()
    assert (sample.probabilities > 1 / c**2).all()


def test_one_over_c_squared_cannot_be_improved() -> None:
    for c in (2, 5, 37):
        p = torch.full((c,), 1 / c + 1 / c**2, dtype=torch.float64)
        p[0] = 1 / c**2
        assert_close(p.sum(), torch.ones((), dtype=torch.float64), **EXACT)
        assert_close(p.max() - p.min(), torch.tensor(1 / c, dtype=torch.float64), **EXACT)
        p.requires_grad_()
        (slope,) = torch.autograd.grad(-p[0].log(), p)  # cross-entropy with the target on the first class
        assert_close(slope.abs().sum(), torch.tensor(gradient_bound("ce", c), dtype=torch.float64), **EXACT)


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(unsure_samples())
def test_assumption_2_the_loss_has_bounded_slope_where_the_prediction_is_unsure(loss: str, sample: Samples) -> None:
    p = sample.probabilities.requires_grad_()
    target = sample.alpha.softmax(-1)
    if loss in ("ce", "kl"):
        value = torch.xlogy(target, target) * (loss == "kl") - target * p.log()
    else:
        value = torch.linalg.vector_norm(p - target, ord=int(loss[1]), dim=-1)
    (slope,) = torch.autograd.grad(value.sum(), p)
    assert (slope.abs().sum(-1) <= gradient_bound(loss, p.shape[1]) * (1 + 1e-12)).all()


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(unsure_samples())
def test_proposition_4_unsure_predictions_move_alpha_little(loss: str, sample: Samples) -> None:
    c = sample.logits.shape[1]
    p = sample.probabilities
    spread = p.amax(-1) - p.amin(-1)
    got = equations.CLOSED_FORMS["prediction", loss](sample.alpha, sample.logits, sample.labels)
    norm = got.grad_alpha.abs().sum(-1)
    assert (norm <= c * gradient_bound(loss, c) / 4 * spread + 1e-15).all()
    # Summing the sharper line of (3.2) over the row instead of bounding each entry: (1 - 1/c) for c / 4.
    assert (norm <= (1 - 1 / c) * gradient_bound(loss, c) * spread + 1e-15).all()


@pytest.mark.parametrize("loss", equations.LOSSES)
@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_equal_probabilities_move_alpha_only_on_the_label(loss: str, num_classes: int) -> None:
    alpha, labels = torch.randn(5, num_classes, dtype=torch.float64), torch.arange(5) % num_classes
    logits = torch.full_like(alpha, 0.7)
    on_prediction = equations.CLOSED_FORMS["prediction", loss](alpha, logits, labels).grad_alpha
    assert_close(on_prediction, torch.zeros_like(alpha), **EXACT)
    if loss != "ce":  # cross-entropy is linear in a, so it too is blind where all log p_k agree
        on_label = equations.CLOSED_FORMS["label", loss](alpha, logits, labels).grad_alpha
        assert (on_label.abs().sum(-1) > 1e-6).all()


@given(samples(logit_scales=MODERATE))
def test_jensen_the_label_variant_is_never_below_the_prediction_variant(sample: Samples) -> None:
    on_label = equations.label_ce(*sample).loss
    on_prediction = equations.prediction_ce(*sample).loss
    assert (on_label >= on_prediction - 1e-12).all()


def test_jensen_is_equality_where_the_network_does_not_choose() -> None:
    alpha, logits, labels = (
        torch.randn(4, 6, dtype=torch.float64),
        torch.zeros(4, 6, dtype=torch.float64),
        torch.arange(4),
    )
    assert_close(equations.label_ce(alpha, logits, labels).loss, equations.prediction_ce(alpha, logits, labels).loss)


@given(samples(max_classes=10))
def test_the_layer_is_doubly_stochastic_and_symmetric(sample: Samples) -> None:
    """A convex combination of swaps, so permuting never sharpens a prediction: Proposition 4 relies on it."""
    for alpha, _, y in rows(sample):
        layer = permutation_layer(alpha, y)
        ones = torch.ones(len(alpha), dtype=alpha.dtype)
        assert_close(layer.sum(0), ones, **EXACT)
        assert_close(layer.sum(1), ones, **EXACT)
        assert_close(layer, layer.T, **EXACT)
        assert (layer >= 0).all()


def test_the_layer_of_a_certain_row_is_the_swap_itself() -> None:
    certain = torch.tensor([-torch.inf, -torch.inf, 0.0, -torch.inf], dtype=torch.float64)
    assert torch.equal(permutation_layer(certain, 1), swap_matrix(4, 1, 2))
    value = reference_loss(
        certain[None], torch.tensor([[0.0, 0.0, 50.0, 0.0]]).double(), torch.tensor([1]), "prediction", "ce"
    )
    assert_close(value, torch.zeros(1, dtype=torch.float64), rtol=0, atol=1e-12)
