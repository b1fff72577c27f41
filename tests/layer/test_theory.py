"""The paper's Propositions 1 to 4, inequality (3.2) and corollaries, on random samples in float64."""

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
from tests.helpers.layer_strategies import Samples, low_spread_samples, samples

EXACT = {"rtol": 1e-12, "atol": 1e-12}
# Losses of Assumption 1, zero only where prediction and target agree; cross-entropy only for one-hot targets.
ASSUMPTION_1 = ("kl", "l1", "l2")
MODERATE = (0.01, 1.0, 10.0)


def iter_samples(sample: Samples):
    return zip(sample.alpha, sample.logits, sample.labels.tolist(), strict=True)


@given(samples())
def test_proposition_1_permuted_label_is_softmax_alpha(sample: Samples) -> None:
    for alpha, _, y in iter_samples(sample):
        e_y = torch.eye(len(alpha), dtype=alpha.dtype)[y]
        assert_close(permutation_layer(alpha, y) @ e_y, alpha.softmax(-1), **EXACT)


def test_proposition_1_label_variant_is_soft_label_learning() -> None:
    """Joint optimization: one soft label per sample, learned by gradient descent with the network."""
    x, labels = torch.randn(12, 5, dtype=torch.float64), torch.arange(12) % 3
    nets = [torch.nn.Linear(5, 3, dtype=torch.float64) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    layer = permll.PermutationLayer.paper(labels, num_classes=3, init=0.6, lr=0.5, on="label").double()
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
    assert not torch.equal(layer.corrected_labels(), labels)  # labels were corrected


@pytest.mark.parametrize("loss", ASSUMPTION_1)
@given(samples(logit_scales=MODERATE))
def test_proposition_2_label_variant_has_zero_minimum(loss: str, sample: Samples) -> None:
    alpha = best_alpha(sample.logits, sample.labels, "label", loss)
    got = equations.CLOSED_FORMS["label", loss](alpha, sample.logits, sample.labels)
    assert_close(got.loss, torch.zeros_like(got.loss), **EXACT)
    assert_close(got.grad_logits, torch.zeros_like(alpha), **EXACT)


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(samples(max_classes=8, logit_scales=(0.01, 1.0, 3.0)))
def test_proposition_3_prediction_variant_has_positive_minimum(loss: str, sample: Samples) -> None:
    alpha = best_alpha(sample.logits, sample.labels, "prediction", loss)
    got = equations.CLOSED_FORMS["prediction", loss](alpha, sample.logits, sample.labels)
    assert sample.probabilities.max() < 1
    assert (got.loss > 0).all()
    # The gradient of the network does not vanish either.
    assert (got.grad_logits.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("on", equations.SIDES)
@pytest.mark.parametrize("loss", equations.LOSSES)
@given(samples(max_classes=6, logit_scales=(0.3, 1.0, 3.0)))
@settings(max_examples=15)
def test_best_alpha_is_minimum(on: str, loss: str, sample: Samples) -> None:
    """Against a numerical solver on the simplex, from several starts."""
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
        result = min(minimize(objective, start, method="SLSQP", **simplex).fun for start in starts)
        assert float(value[k]) <= result + 1e-7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(samples(max_classes=12, logit_scales=(100.0, 1e4)))
def test_best_alpha_for_l2_is_finite_for_nearly_equal_classes(dtype: torch.dtype, sample: Samples) -> None:
    weights = best_alpha(sample.logits.to(dtype), sample.labels, "prediction", "l2").softmax(-1)
    assert weights.isfinite().all()
    assert weights.dtype == dtype


@given(samples(max_classes=12, logit_scales=MODERATE))
def test_inequality_3_2_bounds_jacobian_of_permuted_prediction(sample: Samples) -> None:
    for alpha, logits, y in iter_samples(sample):
        p = logits.softmax(-1)
        jacobian = torch.autograd.functional.jacobian(lambda row, y=y, p=p: permutation_layer(row, y) @ p, alpha)
        spread = p.max() - p.min()
        a = alpha.softmax(-1)
        assert (jacobian.abs() <= a * (1 - a) * spread + 1e-15).all()  # the sharper bound in (3.2)
        assert (jacobian.abs() <= spread / 4 + 1e-15).all()


def gradient_bound(loss: str, num_classes: int) -> float:
    """Return M of Assumption 2; docs/theory.md derives it for CE and KL."""
    return {"ce": float(num_classes**2), "kl": float(num_classes**2), "l1": num_classes, "l2": math.sqrt(num_classes)}[
        loss
    ]


@given(low_spread_samples())
def test_lemma_bounds_low_spread_predictions_below(sample: Samples) -> None:
    """The lemma behind M = c² for CE and KL."""
    c = sample.logits.shape[1]
    assert (sample.probabilities.amax(-1) - sample.probabilities.amin(-1) < 1 / c).all()
    assert (sample.probabilities > 1 / c**2).all()


def test_lemma_bound_is_tight() -> None:
    for c in (2, 5, 37):
        p = torch.full((c,), 1 / c + 1 / c**2, dtype=torch.float64)
        p[0] = 1 / c**2
        assert_close(p.sum(), torch.ones((), dtype=torch.float64), **EXACT)
        assert_close(p.max() - p.min(), torch.tensor(1 / c, dtype=torch.float64), **EXACT)
        p.requires_grad_()
        (slope,) = torch.autograd.grad(-p[0].log(), p)  # cross-entropy with the target on the first class
        assert_close(slope.abs().sum(), torch.tensor(gradient_bound("ce", c), dtype=torch.float64), **EXACT)


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(low_spread_samples())
def test_assumption_2_loss_gradient_is_bounded(loss: str, sample: Samples) -> None:
    p = sample.probabilities.requires_grad_()
    target = sample.alpha.softmax(-1)
    if loss in ("ce", "kl"):
        value = torch.xlogy(target, target) * (loss == "kl") - target * p.log()
    else:
        value = torch.linalg.vector_norm(p - target, ord=int(loss[1]), dim=-1)
    (slope,) = torch.autograd.grad(value.sum(), p)
    assert (slope.abs().sum(-1) <= gradient_bound(loss, p.shape[1]) * (1 + 1e-12)).all()


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(low_spread_samples())
def test_proposition_4_bounds_alpha_gradient(loss: str, sample: Samples) -> None:
    c = sample.logits.shape[1]
    p = sample.probabilities
    spread = p.amax(-1) - p.amin(-1)
    got = equations.CLOSED_FORMS["prediction", loss](sample.alpha, sample.logits, sample.labels)
    norm = got.grad_alpha.abs().sum(-1)
    assert (norm <= c * gradient_bound(loss, c) / 4 * spread + 1e-15).all()
    # The sharper bound of (3.2) summed over the row: 1 - 1/c instead of c / 4.
    assert (norm <= (1 - 1 / c) * gradient_bound(loss, c) * spread + 1e-15).all()


@pytest.mark.parametrize("loss", equations.LOSSES)
@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_uniform_prediction_moves_alpha_on_label_only(loss: str, num_classes: int) -> None:
    alpha, labels = torch.randn(5, num_classes, dtype=torch.float64), torch.arange(5) % num_classes
    logits = torch.full_like(alpha, 0.7)
    on_prediction = equations.CLOSED_FORMS["prediction", loss](alpha, logits, labels).grad_alpha
    assert_close(on_prediction, torch.zeros_like(alpha), **EXACT)
    if loss != "ce":  # cross-entropy is linear in a, so its gradient vanishes too
        on_label = equations.CLOSED_FORMS["label", loss](alpha, logits, labels).grad_alpha
        assert (on_label.abs().sum(-1) > 1e-6).all()


@given(samples(logit_scales=MODERATE))
def test_jensen_orders_the_variants(sample: Samples) -> None:
    on_label = equations.label_ce(*sample).loss
    on_prediction = equations.prediction_ce(*sample).loss
    assert (on_label >= on_prediction - 1e-12).all()


def test_jensen_is_equality_for_uniform_prediction() -> None:
    alpha, logits, labels = (
        torch.randn(4, 6, dtype=torch.float64),
        torch.zeros(4, 6, dtype=torch.float64),
        torch.arange(4),
    )
    assert_close(equations.label_ce(alpha, logits, labels).loss, equations.prediction_ce(alpha, logits, labels).loss)


@given(samples(max_classes=10))
def test_layer_is_doubly_stochastic_and_symmetric(sample: Samples) -> None:
    """Permuting never increases the spread of a prediction, which Proposition 4 uses."""
    for alpha, _, y in iter_samples(sample):
        layer = permutation_layer(alpha, y)
        ones = torch.ones(len(alpha), dtype=alpha.dtype)
        assert_close(layer.sum(0), ones, **EXACT)
        assert_close(layer.sum(1), ones, **EXACT)
        assert_close(layer, layer.T, **EXACT)
        assert (layer >= 0).all()


def test_layer_of_one_hot_weights_is_a_swap() -> None:
    certain = torch.tensor([-torch.inf, -torch.inf, 0.0, -torch.inf], dtype=torch.float64)
    assert torch.equal(permutation_layer(certain, 1), swap_matrix(4, 1, 2))
    value = reference_loss(
        certain[None], torch.tensor([[0.0, 0.0, 50.0, 0.0]]).double(), torch.tensor([1]), "prediction", "ce"
    )
    assert_close(value, torch.zeros(1, dtype=torch.float64), rtol=0, atol=1e-12)
