"""Hypothesis strategies: random samples with α, logits and a given label."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor


class Samples(NamedTuple):
    alpha: Tensor
    logits: Tensor
    labels: Tensor

    @property
    def probabilities(self) -> Tensor:
        return self.logits.softmax(-1)


@st.composite
def samples(
    draw: st.DrawFn, max_classes: int = 37, logit_scales: tuple[float, ...] = (0.01, 1.0, 10.0, 1e4)
) -> Samples:
    """Draw float64 samples; at scale 1e4 logits are near +-scale, where exp overflows."""
    num_classes = draw(st.integers(2, max_classes))
    batch = draw(st.integers(1, 4))
    alpha_scale = draw(st.sampled_from([0.1, 1.0, 3.0]))
    logit_scale = draw(st.sampled_from(logit_scales))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shape = (batch, num_classes)

    def normal() -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    logits = logit_scale * normal()
    if logit_scale >= 1e4:
        logits = logit_scale * normal().sign() + normal()
    labels = torch.randint(num_classes, (batch,), generator=generator)
    return Samples(alpha_scale * normal(), logits, labels)


@st.composite
def low_spread_samples(draw: st.DrawFn, max_classes: int = 37) -> Samples:
    """Draw samples with max p - min p < 1/c, the assumption of Proposition 4."""
    sample = draw(samples(max_classes, logit_scales=(0.01, 1.0, 10.0)))
    num_classes = sample.logits.shape[1]
    p = sample.probabilities
    spread = (p.amax(-1) - p.amin(-1)).amax()
    # Mixing with the uniform prediction shrinks the spread proportionally.
    weight = draw(st.floats(0.01, 0.999)) * min(1.0, 1 / (num_classes * float(spread)))
    return sample._replace(logits=(weight * p + (1 - weight) / num_classes).log())
