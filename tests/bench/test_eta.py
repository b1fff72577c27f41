"""How long it will take: measured cells first, then what methods cost, then memory."""

import statistics

import pytest

from permll.bench import Row, plan
from permll.bench.eta import REMEMBERED, cell_seconds
from permll.methods import METHODS

EPOCHS = 60


def row(method: str, seconds: float | None, tier: str = "tiny", epochs: int = 30) -> Row:
    return {"tier": tier, "method": method, "epochs": epochs, "seconds": seconds}


def test_finished_cells_of_the_same_method_tell_best() -> None:
    (cell,) = plan(tier="tiny", methods=["gce"], seeds=[1], out="nowhere").cells
    rows = [row("gce", 3.0), row("gce", 9.0), row("gce", 6.0), row("ce", 1.0), row("gce", 999.0, tier="mini")]
    assert cell_seconds(cell, rows) == pytest.approx(EPOCHS * statistics.median([3, 9, 6]) / 30)
    assert cell_seconds(cell, [row("gce", None), row("ce", 1.5)]) == pytest.approx(EPOCHS * 1.5 / 30)


def test_else_what_methods_cost() -> None:
    (cell,) = plan(tier="tiny", methods=["co_teaching"], seeds=[1], out="nowhere").cells
    cost = METHODS["co_teaching"].cost
    assert cost > 1.5
    assert cell_seconds(cell, [row("ce", 3.0)]) == pytest.approx(EPOCHS * cost * 0.1)
    assert cell_seconds(cell, []) == pytest.approx(EPOCHS * cost * REMEMBERED["tiny"])
