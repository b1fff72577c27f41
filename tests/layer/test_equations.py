"""Closed forms against Definition 1 with explicit matrices: values and gradients, to 1e-12 in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from permll.layer import equations
from permll.layer.reference import permutation_layer, reference_loss
from tests.helpers.layer_strategies import Samples, samples

EXACT = {"rtol": 1e-12, "atol": 1e-12}
VARIANTS = [(on, loss) for on in equations.SIDES for loss in equations.LOSSES]


@pytest.mark.parametrize(("on", "loss"), VARIANTS)
@given(samples())
@settings(max_examples=60)
def test_closed_form_matches_definition(on: str, loss: str, sample: Samples) -> None:
    alpha, logits = (x.clone().requires_grad_() for x in (sample.alpha, sample.logits))
    expected = reference_loss(alpha, logits, sample.labels, on, loss)
    grad_alpha, grad_logits = torch.autograd.grad(expected.sum(), (alpha, logits))

    got = equations.CLOSED_FORMS[on, loss](sample.alpha, sample.logits, sample.labels)

    assert expected.isfinite().all()
    assert_close(got.loss, expected, **EXACT)
    assert_close(got.grad_logits, grad_logits, **EXACT)
    assert_close(got.grad_alpha, grad_alpha, **EXACT)


def test_every_side_and_loss_has_a_closed_form() -> None:
    assert set(equations.CLOSED_FORMS) == set(VARIANTS)


@pytest.mark.parametrize("form", equations.CLOSED_FORMS.values())
def test_closed_forms_do_not_modify_arguments(form) -> None:
    alpha, logits, labels = torch.randn(4, 5), torch.randn(4, 5), torch.arange(4)
    before = alpha.clone(), logits.clone()
    form(alpha, logits, labels)
    assert torch.equal(alpha, before[0])
    assert torch.equal(logits, before[1])


@given(samples())
def test_permuted_prediction_matches_matrix_product(sample: Samples) -> None:
    got = equations.permuted_prediction(sample.alpha, sample.probabilities, sample.labels)
    for row, alpha, p, y in zip(got, sample.alpha, sample.probabilities, sample.labels, strict=True):
        assert_close(row, permutation_layer(alpha, int(y)) @ p, **EXACT)


@given(samples(max_classes=10))
def test_layer_matrix_matches_definition_1(sample: Samples) -> None:
    for alpha, y in zip(sample.alpha, sample.labels.tolist(), strict=True):
        assert_close(equations.layer_matrix(alpha, y), permutation_layer(alpha, y), **EXACT)


@given(samples())
def test_prediction_ce_gradients_use_posterior(sample: Samples) -> None:
    r = equations.posterior(sample.alpha, sample.logits)
    got = equations.prediction_ce(sample.alpha, sample.logits, sample.labels)
    assert_close(got.grad_logits, sample.probabilities - r, **EXACT)
    assert_close(got.grad_alpha, sample.alpha.softmax(-1) - r, **EXACT)


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 500.0), (torch.float64, 5000.0)])
def test_prediction_ce_is_finite_for_extreme_alpha(dtype: torch.dtype, far: float) -> None:
    """Label and network are certain of different classes: exp underflows, but nothing is NaN."""
    alpha = torch.tensor([[far, 0.0, 0.0]], dtype=dtype)
    logits = torch.tensor([[0.0, far, 0.0]], dtype=dtype)
    got = equations.prediction_ce(alpha, logits, torch.tensor([0]))
    assert all(x.isfinite().all() for x in got)
    assert got.grad_alpha.argmin() == 1  # α still moves toward the predicted class


@given(samples(), st.sampled_from([1.0, 1e3, 1e30]), st.sampled_from([torch.float32, torch.float64]))
def test_softmax_matches_torch(sample: Samples, scale: float, dtype: torch.dtype) -> None:
    rows = (scale * sample.alpha).to(dtype)
    before, got = rows.clone(), equations.softmax(rows)
    assert torch.equal(rows, before)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    assert_close(got, rows.softmax(-1), rtol=tolerance, atol=tolerance)
    assert_close(got.sum(-1), torch.ones(len(rows), dtype=dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("far", [1e4, 3e38])
def test_softmax_of_extreme_rows_is_one_hot_or_uniform(far: float) -> None:
    rows = torch.tensor([[far, 0.0, -far], [-far, -far, 0.0], [far, far, far], [-far, -far, -far], [-torch.inf, 0, 0]])
    third = [1 / 3] * 3
    assert_close(equations.softmax(rows), torch.tensor([[1.0, 0, 0], [0, 0, 1], third, third, [0, 0.5, 0.5]]))


@given(samples())
def test_normalize_divides_rows_by_their_sums_in_place(sample: Samples) -> None:
    rows = sample.alpha.exp() + 1e-8
    expected = [[value / sum(row) for value in row] for row in rows.tolist()]
    assert equations.normalize(rows) is rows
    assert_close(rows, torch.tensor(expected, dtype=rows.dtype), **EXACT)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 1000])
@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.99])
def test_initial_alpha_gives_label_weight_init(num_classes: int, fraction: float) -> None:
    init = 1 / num_classes + fraction * (1 - 1 / num_classes)
    labels = torch.tensor([0, num_classes - 1])
    a = equations.initial_alpha(labels, num_classes, init, torch.float64).softmax(-1)
    expected = torch.full((2, num_classes), (1 - init) / (num_classes - 1), dtype=torch.float64)
    expected[[0, 1], labels] = init
    assert_close(a, expected, **EXACT)


def test_initial_loss_is_bounded() -> None:
    """-log(lo + (hi - lo) p_y) with hi = m and lo = (1 - m) / (c - 1)."""
    labels, logits = torch.zeros(50, dtype=torch.int64), torch.linspace(-30, 30, 50)[:, None] * torch.eye(10)[0]
    hi, lo = 0.35, 0.65 / 9
    got = equations.prediction_ce(equations.initial_alpha(labels, 10, 0.35), logits, labels).loss
    assert_close(got, -torch.log(lo + (hi - lo) * logits.softmax(-1)[:, 0]))
    assert got.max() <= -torch.tensor(lo).log() + 1e-6


@pytest.mark.parametrize("loss", equations.LOSSES)
@given(samples(max_classes=8, logit_scales=(1.0,)))
@settings(max_examples=20)
def test_plain_loss_matches_layer_with_all_weight_on_label(loss: str, sample: Samples) -> None:
    certain = torch.full_like(sample.alpha, -torch.inf).scatter(1, sample.labels[:, None], 0.0)
    expected = equations.CLOSED_FORMS["prediction", loss](certain, sample.logits, sample.labels).loss
    assert_close(equations.plain_loss(sample.logits, sample.labels, loss), expected, rtol=1e-9, atol=1e-9)
