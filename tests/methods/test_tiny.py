"""Every method end to end: accuracy on noisy digits, and runs on images of two classes with a convolutional network."""

from functools import cache
from pathlib import Path

import pytest

from permll.data import LabeledData, load
from permll.methods import METHODS, list_methods
from permll.training.train import train

# A network that memorizes the noise stays below this: cross-entropy ends near 0.72.
MEMORIZED = 0.8
# Lower bounds of the test accuracy after the last epoch, some points below that of two seeds.
MIN_ACCURACY = {
    "ce": 0.65,
    "bootstrap_soft": 0.82,
    "bootstrap_hard": 0.82,
    "gce": 0.88,
    "gce_truncated": 0.92,
    "sl": 0.91,
    "nlnl": 0.89,
    "jnpl": 0.91,
    "forward": 0.9,
    "backward": 0.84,
    "glc": 0.89,
    "dual_t": 0.89,
    "t_revision": 0.88,
    "s_model": 0.89,
    "c_model": 0.87,
    "sukhbaatar": 0.87,
    "webly": 0.86,
    "mlnt": 0.9,
    "elr": 0.93,
    "sop": 0.9,
    "pencil": 0.92,
    "joint": 0.92,
    "selc": 0.87,
    "selc_plus": 0.92,
    "m_correction": 0.9,
    "decoupling": 0.89,
    "co_teaching": 0.89,
    "co_teaching_plus": 0.9,
    "jocor": 0.91,
    "morph": 0.86,
    "dividemix": 0.93,
    "elr_plus": 0.94,
    "unicon": 0.91,
    "permll": 0.91,
    "permll_plus": 0.91,
}
EPOCHS = {"dividemix": 10, "unicon": 10}  # their epochs cost ten others; 20 are enough to memorize the noise
MORE = {"decoupling": {"method.warm_up": 1}, "jnpl": {"training.epochs": 12}}  # they would learn too little
FAST = ("ce", "permll", "permll_plus")  # not slow: the baseline and the package's own methods
RUNS = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in list_methods()]


@cache
def two_digits() -> LabeledData:
    """Return 80 images of the digits 0 and 1."""
    data = load("digits")
    rows = (data.labels < 2).nonzero()[:80, 0]
    return LabeledData(data.take(rows).inputs, data.labels[rows], data.classes[:2], data.take(rows).ids)


@pytest.mark.parametrize("method", RUNS)
def test_method_resists_noise_on_digits(method: str, tmp_path: Path) -> None:
    run = train(
        method=method,
        recipe="tiny/digits",
        out=tmp_path / "run",
        epochs=EPOCHS.get(method, 20),
        overrides={"network.widths": [128, 128], "training.evaluate_every": 1000},
    )
    assert run.result["last"] >= MIN_ACCURACY[method]
    assert (run.result["last"] < MEMORIZED) == (method == "ce"), "cross-entropy memorizes the noise"
    final = run.result["final"]
    assert final["correction_accuracy_after"] >= final["correction_accuracy_before"] - 0.02
    assert final["detection_auroc"] > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("method", list_methods())
def test_method_runs_on_images_of_two_classes(method: str, tmp_path: Path) -> None:
    trusted = {"data.trusted": 20, "data.noise": "sym:0.2"} if "trusted" in METHODS[method].needs else {}
    settings = {"network.name": "cnn", "network.widths": [16, 32], "views.weak": [], "views.strong": ["cutout"]}
    settings |= {"training.epochs": 6, "training.batch_size": 8, "training.evaluate_every": 1000}
    overrides = {**settings, "training.threads": 1, **MORE.get(method, {}), **trusted}
    run = train(two_digits(), method, out=tmp_path / "run", overrides=overrides)
    assert {finding.proposed_label for finding in run.findings} <= {"0", "1"}
    assert len(run.findings) == 72
    assert run.metrics[-1]["noisy_validation_accuracy"] > 0.5
