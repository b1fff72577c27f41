"""MORPH: memorization against counters, the noise rate against scikit-learn's mixture."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from permll.functional.morph import NO_PREDICTION, is_memorized, noise_rate_from_loss_areas, update_prediction_history


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=8), st.integers(0, 3))
def test_is_memorized_matches_counter(row: list[int], label: int) -> None:
    counts = Counter(value for value in row if value != NO_PREDICTION)
    label_count = counts.pop(label, 0)
    history = torch.tensor([row, row[::-1]], dtype=torch.int32)
    assert (
        is_memorized(history, torch.tensor([label, label])).tolist()
        == [label_count > max(counts.values(), default=0)] * 2
    )


def test_prediction_history_drops_the_oldest() -> None:
    history = torch.full((2, 3), NO_PREDICTION, dtype=torch.int32)
    for predicted in ([5, 1], [6, 2], [7, 3], [8, 4]):
        history = update_prediction_history(history, torch.tensor(predicted))
    assert history.tolist() == [[6, 7, 8], [2, 3, 4]]
    assert history.dtype == torch.int32


def two_components(wrong: int, distance: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    low = 3 + torch.randn(2000 - wrong, generator=generator)
    high = 3 + distance + 2 * torch.randn(wrong, generator=generator)
    return torch.cat([low, high]).clamp_min(0.0)


@pytest.mark.parametrize("wrong", [300, 800, 1200])
def test_noise_rate_matches_sklearn_mixture(wrong: int) -> None:
    areas = two_components(wrong, 12.0)
    rate = noise_rate_from_loss_areas(areas)
    assert rate == pytest.approx(wrong / 2000, abs=0.01)
    scaled = (areas - areas.min()) / (areas.max() - areas.min())
    fitted = GaussianMixture(2, reg_covar=5e-4, random_state=0).fit(scaled[:, None].numpy())
    upper = fitted.means_[:, 0].argmax()
    assert rate == pytest.approx(fitted.predict_proba(scaled[:, None].numpy())[:, upper].mean(), abs=5e-3)


def test_noise_rate_is_scale_invariant() -> None:
    areas = two_components(700, 5.0).double()
    assert noise_rate_from_loss_areas(40 * areas + 3) == pytest.approx(noise_rate_from_loss_areas(areas), rel=1e-6)


def test_noise_rate_of_equal_areas_is_none() -> None:
    assert noise_rate_from_loss_areas(torch.full((7,), 2.5)) is None
