"""Hypothesis strategies for metrics: predictions and labels with ties, empty classes and extreme probabilities."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor


class PredictionCase(NamedTuple):
    p: Tensor
    y: Tensor


class RankingCase(NamedTuple):
    quality: Tensor
    wrong: Tensor


class CorrectionCase(NamedTuple):
    given: Tensor
    corrected: Tensor
    clean: Tensor
    num_classes: int


@st.composite
def prediction_cases(draw: st.DrawFn, max_classes: int = 8) -> PredictionCase:
    """Probabilities (N, c) in float64 with ties, and labels that may leave classes empty."""
    n, c = draw(st.integers(1, 60)), draw(st.integers(2, max_classes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    steps = draw(st.sampled_from([2, 10, 10**9]))
    scores = torch.randint(1, steps + 1, (n, c), generator=generator).double() ** draw(st.sampled_from([1, 6]))
    return PredictionCase(scores / scores.sum(1, keepdim=True), torch.randint(c, (n,), generator=generator))


@st.composite
def ranking_cases(draw: st.DrawFn) -> RankingCase:
    """Quality with few or many levels, and any number of wrong labels, including none and all."""
    n, levels = draw(st.integers(1, 60)), draw(st.sampled_from([1, 3, 10**6]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    quality = torch.randint(levels + 1, (n,), generator=generator).double() / levels
    return RankingCase(quality, torch.rand(n, generator=generator) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])))


@st.composite
def correction_cases(draw: st.DrawFn) -> CorrectionCase:
    n, c = draw(st.integers(1, 60)), draw(st.integers(2, 6))
    labels = st.lists(st.integers(0, c - 1), min_size=n, max_size=n).map(torch.tensor)
    return CorrectionCase(draw(labels), draw(labels), draw(labels), c)
