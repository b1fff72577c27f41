"""Synchronized batch norm: the same outputs, gradients and statistics as one process."""

from pathlib import Path

import pytest

from permll.distributed.process_group import ProcessGroup
from tests.helpers.distributed_batch_norm import batch_norm_results
from tests.helpers.distributed_jobs import load_results
from tests.helpers.run_results import differences


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_batch_norm_counts_the_rows_of_all_processes(processes: int, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue({2: "two_processes", 3: "three_processes"}[processes])
    assert differences(batch_norm_results(ProcessGroup()), load_results(folder, "batch_norm")) == {}
