"""skorch: training with the layer, in searches, resumed, and with skorch's own features."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch import Tensor, nn
from torch.utils.data import Dataset

from permll import PermutationLayer
from permll.findings import Findings
from permll.layer.paper import PaperPermutationLayer
from tests.helpers.docs_pages import read_examples, read_page

skorch = pytest.importorskip("skorch")

from skorch import NeuralNetClassifier  # noqa: E402
from skorch.callbacks import Callback, Checkpoint, EpochScoring, LoadInitState  # noqa: E402
from skorch.helper import predefined_split  # noqa: E402

from permll.integrations.skorch import LayerLoss, PermLLNetClassifier  # noqa: E402

N = 1300


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return digits in random order, their classes, and labels of which 40 % are wrong."""
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
    wrong = rng.permutation(len(y)) < 0.4 * len(y)
    return x, y, np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y)


ALL_X, ALL_TRUE, ALL_NOISY = digits()
X, TRUE, Y = ALL_X[:N], ALL_TRUE[:N], ALL_NOISY[:N]
TEST_X, TEST_Y = ALL_X[N:], ALL_TRUE[N:]


def network(width: int = 128) -> nn.Module:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def classifier(cls: Any = PermLLNetClassifier, **settings: Any) -> Any:
    defaults = {"max_epochs": 4, "lr": 0.05, "optimizer__momentum": 0.9, "batch_size": 32, "verbose": 0}
    return cls(network, **{**defaults, "iterator_train__shuffle": True, **settings})


def states(net: Any) -> dict[str, Tensor]:
    """Return the state of network and layer."""
    return {**net.module_.state_dict(), **net.criterion_.state_dict()}


def assert_equal_states(net: Any, other: Any) -> None:
    expected = states(other)
    assert states(net).keys() == expected.keys()
    for name, value in states(net).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.fixture(scope="module")
def trained() -> Any:
    torch.manual_seed(0)
    return classifier(max_epochs=40, module__width=256).fit(X, Y)


def test_accuracy_and_labels_improve_over_the_plain_loss(trained: Any) -> None:
    torch.manual_seed(0)
    plain = classifier(NeuralNetClassifier, criterion=nn.CrossEntropyLoss, max_epochs=40, module__width=256).fit(X, Y)
    assert trained.score(TEST_X, TEST_Y) > plain.score(TEST_X, TEST_Y) + 0.05
    seen = trained_rows(trained)
    corrected = trained.layer_.corrected_labels().numpy()
    assert corrected.shape == (N,)
    assert (corrected == TRUE)[seen].mean() > (Y == TRUE)[seen].mean() + 0.25
    assert (corrected == Y)[~seen].all()  # held out by train_split: the layer did not see them
    quality = trained.layer_.label_quality().numpy()
    assert quality[seen & (Y != TRUE)].mean() < 0.4 < 0.8 < quality[seen & (Y == TRUE)].mean()


def trained_rows(net: Any) -> np.ndarray:
    """Return which rows were trained on, by skorch's split."""
    subset, _ = net.get_split_datasets(X, Y)
    return np.isin(np.arange(N), subset.indices)


def test_predictions_and_history_are_those_of_skorch(trained: Any) -> None:
    probs = trained.predict_proba(TEST_X)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)
    assert (trained.predict(TEST_X) == probs.argmax(1)).all()
    assert trained.classes_.tolist() == list(range(10))
    assert {"train_loss", "valid_loss", "valid_acc"} <= trained.history[-1].keys()
    _, held_out = trained.get_split_datasets(X, Y)
    rows = np.array(held_out.indices)
    plain = nn.functional.cross_entropy(trained.forward(X[rows]), torch.from_numpy(Y[rows]))
    assert trained.history[-1]["valid_loss"] == pytest.approx(float(plain), rel=1e-5)
    assert trained.history[-1]["valid_acc"] == pytest.approx((trained.predict(X[rows]) == Y[rows]).mean())


def test_training_equals_a_loop_in_pytorch() -> None:
    torch.manual_seed(3)
    net = classifier(train_split=None, iterator_train__shuffle=False, max_epochs=3).fit(X, Y)
    torch.manual_seed(3)
    module, layer = network(), PermutationLayer(Y, num_classes=10)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for _ in range(3):
        for index in torch.arange(N).split(32):
            optimizer.zero_grad()
            layer(module(torch.from_numpy(X)[index]), index).backward()
            optimizer.step()
            layer.step()
    expected = {**module.state_dict(), **{f"layer.{name}": value for name, value in layer.state_dict().items()}}
    found = states(net)
    assert found.pop("num_classes") == 10
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, equal_nan=True, msg=name)


def test_example_of_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"X": X, "y": Y, "X_new": TEST_X}
    for example in read_examples(read_page("docs/integrations.md", "skorch")):
        if example.kind == "python":
            exec(example.code, names)
    search = names["search"]
    assert len(search.cv_results_["params"]) == 2
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(names["corrected"]) == len(names["quality"]) == N
    assert (names["labels"] == TEST_Y).mean() > 0.9
    findings: Findings = names["findings"]
    assert len(findings) == N
    proposed = np.where(findings.is_issue, findings.proposed_labels, findings.given_labels)
    unseen = ~trained_rows(search.best_estimator_)
    assert (proposed == TRUE)[unseen].mean() > (Y == TRUE)[unseen].mean() + 0.2  # held-out rows, too


def test_cross_validation_with_settings_of_the_layer() -> None:
    net = classifier(criterion__held_out=0.1, max_epochs=1)
    assert np.isfinite(cross_val_score(net, X, Y, cv=2)).all()
    search = GridSearchCV(net, {"criterion__held_out": [0.0, 0.2]}, cv=2).fit(X, Y)
    best = search.best_estimator_.layer_
    held_out = int(search.best_params_["criterion__held_out"] * N)
    assert int((best.loss_weight.values == 0).sum()) == held_out


def test_layer_of_the_paper() -> None:
    net = classifier(criterion__layer=PermutationLayer.paper, criterion__lr=1.0)
    copied = pickle.loads(pickle.dumps(clone(net).fit(X, Y)))
    assert isinstance(copied.layer_, PaperPermutationLayer)
    assert not torch.equal(copied.layer_.alpha, PermutationLayer.paper(Y, 10, lr=1.0).alpha)


def continued_by_pickle(net: Any, folder: Path) -> Any:
    return pickle.loads(pickle.dumps(net))


def continued_by_copy(net: Any, folder: Path) -> Any:
    return copy.deepcopy(net)


def continued_by_params(net: Any, folder: Path) -> Any:
    files = {f"f_{name}": folder / name for name in ("params", "optimizer", "criterion", "history")}
    net.save_params(**files)
    other = classifier(max_epochs=12).initialize()
    other.load_params(**files)
    return other


@pytest.mark.parametrize("resume", [continued_by_pickle, continued_by_copy, continued_by_params])
@pytest.mark.parametrize("epochs", [12, 22])  # in the warm-up, and after it
def test_resume_is_exact(resume: Callable[[Any, Path], Any], epochs: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = classifier(max_epochs=epochs).fit(X, Y)
    assert net.layer_.is_warm_up == (epochs == 12)
    net.set_params(max_epochs=12)
    other = resume(net, tmp_path)
    for one in (net, other):
        torch.manual_seed(1)  # the order of the samples
        one.partial_fit(X, Y)
    assert not other.layer_.is_warm_up
    assert_equal_states(other, net)
    assert np.array_equal(other.predict_proba(TEST_X), net.predict_proba(TEST_X))
    assert len(other.history) == len(net.history)


def test_checkpoint_of_skorch_resumes(tmp_path: Path) -> None:
    def saving() -> Checkpoint:
        return Checkpoint(monitor=None, dirname=str(tmp_path))

    settings = {"iterator_train__shuffle": False}
    torch.manual_seed(0)
    whole = classifier(max_epochs=6, **settings).fit(X, Y)
    torch.manual_seed(0)
    classifier(max_epochs=4, callbacks=[saving()], **settings).fit(X, Y)
    again = classifier(max_epochs=2, callbacks=[LoadInitState(saving())], **settings)
    again.fit(X, Y)  # a new process would do the same
    assert_equal_states(again, whole)


def test_state_without_safetensors_pickle(tmp_path: Path) -> None:
    net = classifier().fit(X, Y)
    files = {"f_params": tmp_path / "params", "f_criterion": tmp_path / "criterion"}
    net.save_params(**files, use_safetensors=True)
    other = classifier().initialize()
    other.load_params(**files, use_safetensors=True)
    assert_equal_states(other, net)


def test_fit_forgets_and_warm_start_continues() -> None:
    net = classifier(max_epochs=1).fit(X, Y)
    layer = net.layer_
    assert net.fit(X[:500], Y[:500]).layer_ is not layer
    assert len(net.layer_) == 500
    net.set_params(warm_start=True)
    layer = net.layer_
    assert net.fit(X[:500], Y[:500]).layer_ is layer
    for other in (Y[:400], np.roll(Y[:500], 1)):
        with pytest.raises(ValueError, match="y differs from the labels that the net was trained with"):
            net.partial_fit(X[: len(other)], other)


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        return X[index], Y[index]


def test_split_and_inputs_of_the_user() -> None:
    valid = skorch.dataset.Dataset(TEST_X, TEST_Y)
    variants = {
        "dataset": (Rows(), Y),
        "tensors": (torch.from_numpy(X), torch.from_numpy(Y)),
        "skorch dataset": (skorch.dataset.Dataset(X, Y), None),
        "int32": (X, Y.astype(np.int32)),
    }
    expected = None
    for name, (x, y) in variants.items():
        torch.manual_seed(0)
        net = classifier(max_epochs=2, train_split=predefined_split(valid)).fit(x, y)
        expected = net if expected is None else expected
        assert_equal_states(net, expected)
        assert net.history[-1]["valid_acc"] == pytest.approx(net.score(TEST_X, TEST_Y)), name


@pytest.mark.parametrize("use_caching", [True, False])
def test_scores_of_training_samples_and_worker_processes(use_caching: bool) -> None:
    score = EpochScoring("accuracy", name="train_acc", on_train=True, use_caching=use_caching)
    net = classifier(callbacks=[score], iterator_train__num_workers=1, max_epochs=2).fit(X, Y)
    assert 0.1 < net.history[-1]["train_acc"] < 1


class Interrupt(Callback):
    """Ctrl-C between the gradients of the fifth batch and its step; skorch ends the training."""

    def __init__(self) -> None:
        self.left = 5

    def on_grad_computed(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("error")  # the layer would warn of a batch without step
def test_interrupted_batch_is_discarded() -> None:
    net = classifier(callbacks=[Interrupt()], train_split=None).fit(X, Y)
    assert int((net.layer_.mean_predictions() != 0.1).any(1).sum()) == 4 * 32
    assert np.isfinite(net.partial_fit(X, Y).history[-1]["train_loss"])


class Accumulating(PermLLNetClassifier):
    """Gradient accumulation as in skorch's documentation."""

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        step = self.train_step_single(batch, **fit_params)
        if len(self.history[-1, "batches"]) % 2 == 0:
            self.optimizer_.step()
            self.optimizer_.zero_grad()
        return step


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_accumulation_and_compiled_module() -> None:
    assert np.isfinite(classifier(Accumulating).fit(X, Y).history[-1]["train_loss"])
    torch.manual_seed(0)
    compiled = classifier(compile=True, compile__backend="eager", max_epochs=2).fit(X, Y)
    torch.manual_seed(0)
    eager = classifier(max_epochs=2).fit(X, Y)
    assert torch.equal(compiled.layer_.mean_predictions(), eager.layer_.mean_predictions())


def test_class_without_a_label_and_few_rows() -> None:
    net = classifier(train_split=None).fit(X[:3], np.array([0, 8, 0]))
    assert net.layer_.num_classes == 10
    assert net.layer_.corrected_labels().tolist() == [0, 8, 0]


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (Y.astype(float), TypeError, "y must be class numbers from 0, got float64: encode it"),
        (np.where(Y == 3, np.nan, Y), TypeError, "y must be class numbers from 0, got float64"),
        (Y.astype(str), TypeError, "y must be class numbers from 0, got <U"),
        (Y - 1, ValueError, "y must be at least 0, but"),
        (Y + 1, ValueError, r"labels must be in 0\.\.9, but"),
    ],
)
def test_wrong_labels_are_refused(y: np.ndarray, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        classifier(train_split=None).fit(X, y)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="the labels of X are not known: pass y, too"):
        classifier(train_split=None).fit(Rows(), None)
    with pytest.raises(TypeError, match="criterion must be LayerLoss, the default; got CrossEntropyLoss"):
        classifier(criterion=nn.CrossEntropyLoss).fit(X, Y)
    for net in (classifier().initialize(), classifier(max_epochs=1).fit(X, Y)):
        net.trim_for_prediction()
        with pytest.raises(AttributeError, match="the net has no layer: call fit"):
            _ = net.layer_
    with pytest.raises(ValueError, match=r"training batches have no index: a collate_fn"):
        classifier(
            iterator_train__collate_fn=lambda batch: [torch.tensor(np.stack([x for x, _ in batch])), torch.zeros(32)]
        ).fit(X, Y)
    with pytest.raises(ValueError, match="training batches have no index"):
        LayerLoss()(torch.zeros(2, 2), torch.zeros(2))
