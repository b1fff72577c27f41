"""``PermLLCallback``: Lightning trains as a plain loop does, on one and two processes, and resumes exactly."""

# ruff: noqa: ARG002 (hooks have the arguments of Lightning)

import doctest
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.testing import assert_close
from torch.utils.data import DataLoader

from permll import PermutationLayer
from tests.helpers.digits_training import (
    N,
    assert_same,
    build_layer,
    build_net,
    digits,
    result,
    run_page_example,
    share_right,
)
from tests.helpers.processes import ROOT, once, run_module

if importlib.util.find_spec("lightning") is None:
    pytest.skip("lightning is not installed (pip install 'permll[lightning]')", allow_module_level=True)

from tests.helpers import lightning_jobs as jobs
from tests.helpers.lightning_jobs import JOBS, Classifier, build_trainer, train_loader

PermLLCallback = jobs.PermLLCallback
# Of Lightning: no workers, few batches, no logger; and its use of PyTorch.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
BOTH_PLACES = pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])


def train_by_hand(epochs: int, accumulate: int = 1, batches: int = 25) -> dict[str, Tensor]:
    """Return the result of a plain loop."""
    net, layer, loader = build_net(), build_layer(), train_loader()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for number, (x, _, index) in zip(range(1, batches + 1), loader, strict=False):
            (layer(net(x), index) / accumulate).backward()
            if number % accumulate == 0 or number == batches:
                optimizer.step()
                layer.step()
                optimizer.zero_grad()
    return result(net, layer)


@BOTH_PLACES
@pytest.mark.parametrize("accumulate", [1, 3])
def test_training_equals_plain_loop(inside: bool, accumulate: int) -> None:
    """25 batches, so that the last step of an epoch has one batch of an accumulated gradient."""
    expected = train_by_hand(30, accumulate)
    assert_same(jobs.train(inside, epochs=30, accumulate_grad_batches=accumulate), expected, atol=1e-12)
    assert share_right(expected["corrected"]) > 0.7


def test_manual_optimization_equals_plain_loop() -> None:
    class Manual(Classifier):
        automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            self.manual_backward(super().training_step(batch, batch_idx) / 2)
            if batch_idx % 2 or batch_idx == 24:
                self.optimizers().step()
                self.optimizers().zero_grad()

    model = Manual(build_layer(), inside=True)
    build_trainer(3, [PermLLCallback()]).fit(model, train_loader())
    assert_same(result(model.net, model.layer), train_by_hand(3, accumulate=2), atol=1e-12)


def fit_20_batches(
    epochs: int, inside: bool, name: str | None, checkpoint: Path | None = None
) -> tuple[Any, dict[str, Tensor]]:
    """Return trainer and result, with epochs of 20 batches, after which the layer is between two estimates."""
    layer = build_layer()
    model = Classifier(layer, inside=inside)
    callback = PermLLCallback(name if name or inside else layer)
    trainer = build_trainer(epochs, [callback], limit_train_batches=20)
    trainer.fit(model, train_loader(), jobs.val_loader(), ckpt_path=checkpoint)
    return trainer, result(model.net, layer)


@pytest.fixture(scope="module")
def uninterrupted() -> dict[str, Tensor]:
    return fit_20_batches(32, inside=True, name=None)[1]


@pytest.mark.parametrize(("inside", "name"), [(True, None), (False, None), (False, "layer")])
def test_resumed_training_equals_uninterrupted_one(
    inside: bool, name: str | None, uninterrupted: dict[str, Tensor], tmp_path: Path
) -> None:
    trainer, middle = fit_20_batches(16, inside, name)
    trainer.save_checkpoint(tmp_path / "middle.ckpt")
    keys = torch.load(tmp_path / "middle.ckpt", weights_only=True).keys()
    assert ("permll" in keys) is not inside  # a submodule is saved once, with the weights
    assert 0 < float(middle["layer.estimates"][0]) < N
    assert_same(fit_20_batches(32, inside, name, tmp_path / "middle.ckpt")[1], uninterrupted)
    assert not torch.equal(middle["corrected"], uninterrupted["corrected"])


@BOTH_PLACES
def test_layer_is_off_in_validation(inside: bool) -> None:
    layer = build_layer()
    model = Classifier(layer, inside=inside)
    trainer = build_trainer(2, [PermLLCallback("layer")], num_sanity_val_steps=2)
    trainer.fit(model, train_loader(), jobs.val_loader())
    assert model.modes == {("train", True), ("validate", False)}
    assert layer.training
    trainer.validate(model, jobs.val_loader(), verbose=False)
    assert layer.training or inside  # Lightning restores the mode of a submodule itself


def batches(*items: tuple[Tensor, ...]) -> DataLoader[Any]:
    return DataLoader(list(items), batch_size=None)


class SharedStep(Classifier):
    """A model that validates with the layer."""

    with_labels = False

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y, index = batch
        loss = self.layer(self.net(x), index, **({"labels": y} if self.with_labels else {}))
        assert_close(loss, cross_entropy(self.net(x), y))


@BOTH_PLACES
def test_index_of_validation_samples_is_refused(inside: bool) -> None:
    layer = build_layer()
    model = SharedStep(layer, inside=inside)
    x, y, labels = digits()
    trainer = build_trainer(1, [PermLLCallback("layer")])
    val = batches((x[N:], y[N:], torch.arange(len(x) - N)))
    with pytest.raises(RuntimeError, match=r"training samples only: use F.cross_entropy\(logits, y\)"):
        trainer.fit(model, train_loader(), val)
    assert layer.training or inside  # Lightning left the whole model in evaluation mode
    assert layer(model.net(x[:4]), torch.arange(4)).isfinite()  # no hook is left
    model.with_labels = True
    with pytest.raises(ValueError, match="labels of the batch are not the layer's"):
        trainer.fit(model, train_loader(), val)
    trainer.fit(model, train_loader(), batches((x[:50], labels[:50], torch.arange(50))))  # samples that the layer has


def test_step_that_mixed_precision_skips_is_discarded() -> None:
    from lightning.pytorch.plugins.precision import MixedPrecision

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-13)
    layer = PermutationLayer(digits()[2], 10)
    model = Classifier(layer, inside=False)
    model.net.float()
    x, _, labels = digits()
    loader = batches(*((x[rows].float(), labels[rows], rows) for rows in torch.arange(N).split(100)))
    trainer = build_trainer(1, [PermLLCallback(layer)], plugins=[MixedPrecision("16-mixed", "cpu", scaler)])
    trainer.fit(model, loader)
    steps = int(next(iter(trainer.optimizers[0].state.values()))["step"])
    assert 8 <= steps < 14 == trainer.global_step
    assert layer.estimates.visits == 100 * steps
    layer.mean_predictions()  # averages the visits
    assert layer.visited.values.nonzero().flatten().tolist() == list(range(N - 100 * steps, N))


def test_several_layers_and_callbacks(tmp_path: Path) -> None:
    """Each callback steps, logs and saves its own layer."""

    class Two(Classifier):
        def __init__(self) -> None:
            super().__init__(build_layer(), inside=True)
            self.heads = torch.nn.ModuleDict({"paper": PermutationLayer.paper(digits()[2], 10, lr=0.1).double()})

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, _, index = batch
            logits = self.net(x)
            return self.layer(logits, index) + self.heads["paper"](logits, index) + outside(logits, index)

    outside, model = build_layer(), Two()
    callbacks = [
        PermLLCallback("layer"),
        PermLLCallback("heads.paper", name="paper"),
        PermLLCallback(outside, name="third"),
    ]
    trainer = build_trainer(2, callbacks)
    trainer.fit(model, train_loader())
    own = {"corrected_share", "mean_label_quality", "is_warm_up", "label_accuracy"}
    logged = {name.partition("/")[::2] for name in trainer.callback_metrics}
    assert {key for prefix, key in logged if prefix == "permll"} == own
    assert {key for prefix, key in logged if prefix == "third"} == own
    assert {key for prefix, key in logged if prefix == "paper"} == {"corrected_share", "mean_label_quality"}
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    assert {"third"} == torch.load(tmp_path / "two.ckpt", weights_only=True).keys() & {"permll", "paper", "third"}
    with pytest.raises(ValueError, match=r"several permutation layers, 2 attributes \(layer, heads.paper\): pass the"):
        build_trainer(1, [PermLLCallback()]).fit(model, train_loader())


def test_layer_that_is_not_found_is_an_error(tmp_path: Path) -> None:
    model = Classifier(build_layer(), inside=False)
    with pytest.raises(ValueError, match="Classifier has no permutation layer among its submodules"):
        build_trainer(1, [PermLLCallback()]).fit(model, train_loader())
    with pytest.raises(TypeError, match=r"Classifier\.net must be a permutation layer, got Sequential"):
        build_trainer(1, [PermLLCallback("net")]).fit(model, train_loader())
    with pytest.raises(AttributeError, match="'Classifier' object has no attribute 'head'"):
        build_trainer(1, [PermLLCallback("head")]).fit(model, train_loader())
    with pytest.raises(TypeError, match="layer must be a permutation layer or the name of an attribute, got Linear"):
        PermLLCallback(torch.nn.Linear(1, 1))
    trainer = build_trainer(1, [])
    trainer.fit(model, train_loader())
    trainer.save_checkpoint(tmp_path / "without.ckpt")
    with pytest.raises(ValueError, match="the checkpoint has no layer 'permll': it was saved without PermLLCallback"):
        build_trainer(2, [PermLLCallback("layer")]).fit(model, train_loader(), ckpt_path=tmp_path / "without.ckpt")


@pytest.fixture(scope="module")
def two_lightning_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the results of two processes."""

    def run(folder: Path) -> None:
        folder.mkdir()
        run_module(jobs.__name__, folder)

    return once("lightning", tmp_path_factory, run)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_two_processes_end_with_state_of_one(two_lightning_processes: Path, job: str) -> None:
    expected = jobs.train(**JOBS[job])
    for rank in range(2):
        loaded = load_file(two_lightning_processes / f"{job}-{rank}.safetensors")
        assert torch.equal(loaded["corrected"], expected["corrected"])
        assert_same(loaded, expected, atol=1e-6)
    assert share_right(expected["corrected"]) > 0.8


def test_page_example_improves_accuracy_and_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page_example("Lightning")
    accuracy = float(names["trainer"].callback_metrics["val_accuracy"])
    labels = names["labels"]
    corrected = names["model"].layer.corrected_labels()
    assert share_right(labels) == 0.6
    assert share_right(corrected) > 0.9
    assert len(list(tmp_path.glob("lightning_logs/*/checkpoints/*.ckpt"))) == 1
    shares = float(names["trainer"].callback_metrics["permll/corrected_share"])
    assert shares == pytest.approx(float((corrected != labels).double().mean()))
    assert (tmp_path / "runs" / "digits").is_dir()
    assert len(names["findings"]) == 1400

    class Plain(names["Classifier"]):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, y, _ = batch
            return cross_entropy(self.net(x), y)

    torch.manual_seed(0)
    trainer = build_trainer(40, [])
    trainer.fit(Plain(labels), names["Digits"]())
    assert accuracy > float(trainer.callback_metrics["val_accuracy"]) + 0.1


def test_docstring_example() -> None:
    module = importlib.import_module("permll.integrations.lightning")
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.slow
def test_pytorch_lightning_without_lightning() -> None:
    code = """
import sys
from tests.helpers.tiny_encoders import import_torchvision
import_torchvision()
sys.modules["lightning"] = None  # as if it were not installed
import torch, pytorch_lightning
from permll import PermutationLayer
from permll.integrations.lightning import PermLLCallback
assert issubclass(PermLLCallback, pytorch_lightning.Callback)
class Model(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.layer = torch.nn.Linear(2, 3), PermutationLayer([0, 1, 2], 3)
    def training_step(self, index, _):
        return self.layer(self.net(torch.ones(len(index), 2)), index)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
model = Model()
trainer = pytorch_lightning.Trainer(max_epochs=1, callbacks=[PermLLCallback()], accelerator="cpu", logger=False,
                                    enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(model, [torch.tensor([0, 2])])
print(model.layer.mean_predictions().ne(1 / 3).any(1).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines()[-1] == "[True, False, True]"
