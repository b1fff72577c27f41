"""The layer in a user's own loop: several processes end with the state of one process."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

from permll import PermutationLayer
from tests.helpers import own_loop_jobs
from tests.helpers.own_loop_jobs import JOBS, points, train
from tests.helpers.processes import once, run_module

SIZES = (2, 3)


@pytest.fixture(scope="module", params=SIZES)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Return the folder with the results of all jobs, and the number of processes."""
    size: int = request.param

    def run(folder: Path) -> None:
        folder.mkdir()
        run_module(own_loop_jobs.__name__, folder, processes=size)

    return once(f"own_loop_{size}", tmp_path_factory, run), size


@pytest.mark.parametrize("job", JOBS)
def test_processes_end_with_state_of_one_process(results: tuple[Path, int], job: str) -> None:
    folder, size = results
    settings = {name: value for name, value in JOBS[job].items() if name not in ("compiled", "wrapper")}
    expected = train(0, 1, **settings)
    loaded = [load_file(folder / f"{job}-{rank}.safetensors") for rank in range(size)]
    for one in loaded:
        assert one.keys() == expected.keys()
        for key, value in one.items():
            if key == "weight" and "fsdp" in job:
                continue  # each process has a part
            assert_close(value, loaded[0][key], rtol=0, atol=0, equal_nan=True, msg=key)  # to the last bit
            if "bfloat16" not in job:
                assert_close(value, expected[key].contiguous(), rtol=1e-7, atol=1e-7, equal_nan=True, msg=key)
    _, truth, labels = points()
    assert (loaded[0]["corrected"] == expected["corrected"]).double().mean() > 0.99
    assert not torch.equal(expected["alpha"], train(0, 1, **settings, epochs=0)["alpha"])
    if "paper" in job:
        assert (expected["corrected"] == truth).double().mean() > (labels == truth).double().mean() + 0.1


def test_group_of_one_process_exchanges_nothing(results: tuple[Path, int]) -> None:
    folder, size = results
    initial = PermutationLayer.paper(points()[2], own_loop_jobs.C, lr=1.0).double().alpha
    for rank in range(size):
        alpha = load_file(folder / f"alone-{rank}.safetensors")["alpha"]
        changed: Tensor = (alpha != initial).any(1).nonzero().flatten()
        assert changed.tolist() == [rank]
