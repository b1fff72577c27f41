"""UniCon's selection: the divergence against scipy's, the cut-off and the shares of classes against loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from permll.functional.selection import js_divergence_cutoff, label_js_divergence, uniform_selection_mask


def test_the_divergence_is_scipys() -> None:
    p, labels = (3 * torch.randn(20, 5, dtype=torch.float64)).softmax(-1), torch.randint(5, (20,))
    for units, base in (("bits", 2.0), ("nats", math.e)):
        found = label_js_divergence(p, labels, units)  # type: ignore[arg-type]
        for i in range(20):
            given_label = [float(k == labels[i]) for k in range(5)]
            assert found[i].item() == pytest.approx(jensenshannon(p[i].numpy(), given_label, base) ** 2, abs=1e-12)


def test_certain_predictions_give_the_ends() -> None:
    p, labels = torch.eye(3).repeat(2, 1), torch.tensor([0, 1, 2, 1, 2, 0])
    assert label_js_divergence(p, labels).tolist() == pytest.approx([0, 0, 0, 1, 1, 1])
    assert label_js_divergence(p, labels, "nats").tolist() == pytest.approx([0, 0, 0, *[math.log(2)] * 3])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_it_lies_in_bounds_and_falls_as_the_label_is_believed(believed: list[float]) -> None:
    given_class = torch.tensor(sorted(believed))
    p = torch.stack([given_class, 1 - given_class], dim=1)
    found = label_js_divergence(p, torch.zeros(len(p), dtype=torch.int64))
    assert bool(((found >= 0) & (found <= 1)).all())
    assert bool((found.diff() <= 1e-6).all())


def test_the_cutoff_is_the_mean_or_lower_where_that_is_high() -> None:
    low = torch.tensor([0.1, 0.2, 0.9], dtype=torch.float64)
    assert js_divergence_cutoff(low) == pytest.approx(0.4)
    high = torch.tensor([0.5, 0.9, 1.0], dtype=torch.float64)
    assert js_divergence_cutoff(high) == pytest.approx(0.8 - (0.8 - 0.5) / 5)
    assert js_divergence_cutoff(high, mean=0.9) == pytest.approx(0.8)
    assert js_divergence_cutoff(high, tau=1.0) == pytest.approx(0.5)


@given(st.data())
def test_every_label_gives_its_best_up_to_the_quota(data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=40))
    divergence = [data.draw(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])) for _ in labels]
    quota = data.draw(st.integers(0, 12))
    found = uniform_selection_mask(torch.tensor(divergence), torch.tensor(labels), quota).tolist()
    for label in set(labels):
        rows = [row for row in range(len(labels)) if labels[row] == label]
        best = sorted(rows, key=lambda row: (divergence[row], row))[:quota]
        assert [row for row in rows if found[row]] == sorted(best)
