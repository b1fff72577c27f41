"""Collectives: rows are gathered in order with their gradients, values are summed."""

from pathlib import Path

import pytest
import torch

from permll.distributed.process_group import ProcessGroup
from permll.distributed.sharding import Placement
from tests.helpers.distributed_jobs import load_results


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_gather_rows_keeps_order_and_gradient(processes: int, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue({2: "two_processes", 3: "three_processes"}[processes])
    results = load_results(folder, "gather")
    assert results["rows"].tolist() == results["gradient"].tolist() == list(range(7))
    assert results["sum"].tolist() == [sum(range(1, processes + 1))]


@pytest.mark.parametrize("sharded", [True, False])
def test_placement_assigns_every_row(sharded: bool) -> None:
    index = torch.arange(11)
    placements = [Placement(ProcessGroup(rank, 3), sharded) for rank in range(3)]
    owners = torch.stack([placement.is_local(index) for placement in placements]).sum(0)
    assert owners.tolist() == [1 if sharded else 3] * 11
    for placement in placements:
        local = index[placement.is_local(index)]
        table = index[placement.local_rows]
        assert torch.equal(table[placement.local_index(local)], local)
