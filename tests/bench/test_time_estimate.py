"""Estimated time of jobs: from measured jobs, from relative costs, from defaults."""

import statistics

import pytest

from permll.bench import Row, plan
from permll.bench.time_estimate import DEFAULT_EPOCH_SECONDS, estimate_seconds
from permll.methods import METHODS

EPOCHS = 60


def row(method: str, seconds: float | None, tier: str = "tiny", epochs: int = 30) -> Row:
    return {"tier": tier, "method": method, "epochs": epochs, "seconds": seconds}


def test_estimate_uses_median_of_same_method() -> None:
    (job,) = plan(tier="tiny", methods=["gce"], seeds=[1], out="nowhere").jobs
    rows = [row("gce", 3.0), row("gce", 9.0), row("gce", 6.0), row("ce", 1.0), row("gce", 999.0, tier="mini")]
    assert estimate_seconds(job, rows) == pytest.approx(EPOCHS * statistics.median([3, 9, 6]) / 30)
    assert estimate_seconds(job, [row("gce", None), row("ce", 1.5)]) == pytest.approx(EPOCHS * 1.5 / 30)


def test_estimate_uses_costs_of_other_methods_or_defaults() -> None:
    (job,) = plan(tier="tiny", methods=["co_teaching"], seeds=[1], out="nowhere").jobs
    cost = METHODS["co_teaching"].cost
    assert cost > 1.5
    assert estimate_seconds(job, [row("ce", 3.0)]) == pytest.approx(EPOCHS * cost * 0.1)
    assert estimate_seconds(job, []) == pytest.approx(EPOCHS * cost * DEFAULT_EPOCH_SECONDS["tiny"])
