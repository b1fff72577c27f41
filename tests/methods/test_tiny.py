"""Every method at tier tiny: digits, 40 % of the labels wrong. A method that is registered is trained here."""

from pathlib import Path

import pytest

from permll.methods import METHODS
from permll.training import fit

# Test accuracy of the last epoch that a seed must reach, some points below what it does reach. Cross-entropy ends
# near 0.68; where the floor is no higher, the method's own paper claims little more at this noise.
FLOORS = {
    "ce": 0.6,
    "bootstrap_soft": 0.6,
    "bootstrap_hard": 0.6,
    "gce": 0.73,
    "gce_truncated": 0.9,
    "sl": 0.88,
    "nlnl": 0.9,
    "jnpl": 0.9,
    "forward": 0.74,
    "backward": 0.68,
    "glc": 0.73,
    "dual_t": 0.76,
    "t_revision": 0.74,
    "elr": 0.93,
    "sop": 0.87,
    "pencil": 0.9,
    "joint": 0.9,
    "selc": 0.87,
    "selc_plus": 0.9,
    "m_correction": 0.84,
    "decoupling": 0.8,
    "co_teaching": 0.8,
    "co_teaching_plus": 0.88,
    "jocor": 0.93,
    "morph": 0.92,
    "dividemix": 0.95,
    "elr_plus": 0.94,
    "unicon": 0.93,
    "permll": 0.9,
}


@pytest.mark.parametrize("method", METHODS)
def test_it_reaches_a_sane_accuracy_on_digits(method: str, tmp_path: Path) -> None:
    run = fit(method, recipe="tiny/digits", out=tmp_path / "run", training__evaluate_every=1000)
    assert run.result["last"] >= FLOORS.get(method, 0.6)
    final = run.result["final"]
    assert final["correction_accuracy_after"] >= final["correction_accuracy_before"] - 0.02
    assert final["detection_auroc"] > 0.6


@pytest.mark.parametrize("method", METHODS)
def test_it_runs_on_images_with_convolutions(method: str, tmp_path: Path) -> None:
    more = {"data__trusted": 20} if "trusted" in METHODS[method].needs else {}
    run = fit(
        method,
        recipe="tiny/digits",
        out=tmp_path / "run",
        epochs=6,
        network__name="cnn",
        data__train=160,
        training__batch_size=40,
        training__evaluate_every=1000,
        **more,
    )
    assert len(run.findings) == 160


@pytest.mark.parametrize("method", METHODS)
def test_it_runs_on_a_table_of_two_classes(method: str, tmp_path: Path) -> None:
    rows = [
        f"{row % 7 - (row % 2) * 4.5},{'red' if row % 3 else 'blue'},{'yes' if row % 2 else 'no'}" for row in range(120)
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["height,colour,kind", *rows]))
    more = {"data__noise": "sym:0.2", "data__trusted": 20} if "trusted" in METHODS[method].needs else {}
    run = fit(method, path, out=tmp_path / "run", epochs=6, data__options__label="kind", **more)
    assert {finding.proposed for finding in run.findings} <= {"yes", "no"}
    assert run.metrics[-1]["noisy_validation_accuracy"] > 0.5
