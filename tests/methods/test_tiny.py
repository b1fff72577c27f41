"""Every method at tier tiny: digits, 40 % of the labels wrong. A method that is registered is trained here."""

from pathlib import Path

import pytest

from permll.methods import METHODS
from permll.training.train import train

# What learns the noise by heart stays below this: cross-entropy ends near 0.72.
BY_HEART = 0.8
# Test accuracy of the last epoch that a seed must reach, some points below what two of them do reach.
FLOORS = {
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
EPOCHS = {"dividemix": 10, "unicon": 10}  # each of them costs ten; of the others, twenty are enough to learn by heart


@pytest.mark.parametrize("method", METHODS)
def test_it_reaches_a_sane_accuracy_on_digits(method: str, tmp_path: Path) -> None:
    run = train(
        method=method,
        recipe="tiny/digits",
        out=tmp_path / "run",
        epochs=EPOCHS.get(method, 20),
        overrides={"network.widths": [128, 128], "training.evaluate_every": 1000},
    )
    assert run.result["last"] >= FLOORS.get(method, BY_HEART)
    assert (run.result["last"] < BY_HEART) == (method == "ce"), "without a method this is learned by heart"
    final = run.result["final"]
    assert final["correction_accuracy_after"] >= final["correction_accuracy_before"] - 0.02
    assert final["detection_auroc"] > 0.6


@pytest.mark.parametrize("method", METHODS)
def test_it_runs_on_images_with_convolutions(method: str, tmp_path: Path) -> None:
    more = {"data.trusted": 20} if "trusted" in METHODS[method].needs else {}
    run = train(
        method=method,
        recipe="tiny/digits",
        out=tmp_path / "run",
        epochs=6,
        overrides={
            **more,
            "network.name": "cnn",
            "data.train": 100,
            "training.batch_size": 25,
            "training.evaluate_every": 1000,
        },
    )
    assert len(run.findings) == 100


@pytest.mark.parametrize("method", METHODS)
def test_it_runs_on_a_table_of_two_classes(method: str, tmp_path: Path) -> None:
    rows = [
        f"{row % 7 - (row % 2) * 4.5},{'red' if row % 3 else 'blue'},{'yes' if row % 2 else 'no'}" for row in range(120)
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["height,colour,kind", *rows]))
    more = {"data.noise": "sym:0.2", "data.trusted": 20} if "trusted" in METHODS[method].needs else {}
    run = train(path, method, out=tmp_path / "run", epochs=6, label="kind", overrides=more)
    assert {finding.proposed_label for finding in run.findings} <= {"yes", "no"}
    assert run.metrics[-1]["noisy_validation_accuracy"] > 0.5
