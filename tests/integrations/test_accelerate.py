"""The layer with Accelerate: saved and resumed exactly, and several processes end with the state of one."""

import importlib.util
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from permll import PermutationLayer
from tests.helpers.digits_training import N, assert_same, run_page_example, share_right
from tests.helpers.processes import once, run_module

if importlib.util.find_spec("accelerate") is None:
    pytest.skip("accelerate is not installed (pip install 'permll[accelerate]')", allow_module_level=True)

from tests.helpers import accelerate_jobs as jobs
from tests.helpers.accelerate_jobs import JOBS

BOTH_PLACES = pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])


@BOTH_PLACES
def test_resumed_training_equals_uninterrupted_one(inside: bool, tmp_path: Path) -> None:
    expected = jobs.train(inside, save=tmp_path / "state")
    assert (tmp_path / "state" / "custom_checkpoint_0.pkl").exists() is not inside  # a submodule is saved once
    assert_same(jobs.train(inside, load=tmp_path / "state"), expected)
    assert not torch.equal(jobs.train(inside, epochs=20, load=tmp_path / "state")["corrected"], expected["corrected"])
    assert share_right(expected["corrected"]) > 0.9


def test_state_of_other_labels_is_refused(tmp_path: Path) -> None:
    from accelerate import Accelerator

    labels = torch.arange(3).repeat(10)
    accelerator = Accelerator(cpu=True)
    accelerator.register_for_checkpointing(PermutationLayer(labels, 3))
    accelerator.save_state(str(tmp_path / "state"))
    other = Accelerator(cpu=True)
    other.register_for_checkpointing(PermutationLayer(labels.flip(0), 3))
    with pytest.raises(RuntimeError, match="the state was saved for other labels"):
        other.load_state(str(tmp_path / "state"))


@pytest.mark.parametrize("placed", [True, False])
def test_prepare_returns_layer_as_it_is(placed: bool) -> None:
    """Accelerate wraps only what has parameters."""
    from accelerate import Accelerator

    layer = PermutationLayer([0, 1, 2], 3)
    accelerator = Accelerator(cpu=True)
    assert accelerator.prepare_model(layer, device_placement=placed) is layer
    layer(torch.randn(3, 3, requires_grad=True), torch.arange(3)).backward()
    layer.step()
    assert layer.mean_predictions().ne(1 / 3).all()


@pytest.fixture(scope="module")
def two_accelerate_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the results of two processes."""

    def run(folder: Path) -> None:
        folder.mkdir()
        run_module(jobs.__name__, folder, processes=2)

    return once("accelerate", tmp_path_factory, run)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_two_processes_end_with_state_of_one(two_accelerate_processes: Path, job: str) -> None:
    expected = jobs.train(**JOBS[job])
    for rank in range(2):
        loaded = load_file(two_accelerate_processes / f"{job}-{rank}.safetensors")
        assert torch.equal(loaded["corrected"], expected["corrected"])
        assert_same(loaded, expected, atol=1e-6)
    assert share_right(expected["corrected"]) > 0.9


def test_page_example_improves_accuracy_and_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page_example("Accelerate")
    images, classes = names["images"], names["digits"]
    assert share_right(names["labels"]) == 0.6
    assert share_right(names["layer"].corrected_labels()) > 0.9
    assert (tmp_path / "checkpoint" / "custom_checkpoint_0.pkl").is_file()

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for rows in (rows for _ in range(40) for rows in torch.randperm(N).split(50)):
        optimizer.zero_grad()
        cross_entropy(net(images[rows]), names["labels"][rows]).backward()
        optimizer.step()

    def accuracy(trained: torch.nn.Module) -> float:
        return float((trained(images[N:]).argmax(1) == classes[N:]).double().mean())

    assert accuracy(names["net"]) > accuracy(net) + 0.1
